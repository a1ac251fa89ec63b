/* SPDX-License-Identifier: BSD-2-Clause */
/* One reading of all processes that use the library, or of those of a job. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cli.h"
#include "base/settings.h"
#include "engine/layout.h"
#include "why.h"

void *why_room(void *array, unsigned n, size_t size)
{
	/* A power of two, or none, is full. */
	if (n & (n - 1))
		return array;
	array = realloc(array, (n ? 2 * (size_t)n : 1) * size);
	if (!array)
		bench_fail("no memory");
	return array;
}

struct why_wait *why_wait_new(struct why_proc *p, enum why_kind kind)
{
	struct why_wait *w;

	if (p->nwaits == WHY_MAX_WAITS)
		return NULL;
	p->waits = why_room(p->waits, p->nwaits, sizeof *p->waits);
	w = &p->waits[p->nwaits++];
	*w = (struct why_wait){.kind = kind};
	return w;
}

/* What a file of the process has, ended by a zero. */
static size_t read_file(pid_t pid, const char *name, char *text, size_t len)
{
	char path[64];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	f = fopen(path, "re");
	if (f) {
		n = fread(text, 1, len - 1, f);
		fclose(f);
	}
	text[n] = 0;
	return n;
}

static bool in_environment(const char *all, size_t len, const char *name, char *value, size_t room)
{
	size_t n = strlen(name);

	for (const char *at = all; at < all + len; at += strlen(at) + 1)
		if (strncmp(at, name, n) == 0 && at[n] == '=') {
			snprintf(value, room, "%.*s", (int)(room - 1), at + n + 1);
			return true;
		}
	return false;
}

static char *environment(pid_t pid, size_t *len)
{
	char *all = malloc(1 << 20);

	if (!all)
		bench_fail("no memory");
	*len = read_file(pid, "environ", all, 1 << 20);
	return all;
}

/* TAGWIRE_RANK, or the launcher's number of the process. */
static void read_rank(struct why_proc *p, const char *all, size_t len)
{
	static const char *const names[] = {"TAGWIRE_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
					    "PMI_RANK", "SLURM_PROCID"};

	for (unsigned i = 0; i < sizeof names / sizeof *names && !p->rank[0]; i++)
		in_environment(all, len, names[i], p->rank, sizeof p->rank);
	p->rank[strcspn(p->rank, "/")] = 0;
	table_printable(p->rank);
}

/* Whether a launcher gave the process that job: programs of libfabric do not join it. */
static bool launched_in(const char *job, const char *all, size_t len)
{
	static const char *const names[] = {"PMIX_NAMESPACE", "SLURM_JOB_ID"};
	char value[256];

	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (in_environment(all, len, names[i], value, sizeof value) &&
		    strcmp(value, job) == 0)
			return true;
	return false;
}

/* State and processor time. */
static void read_state(struct why_proc *p)
{
	unsigned long user = 0, kernel = 0;
	char text[1024], *at;

	p->state = 'X';
	read_file(p->pid, "stat", text, sizeof text);
	at = strrchr(text, ')');
	if (at && sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &p->state,
			 &user, &kernel) < 3)
		p->state = 'X';
	p->cpu = user + kernel;
	read_file(p->pid, "comm", p->program, sizeof p->program);
	p->program[strcspn(p->program, "\n")] = 0;
	table_printable(p->program);
}

static void free_endpoint(struct why_ep *ep)
{
	for (unsigned i = 0; i < ep->npeers; i++) {
		free(ep->peers[i].cause);
		free(ep->peers[i].advice);
	}
	free(ep->unexp);
	free(ep->peers);
	free(ep->platforms);
	ep->unexp = NULL;
	ep->peers = NULL;
	ep->platforms = NULL;
	ep->nunexp = ep->npeers = ep->nplatforms = 0;
}

