/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the traces: of programs that have ended, were killed, or still run. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cli.h"
#include "../statscan.h"
#include "../table.h"
#include "../why/why.h"
#include "trace.h"

void *trace_alloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		bench_fail("no memory");
	return p;
}

static bool read_at(int fd, void *to, size_t len, off_t at)
{
	while (len) {
		ssize_t n = pread(fd, to, len, at);

		if (n <= 0)
			return false;
		to = (char *)to + n;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

/* The events that were not overwritten while they were read, oldest first. */
static bool read_events(int fd, struct trace_ring *r)
{
	uint64_t size = r->head.nevents, end = r->head.head, now = 0, first;
	struct tw_trace_event *all = trace_alloc(size, sizeof *all);

	if (!read_at(fd, all, size * sizeof *all, sizeof(struct tw_trace_file)) ||
	    !read_at(fd, &now, sizeof now, offsetof(struct tw_trace_file, head)) || now < end) {
		free(all);
		return false;
	}
	/* The writer may be amid the next event. */
	first = now >= size ? now + 1 - size : 0;
	r->lost = first < end ? first : end;
	r->n = (size_t)(end - r->lost);
	r->events = trace_alloc(r->n, sizeof *r->events);
	for (size_t i = 0; i < r->n; i++)
		r->events[i] = all[(r->lost + i) & (size - 1)];
	free(all);
	return true;
}

/* Ends it, and makes it fit for JSON and XML. */
static void plain_text(char *text, size_t size)
{
	text[size - 1] = 0;
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~' || strchr("\"\\<&", *c))
			*c = '?';
}

static bool read_ring(const char *path, struct trace_ring *r)
{
	struct stat st;
	int fd = scan_open_regular(path, sizeof r->head, &st);
	uint64_t n;
	bool good;

	*r = (struct trace_ring){.n = 0};
	if (fd < 0)
		return false;
	good = read_at(fd, &r->head, sizeof r->head, 0) && r->head.magic == TW_TRACE_MAGIC;
	n = r->head.nevents;
	good = good && n && n <= TW_TRACE_EVENTS_MOST && !(n & (n - 1)) && r->head.per_us &&
	       (uint64_t)st.st_size >= sizeof r->head + n * sizeof(struct tw_trace_event) &&
	       read_events(fd, r);
	close(fd);
	if (!good)
		return false;
	snprintf(r->name, sizeof r->name, "%.15s %" PRIu32, r->head.program, r->head.pid);
	plain_text(r->name, sizeof r->name);
	plain_text(r->head.hostname, sizeof r->head.hostname);
	plain_text(r->head.interface, sizeof r->head.interface);
	return true;
}

static void add_ring(struct trace *t, char *path)
{
	struct trace_ring r;

	if (!read_ring(path, &r)) {
		table_printable(path); /* another user may have named it */
		fprintf(stderr, "%s: %s is no trace of this version\n", bench_tool, path);
		return;
	}
	t->rings = realloc(t->rings, (t->n + 1) * sizeof *t->rings);
	if (!t->rings)
		bench_fail("no memory");
	t->rings[t->n++] = r;
}

static int by_process(const void *a, const void *b)
{
	const struct tw_trace_file *x = &((const struct trace_ring *)a)->head;
	const struct tw_trace_file *y = &((const struct trace_ring *)b)->head;

	if (x->host != y->host)
		return x->host < y->host ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->endpoint_id > y->endpoint_id) - (x->endpoint_id < y->endpoint_id);
}

/* Clocks agree within a host: its processes are beside each other now. */
static void number_hosts(struct trace *t)
{
	t->nhosts = 1;
	for (unsigned i = 0; i < t->n; i++) {
		struct trace_ring *r = &t->rings[i];

		t->nhosts += i && r->head.host != r[-1].head.host;
		r->host = t->nhosts - 1;
	}
	for (unsigned i = 0; t->nhosts > 1 && i < t->n; i++) {
		struct trace_ring *r = &t->rings[i];
		size_t len = strlen(r->name);

		snprintf(r->name + len, sizeof r->name - len, " on %s", trace_host(t, r->host));
	}
}

const char *trace_host(const struct trace *t, unsigned host)
{
	unsigned i = 0;

	while (t->rings[i].host != host)
		i++;
	return t->rings[i].head.hostname;
}

static bool names_trace(const char *name)
{
	size_t len = strlen(name), end = strlen(TW_TRACE_SUFFIX);

	return len >= end && strcmp(name + len - end, TW_TRACE_SUFFIX) == 0 &&
	       strncmp(name, TW_TRACE_PREFIX, strlen(TW_TRACE_PREFIX)) == 0;
}

void trace_read(struct trace *t, const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[1024];

	if (!d)
		bench_fail("%s: %s", dir, strerror(errno));
	while ((e = readdir(d))) {
		if (!names_trace(e->d_name))
			continue;
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		add_ring(t, path);
	}
	closedir(d);
}

void trace_sort(struct trace *t)
{
	qsort(t->rings, t->n, sizeof *t->rings, by_process);
	number_hosts(t);
}

void trace_free(struct trace *t)
{
	for (unsigned i = 0; i < t->n; i++) {
		free(t->rings[i].events);
		free(t->rings[i].sides);
	}
	free(t->rings);
	free(t->sides);
	free(t->waits);
}

/* A line of /proc/PID/maps that names a trace: its directory. */
static bool directory_in(char *line, char *dir, size_t size)
{
	char *path = strchr(line, '/'), *name;

	line[strcspn(line, "\n")] = 0;
	name = path ? strrchr(path, '/') : NULL;
	if (!name || !names_trace(name + 1))
		return false;
	*name = 0;
	snprintf(dir, size, "%s", path);
	return true;
}

static unsigned find_in(pid_t pid, char dirs[][512], unsigned n, unsigned most)
{
	char path[64], line[1024];
	FILE *maps;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	while (maps && n < most && fgets(line, sizeof line, maps)) {
		unsigned i = 0;

		if (!directory_in(line, dirs[n], sizeof dirs[n]))
			continue;
		while (strcmp(dirs[i], dirs[n]) != 0)
			i++;
		n += i == n;
	}
	if (maps)
		fclose(maps);
	return n;
}

unsigned trace_find(const char *job, int pid, char dirs[][512], unsigned most)
{
	struct why_facts f;
	unsigned n = 0;

	why_read(&f, job, pid);
	for (unsigned i = 0; i < f.n; i++)
		n = find_in(f.procs[i].pid, dirs, n, most);
	why_free(&f);
	return n;
}
