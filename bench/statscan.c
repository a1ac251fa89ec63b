/* SPDX-License-Identifier: BSD-2-Clause */
#include "statscan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "series.h"

#define LINK_TEXT "/memfd:" TW_STATS_NAME " (deleted)"

/* Copied, not mapped: the owner could shrink a mapping under our feet. */
static bool copy_stats(int fd, struct tw_stats *out)
{
	size_t got = 0;

	while (got < sizeof *out) {
		ssize_t n = pread(fd, (char *)out + got, sizeof *out - got, (off_t)got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return true;
}

static bool plausible(const struct tw_stats *s, const struct stat *st)
{
	return s->magic == TW_STATS_MAGIC && s->size >= sizeof *s &&
	       s->size <= (uint64_t)st->st_size && s->npeers <= TW_STATS_PEERS &&
	       s->ncounters <= sizeof s->counters / sizeof s->counters[0];
}

/*
 * What the link leads to now need not be what it was called a moment ago: a device or a pipe must
 * not be touched.
 */
int scan_open_regular(const char *path, size_t least, struct stat *st)
{
	char self[64];
	int handle, fd = -1;

	handle = open(path, O_PATH | O_CLOEXEC);
	if (handle < 0)
		return -1;
	if (fstat(handle, st) == 0 && S_ISREG(st->st_mode) &&
	    st->st_size >= (off_t)least) {
		snprintf(self, sizeof self, "/proc/self/fd/%d", handle);
		fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	close(handle);
	return fd;
}

static struct scan_entry *read_entry(const char *path, pid_t pid)
{
	struct scan_entry *e;
	struct stat st;
	bool good;
	int fd;

	fd = scan_open_regular(path, sizeof(struct tw_stats), &st);
	if (fd < 0)
		return NULL;
	e = calloc(1, sizeof *e);
	if (!e)
		bench_fail("no memory");
	good = copy_stats(fd, &e->stats) && plausible(&e->stats, &st);
	close(fd);
	if (!good) {
		free(e);
		return NULL;
	}
	e->pid = pid;
	e->dev = st.st_dev;
	e->ino = st.st_ino;
	memcpy(e->program, e->stats.program, sizeof e->stats.program);
	memcpy(e->interface, e->stats.interface, sizeof e->stats.interface);
	for (unsigned i = 0; i < e->stats.npeers; i++)
		memcpy(e->providers[i], e->stats.peers[i].provider,
		       sizeof e->stats.peers[i].provider);
	return e;
}

/* The same memory can be open twice; the process that made it is the owner. */
static void add_entry(struct scan *s, struct scan_entry *e)
{
	for (unsigned i = 0; i < s->n; i++) {
		if (s->entries[i]->dev != e->dev || s->entries[i]->ino != e->ino)
			continue;
		if ((pid_t)e->stats.pid == e->pid) {
			free(s->entries[i]);
			s->entries[i] = e;
		} else {
			free(e);
		}
		return;
	}
	if (s->n == s->room) {
		s->room = s->room ? s->room * 2 : 16;
		s->entries = realloc(s->entries, s->room * sizeof(struct scan_entry *));
		if (!s->entries)
			bench_fail("no memory");
	}
	s->entries[s->n++] = e;
}

static int scan_process(struct scan *s, pid_t pid, uint32_t endpoint_id)
{
	char path[64 + 256], text[sizeof LINK_TEXT + 1];
	struct scan_entry *e;
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir) {
		if (errno == EACCES || errno == EPERM)
			s->denied = true;
		return -1;
	}
	while ((d = readdir(dir))) {
		snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)pid, d->d_name);
		ssize_t n = readlink(path, text, sizeof text);

		if (n != (ssize_t)strlen(LINK_TEXT) || memcmp(text, LINK_TEXT, (size_t)n))
			continue;
		e = read_entry(path, pid);
		if (e && (endpoint_id == SCAN_ANY || e->stats.endpoint_id == endpoint_id))
			add_entry(s, e);
		else
			free(e);
	}
	closedir(dir);
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct scan_entry *x = *(struct scan_entry *const *)a;
	const struct scan_entry *y = *(struct scan_entry *const *)b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->stats.board != y->stats.board)
		return x->stats.board < y->stats.board ? -1 : 1;
	if (x->stats.endpoint_id != y->stats.endpoint_id)
		return x->stats.endpoint_id < y->stats.endpoint_id ? -1 : 1;
	return 0;
}

static void scan_all(struct scan *s, uint32_t endpoint_id)
{
	struct dirent *d;
	DIR *dir;

	dir = opendir("/proc");
	if (!dir)
		bench_fail("/proc: %s", strerror(errno));
	while ((d = readdir(dir)))
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9')
			scan_process(s, (pid_t)atoi(d->d_name), endpoint_id);
	closedir(dir);
}

int scan_endpoints(struct scan *s, pid_t pid, uint32_t endpoint_id)
{
	*s = (struct scan){.when = bench_now()};
	if (!pid)
		scan_all(s, endpoint_id);
	else if (scan_process(s, pid, endpoint_id) < 0)
		return -1;
	if (s->n)
		qsort(s->entries, s->n, sizeof(struct scan_entry *), by_place);
	return 0;
}

void scan_failed(pid_t pid)
{
	if (errno == ENOENT)
		bench_fail("there is no process %d", (int)pid);
	bench_fail("process %d: %s: look as its user, or as root", (int)pid, strerror(errno));
}

const struct scan_entry *scan_find(const struct scan *s, const struct scan_entry *like)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->entries[i]->dev == like->dev && s->entries[i]->ino == like->ino)
			return s->entries[i];
	return NULL;
}

void scan_free(struct scan *s)
{
	for (unsigned i = 0; i < s->n; i++)
		free(s->entries[i]);
	free(s->entries);
	memset(s, 0, sizeof *s);
}

int scan_nothing(const struct scan *s, pid_t pid, uint32_t endpoint_id)
{
	char which[32] = "", whose[32] = "";

	if (endpoint_id != SCAN_ANY)
		snprintf(which, sizeof(which), " %u", endpoint_id);
	if (pid)
		snprintf(whose, sizeof(whose), " in process %d", (int)pid);
	fprintf(stderr, "%s: no endpoint%s is open%s%s\n", bench_tool, which, whose,
		!s->denied ? ""
		: pid	   ? ", which may not be looked into"
			   : " in the processes that may be looked into");
	return pid || endpoint_id != SCAN_ANY;
}
