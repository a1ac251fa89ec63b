/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records what the endpoints of a job do, merges that, and writes it for Perfetto.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "trace/trace.h"

const char bench_tool[] = "mx_trace";

static const char help[] =
	"Usage: mx_trace [options] COMMAND [ARGUMENT]...\n"
	"       mx_trace [options] -p JOB | --pid P | --dir DIR\n"
	"Runs a command, records the messages of all its processes on this host, writes them\n"
	"to a file for ui.perfetto.dev or chrome://tracing, and prints a summary. Or does so\n"
	"with what processes write that were started with TAGWIRE_TRACE=DIR.\n\n"
	"  -o, --output FILE  the file; default mx_trace.json\n"
	"  --svg FILE         the summary and a timeline as a picture, too\n"
	"  --from MS          where the timeline begins, if not at the first event\n"
	"  --for MS           its length, if not to the last event\n"
	"  --events N         events that each endpoint keeps, a power of two; default 256k\n"
	"  -p, --job JOB      the traces of a running job\n"
	"  --pid P            those of its process P\n"
	"  --dir DIR          the traces in a directory, also of processes that have ended\n"
	"  -h, --help; -V, --version\n";

#define DIRS 8

struct options {
	const char *output, *svg, *job, *dir;
	double from, length; /* ms, of the timeline */
	uint32_t events, pid;
	FILE *file, *picture;
};

static void parse(struct options *o, int argc, char **argv)
{
	const struct cli_option options[] = {
		CLI_OPTION("output", TEXT, &o->output, .letter = 'o'),
		CLI_TEXT("svg", &o->svg),
		CLI_REAL("from", &o->from, 1e9),
		CLI_REAL("for", &o->length, 1e9),
		CLI_UINT("events", &o->events, 1024, TW_TRACE_EVENTS_MOST),
		CLI_OPTION("job", TEXT, &o->job, .letter = 'p'),
		CLI_PID(&o->pid),
		CLI_TEXT("dir", &o->dir),
		{.name = NULL},
	};
	int sources;

	*o = (struct options){.output = "mx_trace.json", .events = 1 << 18};
	bench_cli_command(argc, argv, options, help);
	sources = (o->job != NULL) + (o->pid != 0) + (o->dir != NULL) + (optind < argc);
	if (sources != 1)
		bench_usage(sources ? "a command, --job, --pid and --dir exclude each other"
				    : "give a command, --job, --pid or --dir");
	if (o->events & (o->events - 1))
		bench_usage("--events: %" PRIu32 " is no power of two", o->events);
}

/* A command ---------------------------------------------------------------------- */

static volatile pid_t child;

static void on_signal(int sig)
{
	if (child > 0)
		kill(child, sig);
}

/* In memory if possible: no disk is then written to meanwhile. */
static void make_directory(char *dir, size_t size)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, size, "/dev/shm/mx_trace-XXXXXX");
	if (mkdtemp(dir))
		return;
	snprintf(dir, size, "%s/mx_trace-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		bench_fail("%s: %s", dir, strerror(errno));
}

static void remove_directory(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	rmdir(dir);
}

static void start(char **command, const char *dir, uint32_t events)
{
	char text[16];

	snprintf(text, sizeof text, "%" PRIu32, events);
	setenv("TAGWIRE_TRACE", dir, 1);
	setenv("TAGWIRE_TRACE_EVENTS", text, 1);
	execvp(command[0], command);
	fprintf(stderr, "%s: %s: %s\n", bench_tool, command[0], strerror(errno));
	_exit(127);
}

/* Returns the exit code of the command, as a shell does. Ctrl-C ends the command only. */
static int run(char **command, const char *dir, uint32_t events)
{
	struct sigaction pass = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
	struct sigaction interrupt, term;
	int status;

	sigaction(SIGINT, &ignore, &interrupt);
	sigaction(SIGTERM, &pass, &term);
	child = fork();
	if (child < 0)
		bench_fail("fork: %s", strerror(errno));
	if (child == 0) {
		sigaction(SIGINT, &interrupt, NULL);
		sigaction(SIGTERM, &term, NULL);
		start(command, dir, events);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			bench_fail("waitpid: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* -------------------------------------------------------------------------------- */

static void read_running(struct trace *t, const struct options *o)
{
	char dirs[DIRS][512];
	unsigned n = trace_find(o->job, (int)o->pid, dirs, DIRS);

	if (!n && o->job)
		bench_fail(
			"no process of the job %s writes a trace that may be read: start it with "
			"TAGWIRE_TRACE=DIR",
			o->job);
	if (!n)
		bench_fail("process %" PRIu32 " writes no trace that may be read: start it with "
			   "TAGWIRE_TRACE=DIR",
			   o->pid);
	for (unsigned i = 0; i < n; i++)
		trace_read(t, dirs[i]);
}

static FILE *open_output(const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		bench_fail("%s: %s", path, strerror(errno));
	return f;
}

static void open_outputs(struct options *o)
{
	o->file = open_output(o->output);
	o->picture = o->svg ? open_output(o->svg) : NULL;
}

static void show(struct trace *t, const struct options *o)
{
	struct trace_sums sums;

	trace_sort(t);
	trace_match(t);
	trace_sum(&sums, t);
	trace_chrome(t, o->file, o->output);
	if (o->picture)
		trace_svg(&sums, o->picture, o->svg, o->from, o->length);
	trace_report(&sums);
	trace_sums_free(&sums);
	printf("\n%s has the trace: open it in ui.perfetto.dev or chrome://tracing\n", o->output);
	bench_output_end();
}

int main(int argc, char **argv)
{
	struct trace t = {.n = 0};
	struct options o;
	char dir[512];
	int code = 0;

	parse(&o, argc, argv);
	if (o.dir) {
		trace_read(&t, o.dir);
	} else if (optind < argc) {
		open_outputs(&o); /* the command may take long */
		make_directory(dir, sizeof dir);
		code = run(argv + optind, dir, o.events);
		trace_read(&t, dir);
		remove_directory(dir);
	} else {
		read_running(&t, &o);
	}
	if (!t.n) {
		fprintf(stderr, "%s: no endpoint was traced\n", bench_tool);
		return code ? code : 1;
	}
	if (!o.file)
		open_outputs(&o);
	show(&t, &o);
	trace_free(&t);
	return code;
}