/* The call in which the process waits for all ranks of its job; the same at all endpoints. */
static void read_fence(struct peek *m, struct why_proc *p, unsigned index)
{
	struct tw_stats_fence f;
	struct why_wait *w;

	if (p->fence || !peek(m, p->eps[index].e->stats.fence, &f, sizeof f) || !f.call[0])
		return;
	w = why_wait_new(p, WHY_RANKS);
	if (!w)
		return;
	p->fence = f.begun;
	snprintf(p->rank, sizeof p->rank, "%u", f.rank);
	w->ep = index;
	w->id = f.round;
	w->state = WHY_IS_ENTERED;
	snprintf(w->call, sizeof w->call, "%.*s", (int)sizeof f.call, f.call);
	table_printable(w->call);
	memcpy(w->ranks, f.missing, sizeof w->ranks);
	w->nranks = f.nmissing;
}

static uint64_t where_of(const struct scan_entry *e)
{
	return e->stats.nic_id << 16 | e->stats.endpoint_id;
}

static void read_endpoint(struct peek *m, struct why_proc *p, unsigned index)
{
	struct why_ep *ep = &p->eps[index];
	unsigned waits = p->nwaits;

	ep->job = ep->e->stats.job;
	ep->where = where_of(ep->e);
	memcpy(ep->interface, ep->e->interface, sizeof ep->interface);
	if (!ep->e->stats.self || ep->e->stats.layout != tw_layout()) {
		ep->access = WHY_VERSION;
		return;
	}
	for (unsigned i = 0; i < 3; i++) {
		p->nwaits = waits;
		free_endpoint(ep);
		ep->access = WHY_READ;
		if (why_engine(m, p, ep, index)) {
			read_fence(m, p, index);
			return;
		}
	}
	ep->access = m->denied ? WHY_DENIED : WHY_CHANGED;
	p->denied |= m->denied;
}

/* joined: it says itself that it is of the job. */
static struct why_proc *add_process(struct why_facts *f, pid_t pid, bool joined)
{
	struct why_proc *p;
	size_t len;
	char *all = environment(pid, &len);

	if (f->job && !joined && !launched_in(f->job, all, len)) {
		free(all);
		return NULL;
	}
	f->procs = why_room(f->procs, f->n, sizeof *f->procs);
	p = &f->procs[f->n++];
	*p = (struct why_proc){.pid = pid};
	read_rank(p, all, len);
	read_state(p);
	free(all);
	return p;
}

static void add_endpoints(struct why_facts *f)
{
	for (unsigned i = 0, n; i < f->scan.n; i += n) {
		pid_t pid = f->scan.entries[i]->pid;
		struct peek m = {.pid = pid};
		struct why_proc *p;
		bool joined = false;

		for (n = 0; i + n < f->scan.n && f->scan.entries[i + n]->pid == pid; n++)
			joined |= f->scan.entries[i + n]->stats.job == f->joined;
		p = add_process(f, pid, joined);
		if (!p)
			continue;
		p->eps = calloc(n, sizeof *p->eps);
		if (!p->eps)
			bench_fail("no memory");
		for (p->neps = 0; p->neps < n; p->neps++)
			p->eps[p->neps].e = f->scan.entries[i + p->neps];
		for (unsigned k = 0; k < n; k++)
			read_endpoint(&m, p, k);
	}
}

/* Processes that have no endpoint, as members of an MRAPI job of one host. */
static void add_members(struct why_facts *f, pid_t only)
{
	unsigned known = f->n;
	struct dirent *d;
	DIR *dir = opendir("/proc");
	uint64_t job;

	while (dir && (d = readdir(dir))) {
		pid_t pid = (pid_t)atoi(d->d_name);
		unsigned i = 0;

		if (pid <= 0 || (only && pid != only))
			continue;
		while (i < known && f->procs[i].pid != pid)
			i++;
		if (i == known && why_member(pid, &job))
			add_process(f, pid, job == f->joined);
	}
	if (dir)
		closedir(dir);
}

bool why_in_job(const struct why_proc *p, uint64_t job)
{
	for (unsigned k = 0; k < p->neps; k++)
		if (p->eps[k].job == job)
			return true;
	return p->job == job;
}

