/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI's locks, and what it asks other hosts. Holders from the segment of the job, which every
 * member has open; waiters from the list of sleepers of each process. What a sleeper waits for is
 * told by its futex word, which lies in the object.
 */
#include "group/group.h"
#include "mrapi/mrapi_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cli.h"
#include "why.h"

#define MOST_WAITS 1024u
#define SEGMENT "/memfd:tagwire-mrapi (deleted)"
#define PATH_ROOM 320

/* The mapping of the segment in a process, and the segment here, read-only. */
struct segment {
	uint64_t base;
	const struct tw_mrapi_segment *seg;
};

/* The address at which the process has it. */
static uint64_t find_base(pid_t pid)
{
	unsigned long from, to, offset;
	char path[64], line[512];
	uint64_t base = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (!base && fgets(line, sizeof line, f))
		if (strstr(line, SEGMENT) &&
		    sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) == 3 && offset == 0)
			base = from;
	fclose(f);
	return base;
}

/* The path of a descriptor of a process that is a link to the segment of a job. */
static bool find_descriptor(pid_t pid, char path[PATH_ROOM])
{
	char text[128];
	struct dirent *d;
	bool found = false;
	DIR *dir;

	snprintf(path, PATH_ROOM, "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (d = readdir(dir))) {
		ssize_t n;

		snprintf(path, PATH_ROOM, "/proc/%d/fd/%s", (int)pid, d->d_name);
		n = readlink(path, text, sizeof text);
		found = n == (ssize_t)strlen(SEGMENT) && memcmp(text, SEGMENT, (size_t)n) == 0;
	}
	closedir(dir);
	return found;
}

