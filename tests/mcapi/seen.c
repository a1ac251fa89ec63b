/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which function gave which status in which test. Tests run in processes of
 * their own, so they append lines to a file; main() reads it at the end.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mcapi/mcapit.h"

#define FILE_VARIABLE "MCAPIT_SEEN"

#define NAME(x) [x] = #x
static const char *const names[] = {
	NAME(MCAPI_SUCCESS),	    NAME(MCAPI_INCOMPLETE),	NAME(MCAPI_EATTR_INCOMP),
	NAME(MCAPI_ECHAN_OPEN),	    NAME(MCAPI_ECHAN_TYPE),	NAME(MCAPI_ECONNECTED),
	NAME(MCAPI_ENOT_CONNECTED), NAME(MCAPI_ENOT_OPEN),	NAME(MCAPI_EDIR),
	NAME(MCAPI_EEP_NOTALLOWED), NAME(MCAPI_EMESS_LIMIT),	NAME(MCAPI_ENO_BUFFER),
	NAME(MCAPI_ENO_INIT),	    NAME(MCAPI_ENODE_NOTINIT),	NAME(MCAPI_ENO_FINAL),
	NAME(MCAPI_ENO_MEM),	    NAME(MCAPI_ENO_REQUEST),	NAME(MCAPI_ENODE_NOTVALID),
	NAME(MCAPI_ENOT_ENDP),	    NAME(MCAPI_ENOT_OWNER),	NAME(MCAPI_ENOT_HANDLE),
	NAME(MCAPI_ENOTREQ_HANDLE), NAME(MCAPI_EPACK_LIMIT),	NAME(MCAPI_EPARAM),
	NAME(MCAPI_EPORT_NOTVALID), NAME(MCAPI_EREQ_CANCELED),	NAME(MCAPI_EPRIO),
	NAME(MCAPI_ETRUNCATED),	    NAME(MCAPI_ENOT_VALID_BUF), NAME(MCAPI_ESCL_SIZE),
	NAME(MCAPI_EREQ_TIMEOUT),   NAME(MCAPI_EENDP_LIMIT),	NAME(MCAPI_INITIALIZED),
	NAME(MCAPI_EREAD_ONLY),	    NAME(MCAPI_EPARAM_ERROR),	NAME(MCAPI_EENDP_ISCREATED),
	NAME(MCAPI_ERROR),	    NAME(MCAPI_EATTR_NUM),	NAME(MCAPI_EATTR_SIZE),
};
#define STATUSES ((int)(sizeof(names) / sizeof(*names)))

static struct function {
	const char *section, *name, *documented;
	const char *why[STATUSES]; /* it is not produced */
	int seldom[STATUSES];
	char *test[STATUSES]; /* that saw it first */
} functions[] = {
#define FUNCTION(section, name, documented) {section, #name, documented, {0}, {0}, {0}},
#define NEVER(name, status, reason)
#define SELDOM(name, status, reason)
#include "mcapi/statuses.def"
#undef FUNCTION
#undef NEVER
#undef SELDOM
};
#define FUNCTIONS (sizeof(functions) / sizeof(*functions))

static const struct reason {
	const char *name;
	mcapi_status_t status;
	int seldom;
	const char *text;
} reasons[] = {
#define FUNCTION(section, name, documented)
#define NEVER(name, status, reason) {#name, status, 0, reason},
#define SELDOM(name, status, reason) {#name, status, 1, reason},
#include "mcapi/statuses.def"
};

const char *mct_name(mcapi_status_t status)
{
	return status >= 0 && status < STATUSES ? names[status] : "not a status";
}

static struct function *find(const char *name, size_t len)
{
	for (size_t i = 0; i < FUNCTIONS; i++)
		if (strlen(functions[i].name) == len && !strncmp(functions[i].name, name, len))
			return &functions[i];
	return NULL;
}

static char this_test[128];