static bool is_known(const struct why_facts *f, pid_t pid, uint64_t job, const char *rank)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->procs[i].pid == pid || (f->procs[i].neps && why_in_job(&f->procs[i], job) &&
					       strcmp(f->procs[i].rank, rank) == 0))
			return true;
	return false;
}

/* The end of a long name counts, as in base/settings.c. */
static uint64_t job_named(const char *name)
{
	size_t len = strlen(name);

	return tw_stats_job(len < TW_SETTING_STR_MAX ? name
						     : name + len - (TW_SETTING_STR_MAX - 1));
}

/* The job that a process of a launcher's namespace will join. */
static uint64_t job_to_be(const char *all, size_t len, const char *space)
{
	char name[256];

	return job_named(in_environment(all, len, "TAGWIRE_JOB", name, sizeof name) ? name : space);
}

/* One that the launcher has given the namespace, NULL: any that is wanted, if it is not known. */
static void add_if_launched(struct why_facts *f, pid_t pid, const char *all, size_t len,
			    const char *space, uint64_t job)
{
	char value[256], rank[16];

	if (!in_environment(all, len, "PMIX_NAMESPACE", value, sizeof value) ||
	    !in_environment(all, len, "PMIX_RANK", rank, sizeof rank) ||
	    (space && strcmp(value, space) != 0))
		return;
	if (!space)
		job = job_to_be(all, len, value);
	if (!space && f->job && job != f->joined && strcmp(value, f->job) != 0)
		return;
	if (!is_known(f, pid, job, rank))
		add_process(f, pid, true)->job = job;
}

/* Such processes have no endpoint. */
static void add_launched(struct why_facts *f, const char *space, uint64_t job)
{
	struct dirent *d;
	DIR *dir = opendir("/proc");

	while (dir && (d = readdir(dir))) {
		pid_t pid = (pid_t)atoi(d->d_name);
		size_t len;
		char *all;

		if (pid <= 0)
			continue;
		all = environment(pid, &len);
		add_if_launched(f, pid, all, len, space, job);
		free(all);
	}
	if (dir)
		closedir(dir);
}

/* Of jobs of which a rank waits for others. */
static void add_ranks(struct why_facts *f)
{
	unsigned known = f->n;
	uint64_t done = 0;
	char space[256];

	for (unsigned i = 0; i < known; i++) {
		uint64_t job = f->procs[i].neps ? f->procs[i].eps[0].job : 0;
		size_t len;
		char *all;

		if (!f->procs[i].fence || job == done)
			continue;
		done = job;
		all = environment(f->procs[i].pid, &len);
		if (in_environment(all, len, "PMIX_NAMESPACE", space, sizeof space))
			add_launched(f, space, job);
		free(all);
	}
}