static bool map_segment(struct segment *s, const char *path)
{
	void *p = MAP_FAILED;
	struct stat st;
	int fd, seals;

	fd = scan_open_regular(path, sizeof *s->seg, &st);
	if (fd < 0)
		return false;
	/* One that its owner can make shorter would end this program. */
	seals = fcntl(fd, F_GET_SEALS);
	if (seals >= 0 && (seals & F_SEAL_SHRINK))
		p = mmap(NULL, sizeof *s->seg, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return false;
	s->seg = p;
	if (s->seg->magic == TW_MRAPI_MAGIC && s->seg->version == TW_MRAPI_VERSION)
		return true;
	munmap(p, sizeof *s->seg);
	return false;
}

static bool find_segment(struct segment *s, pid_t pid)
{
	char path[PATH_ROOM];

	s->base = find_base(pid);
	return s->base && find_descriptor(pid, path) && map_segment(s, path);
}

bool why_member(pid_t pid, uint64_t *job)
{
	struct segment s;
	char path[PATH_ROOM];

	if (!find_descriptor(pid, path) || !map_segment(&s, path))
		return false;
	*job = s.seg->job;
	munmap((void *)(uintptr_t)s.seg, sizeof *s.seg);
	return true;
}

static struct why_holder node_at(const struct tw_mrapi_segment *seg, uint32_t slot)
{
	struct why_holder h = {.pid = 0};
	const struct tw_mrapi_node *n;

	if (slot == 0 || slot > MRAPI_MAX_NODES)
		return h;
	n = &seg->node[slot - 1];
	h.node = n->number;
	if (n->host)
		h.where = n->where;
	else
		h.pid = (pid_t)n->pid;
	return h;
}

static void add_holder(struct why_wait *w, const struct tw_mrapi_segment *seg, uint32_t slot)
{
	if (slot && w->nholders < tw_countof(w->holders))
		w->holders[w->nholders++] = node_at(seg, slot);
}

static void counting_holders(struct why_wait *w, const struct tw_mrapi_segment *seg,
			     const struct tw_mrapi_counting *c)
{
	add_holder(w, seg, c->writer & TW_MRAPI_PENDING ? 0 : c->writer & TW_MRAPI_OWNER);
	for (unsigned i = 0; i < MRAPI_MAX_SEM_SHAREDLOCKS; i++)
		add_holder(w, seg, c->holder[i]);
	w->moved = c->seq;
}

/* The object that has its futex word at this offset. */
static bool which(const struct tw_mrapi_segment *seg, uint64_t offset, struct why_wait *w)
{
	static const struct {
		size_t from, size, n;
		enum why_kind kind;
	} of[] = {
		{offsetof(struct tw_mrapi_segment, mutex), sizeof seg->mutex[0], MRAPI_MAX_MUTEXES,
		 WHY_MUTEX},
		{offsetof(struct tw_mrapi_segment, sem), sizeof seg->sem[0], MRAPI_MAX_SEMS,
		 WHY_SEM},
		{offsetof(struct tw_mrapi_segment, rwl), sizeof seg->rwl[0], MRAPI_MAX_RWLS,
		 WHY_RWL},
	};

	for (unsigned i = 0; i < tw_countof(of); i++) {
		const struct tw_mrapi_obj *o;

		if (offset < of[i].from || offset >= of[i].from + of[i].size * of[i].n)
			continue;
		offset -= (offset - of[i].from) % of[i].size;
		o = (const void *)((const char *)seg + offset);
		w->kind = of[i].kind;
		w->own = o->id;
		if (w->kind == WHY_MUTEX)
			add_holder(w, seg,
				   ((const struct tw_mrapi_mutex *)(const void *)o)->word &
					   TW_MRAPI_OWNER);
		else
			counting_holders(w, seg, (const void *)o);
		return true;
	}
	return false;
}

struct walk {
	struct peek *m;
	struct why_proc *p;
	const struct segment *s;
};

static bool see_wait(void *arg, uint64_t node)
{
	struct walk *walk = arg;
	struct tw_mrapi_wait at;
	struct why_wait w = {.id = node, .state = WHY_IS_SLEEPING}, *to;
	struct why_proc *p = walk->p;
	struct why_holder me;

	if (!peek(walk->m, node - offsetof(struct tw_mrapi_wait, link), &at, sizeof at))
		return false;
	if (!which(walk->s->seg, (uintptr_t)at.word - walk->s->base, &w))
		return true;
	me = node_at(walk->s->seg, at.me);
	w.other = me.node;
	/* This process only serves it. */
	if (at.me && at.me <= MRAPI_MAX_NODES && !me.pid) {
		w.to = me.where;
		p->foreign = why_room(p->foreign, p->nforeign, sizeof *p->foreign);
		p->foreign[p->nforeign++] = w;
		return true;
	}
	to = why_wait_new(p, w.kind);
	if (!to)
		return false;
	*to = w;
	p->lock_waits = true;
	return true;
}

static void note_nodes(struct why_proc *p, const struct tw_mrapi_segment *seg)
{
	for (unsigned i = 0; i < MRAPI_MAX_NODES; i++) {
		const struct tw_mrapi_node *n = &seg->node[i];

		if (n->life == TW_MRAPI_LIVE && !n->host && (pid_t)n->pid == p->pid &&
		    p->nnodes < tw_countof(p->node))
			p->node[p->nnodes++] = n->number;
	}
}

static void read_process(struct why_proc *p)
{
	struct peek m = {.pid = p->pid};
	struct segment s;
	struct walk w = {&m, p, &s};

	if (!find_segment(&s, p->pid))
		return;
	note_nodes(p, s.seg);
	for (unsigned i = 0; i < TW_MRAPI_PROCS; i++) {
		const struct tw_mrapi_proc *proc = &s.seg->proc[i];

		if ((pid_t)proc->pid == p->pid && (proc->life & 0xff) == TW_MRAPI_LIVE &&
		    proc->waits)
			peek_list(&m, proc->waits, MOST_WAITS, see_wait, &w);
	}
	p->denied |= m.denied;
	munmap((void *)(uintptr_t)s.seg, sizeof *s.seg);
}

struct asked {
	struct peek *m;
	struct why_proc *p;
	unsigned index;
};

static bool see_asked(void *arg, uint64_t node)
{
	struct asked *a = arg;
	struct tw_ctrl_request r;
	struct tw_member to;
	struct why_wait *w;

	if (!peek(a->m, node - offsetof(struct tw_ctrl_request, link), &r, sizeof r) ||
	    !peek(a->m, (uintptr_t)r.to, &to, sizeof to))
		return false;
	w = why_wait_new(a->p, WHY_ASKED);
	if (!w)
		return false;
	w->ep = a->index;
	w->id = r.number;
	w->to = to.where;
	w->state = WHY_IS_ASKED;
	return true;
}

void why_mrapi(struct peek *m, struct why_proc *p, unsigned index, uint64_t group)
{
	struct asked a = {m, p, index};

	peek_list(m, group + offsetof(struct tw_group, requests), MOST_WAITS, see_asked, &a);
}

void why_locks(struct why_facts *f)
{
	for (unsigned i = 0; i < f->n; i++)
		read_process(&f->procs[i]);
}