/* Its name is gone when the main thread has ended. */
static void note_test(void)
{
	snprintf(this_test, sizeof(this_test), "%s/%s", criterion_current_test->category,
		 criterion_current_test->name);
}

void mct_seen(const char *call, mcapi_status_t status)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static atomic_char noted[FUNCTIONS][STATUSES];
	const char *path = getenv(FILE_VARIABLE), *name = strstr(call, "mcapi_");
	const struct function *f;
	char line[200];
	size_t len = 0;
	int n, fd;

	if (!name || !path || status < 0 || status >= STATUSES)
		return;
	pthread_once(&once, note_test);
	while (isalnum((unsigned char)name[len]) || name[len] == '_')
		len++;
	f = find(name, len);
	if (!f || atomic_exchange(&noted[f - functions][status], 1))
		return;
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0)
		return;
	n = snprintf(line, sizeof(line), "%s %d %s\n", f->name, status, this_test);
	if (write(fd, line, (size_t)n) != n)
		perror(path);
	close(fd);
}

static void read_seen(const char *path)
{
	char line[256], name[64], test[128];
	FILE *in = fopen(path, "r");
	int status;

	if (!in)
		return;
	while (fgets(line, sizeof(line), in)) {
		struct function *f = NULL;

		/* A child that outlives its test may not know its name any more. */
		if (sscanf(line, "%63s %d %127s", name, &status, test) == 3)
			f = find(name, strlen(name));
		if (f && status >= 0 && status < STATUSES && !f->test[status])
			f->test[status] = strdup(test);
	}
	fclose(in);
	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
		struct function *f = find(reasons[i].name, strlen(reasons[i].name));

		f->why[reasons[i].status] = reasons[i].text;
		f->seldom[reasons[i].status] = reasons[i].seldom;
	}
}

static int documents(const struct function *f, int status)
{
	const char *at = strstr(f->documented, names[status]);
	size_t len = strlen(names[status]);

	for (; at; at = strstr(at + 1, names[status]))
		if ((at == f->documented || at[-1] == ' ') && (!at[len] || at[len] == ' '))
			return 1;
	return status == MCAPI_SUCCESS;
}

/* Prints the table; how many documented statuses no test produced. */
static int report(void)
{
	int documented = 0, produced = 0, missing = 0;

	printf("\nFunctions, their statuses, and the test that produced each first\n");
	for (struct function *f = functions; f < functions + FUNCTIONS; f++) {
		printf("%s %s\n", f->section, f->name);
		for (int s = 0; s < STATUSES; s++) {
			int is = documents(f, s);
			const char *note = f->test[s];

			if (!is && !note)
				continue;
			documented += is;
			produced += is && note;
			if (!note && f->why[s])
				note = f->why[s];
			else if (!note && ++missing)
				note = "MISSING";
			printf("    %-22s %s%s%s\n", names[s], f->test[s] ? "" : "never: ", note,
			       is ? "" : " (of ours)");
			/* A reason that is no longer true. */
			if (f->test[s] && f->why[s] && !f->seldom[s]) {
				printf("        but: %s\n", f->why[s]);
				missing++;
			}
		}
	}
	printf("%d statuses are documented, %d were produced, %d are missing\n", documented,
	       produced, missing);
	return missing;
}

int main(int argc, char **argv)
{
	char path[] = "/tmp/mcapi-seen-XXXXXX";
	struct criterion_test_set *tests = criterion_initialize();
	int bad = 0, fd = mkstemp(path);

	if (fd < 0 || setenv(FILE_VARIABLE, path, 1) < 0) {
		perror(path);
		return 1;
	}
	close(fd);
	if (criterion_handle_args(argc, argv, true)) {
		bad = !criterion_run_all_tests(tests);
		/* A part of the suite cannot show everything. */
		if (argc == 1) {
			read_seen(path);
			bad |= report() != 0;
		}
	}
	unlink(path);
	criterion_finalize(tests);
	return bad;
}