static int by_pid(const void *a, const void *b)
{
	const struct why_proc *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static void add_opens(struct why_facts *f)
{
	for (unsigned i = 0; i < f->scan.n; i++) {
		const struct scan_entry *e = f->scan.entries[i];
		struct why_open *o;

		f->opens = why_room(f->opens, f->nopens, sizeof *f->opens);
		o = &f->opens[f->nopens++];
		*o = (struct why_open){.pid = e->pid, .where = where_of(e), .job = e->stats.job};
		memcpy(o->program, e->program, sizeof o->program);
		table_printable(o->program);
	}
}

/* Processes are numbered, and seen, as in a PID namespace of a system that was booted. */
static uint64_t view(void)
{
	char text[64] = "";
	uint64_t hash = TW_HASH_START;
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (f && fgets(text, sizeof text, f))
		hash = tw_hash_text(hash, text);
	if (f)
		fclose(f);
	/* The number of a namespace alone is that of other hosts, too. */
	if (!text[0] && gethostname(text, sizeof text - 1) == 0)
		hash = tw_hash_text(hash, text);
	text[0] = 0;
	(void)!readlink("/proc/self/ns/pid", text, sizeof text - 1);
	return tw_hash_text(hash, text);
}

static void name_host(struct why_facts *f)
{
	struct why_host *h = why_room(NULL, 0, sizeof *h);

	*h = (struct why_host){.view = view(), .denied = f->scan.denied};
	gethostname(h->name, sizeof h->name - 1);
	h->name[strcspn(h->name, ".")] = 0;
	table_printable(h->name);
	f->hosts = h;
	f->nhosts = 1;
}

void why_read(struct why_facts *f, const char *job, pid_t pid)
{
	*f = (struct why_facts){.job = job, .ticks = tw_clock()};
	if (job)
		f->joined = job_named(job);
	if (scan_endpoints(&f->scan, pid, SCAN_ANY) < 0)
		scan_failed(pid);
	name_host(f);
	add_opens(f);
	add_endpoints(f);
	add_members(f, pid);
	if (!pid)
		add_ranks(f);
	if (f->n)
		qsort(f->procs, f->n, sizeof *f->procs, by_pid);
	why_locks(f);
}

void why_add_ranks(struct why_facts *f)
{
	add_launched(f, NULL, 0);
	if (f->n)
		qsort(f->procs, f->n, sizeof *f->procs, by_pid);
}

static void free_process(struct why_proc *p)
{
	for (unsigned k = 0; k < p->neps; k++)
		free_endpoint(&p->eps[k]);
	free(p->eps);
	free(p->waits);
	free(p->foreign);
}

static bool is_in(uint64_t where, const uint64_t *all, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (all[i] == where)
			return true;
	return false;
}

void why_leave_out(struct why_facts *f, uint64_t job, const uint64_t *where, unsigned n)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < f->n; i++) {
		struct why_proc *p = &f->procs[i];
		bool out = false;

		for (unsigned k = 0; k < p->neps; k++)
			out |= p->eps[k].job == job && is_in(p->eps[k].where, where, n);
		if (out)
			free_process(p);
		else
			f->procs[kept++] = *p;
	}
	f->n = kept;
	kept = 0;
	for (unsigned i = 0; i < f->nopens; i++)
		if (f->opens[i].job != job || !is_in(f->opens[i].where, where, n))
			f->opens[kept++] = f->opens[i];
	f->nopens = kept;
}

static bool is_awaited(const struct why_facts *f, uint64_t job)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->procs[i].fence && why_in_job(&f->procs[i], job))
			return true;
	return false;
}

/* Several hosts --------------------------------------------------------------- */

void why_drop_ranks(struct why_facts *f)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < f->n; i++)
		if (f->procs[i].job && !is_awaited(f, f->procs[i].job))
			f->procs[i].idle = true;
	for (unsigned i = 0; i < f->n; i++)
		if (f->procs[i].idle)
			free_process(&f->procs[i]);
		else
			f->procs[kept++] = f->procs[i];
	f->n = kept;
}

static void set_host(struct why_wait *waits, unsigned n, unsigned host)
{
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < waits[i].nholders; k++)
			waits[i].holders[k].host = host;
}

void why_add_host(struct why_facts *f, struct why_facts *other)
{
	unsigned host = f->nhosts;

	f->hosts = why_room(f->hosts, f->nhosts, sizeof *f->hosts);
	f->hosts[f->nhosts++] = other->hosts[0];
	for (unsigned i = 0; i < other->n; i++) {
		struct why_proc *p = &other->procs[i];

		p->host = host;
		set_host(p->waits, p->nwaits, host);
		set_host(p->foreign, p->nforeign, host);
		f->procs = why_room(f->procs, f->n, sizeof *f->procs);
		f->procs[f->n++] = *p;
	}
	for (unsigned i = 0; i < other->nopens; i++) {
		other->opens[i].host = host;
		f->opens = why_room(f->opens, f->nopens, sizeof *f->opens);
		f->opens[f->nopens++] = other->opens[i];
	}
	other->n = 0;
	why_free(other);
}

void why_free(struct why_facts *f)
{
	for (unsigned i = 0; i < f->n; i++)
		free_process(&f->procs[i]);
	free(f->procs);
	free(f->opens);
	free(f->hosts);
	scan_free(&f->scan);
	*f = (struct why_facts){.n = 0};
}
