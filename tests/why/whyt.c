/* SPDX-License-Identifier: BSD-2-Clause */
#include "why/whyt.h"

#include <errno.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINES 3
#define TEXT 2048
#define LATE "WHYT_JOB"

void whyt_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	_exit(1);
}

void whyt_compute(void)
{
	for (volatile unsigned long i = 0;; i++)
		;
}

void whyt_sleep(void)
{
	for (;;)
		pause();
}

static void start(const struct whyt_case *c, int me, const char *job)
{
	char role[16], rank[32], self[4096] = "";

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(role, sizeof role, "%d", me);
	snprintf(rank, sizeof rank, "%d/%d", me, c->n);
	/* Half of them choose their job after their start. */
	unsetenv("TAGWIRE_JOB");
	setenv(me & 1 ? LATE : "TAGWIRE_JOB", job, 1);
	setenv("TAGWIRE_RANK", rank, 1);
	/* By its name, which is what mx_why shows. */
	if (readlink("/proc/self/exe", self, sizeof self - 1) > 0)
		execl(self, self, c->name, role, NULL);
	_exit(127);
}

/* The first three lines that mx_why prints, without their ends. */
static int ask(const char *job, pid_t pid, char lines[LINES][TEXT])
{
	char command[4096], of[32] = "";
	FILE *f;

	if (pid)
		snprintf(of, sizeof of, "--pid %d", (int)pid);
	snprintf(command, sizeof command, "'%s/bench/mx_why' --interval 0.2 %s %s 2>&1",
		 getenv("builddir") ? getenv("builddir") : ".", of, pid ? "" : job);
	f = popen(command, "r");
	if (!f)
		return -1;
	for (int i = 0; i < LINES; i++) {
		if (!fgets(lines[i], TEXT, f))
			lines[i][0] = 0;
		lines[i][strcspn(lines[i], "\n")] = 0;
	}
	while (fgetc(f) != EOF)
		;
	return pclose(f);
}

/* Whether a line is what is wanted. */
static bool fits(const char *want, const char *line, const pid_t *pids)
{
	char pid[16];

	for (; *want; want++) {
		int role, used = 0;

		if (*want == '*') {
			for (; *line; line++)
				if (fits(want + 1, line, pids))
					return true;
			return !want[1];
		}
		if (sscanf(want, "{%d}%n", &role, &used) == 1 && used) {
			snprintf(pid, sizeof pid, "%d", (int)pids[role]);
			if (strncmp(line, pid, strlen(pid)) != 0)
				return false;
			line += strlen(pid);
			want += used - 1;
		} else if (*want != *line++) {
			return false;
		}
	}
	return !*line;
}

static bool all_fit(const struct whyt_case *c, char lines[LINES][TEXT], const pid_t *pids)
{
	for (int i = 0; i < LINES; i++)
		if (c->want[i] && !fits(c->want[i], lines[i], pids))
			return false;
	return true;
}

/* By the whole job, or by one of its processes. */
static bool explained(const struct whyt_case *c, const char *job, pid_t pid, const pid_t *pids)
{
	char lines[LINES][TEXT] = {""};
	double limit = twt_now() + TWT_LONG;
	int code;

	/* Those of a busy machine need their time to get there. */
	do {
		code = ask(job, pid, lines);
		if (WIFEXITED(code) && WEXITSTATUS(code) == 3 && all_fit(c, lines, pids))
			return true;
	} while (twt_now() < limit);
	fprintf(stderr, "%s: exit code %d\n", c->name, WIFEXITED(code) ? WEXITSTATUS(code) : -1);
	for (int i = 0; i < LINES; i++)
		fprintf(stderr, "  says:   %s\n  not:    %s\n", lines[i],
			c->want[i] ? c->want[i] : "(anything)");
	return false;
}

/* Then the same is said of that process alone. */
static bool begins_with_role_0(const struct whyt_case *c)
{
	const char *first = c->want[0] ? strchr(c->want[0], '{') : NULL;

	return first && strncmp(first, "{0}", 3) == 0 && !strstr(c->want[0], "more wait");
}

/* The state of the first case of that role; then its process 1 gets the signal. */
static bool disturbed(const struct whyt_case *first, const struct whyt_case *c, const char *job,
		      const pid_t *pids)
{
	while (first->role != c->role)
		first++;
	return explained(first, job, 0, pids) && kill(pids[1], c->signal) == 0;
}

static bool run(const struct whyt_case *cases, const struct whyt_case *c)
{
	pid_t pids[WHYT_MOST];
	char job[64];
	bool good;

	snprintf(job, sizeof job, "why-%d-%s", (int)getpid(), c->name);
	for (int i = 0; i < c->n; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			start(c, i, job);
	}
	good = (!c->signal || disturbed(cases, c, job, pids)) && explained(c, job, 0, pids) &&
	       (!begins_with_role_0(c) || explained(c, job, pids[0], pids));
	for (int i = 0; i < c->n; i++)
		kill(pids[i], SIGKILL);
	for (int i = 0; i < c->n; i++)
		waitpid(pids[i], NULL, 0);
	printf("%s: %s\n", c->name, good ? "explained" : "NOT EXPLAINED");
	return good;
}

int whyt_main(int argc, char **argv, const struct whyt_case *cases, int n)
{
	int bad = 0, ran = 0;

	if (argc == 3 && getenv(LATE))
		setenv("TAGWIRE_JOB", getenv(LATE), 1);
	for (int i = 0; i < n; i++) {
		if (argc == 3 && strcmp(argv[1], cases[i].name) == 0) {
			cases[i].role(atoi(argv[2]), cases[i].n);
			return 0;
		}
		if (argc == 2 && strcmp(argv[1], cases[i].name) != 0)
			continue;
		if (argc < 3) {
			ran++;
			bad += !run(cases, &cases[i]);
		}
	}
	return bad || !ran;
}
