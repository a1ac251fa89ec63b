/* SPDX-License-Identifier: BSD-2-Clause */
/* The trace of an endpoint; see engine/trace.h. */
#include "engine/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/report.h"
#include "base/sys.h"

#define IDLE_GAP_US 20 /* polls that are not further apart are one wait */
#define AHEAD 8	       /* events whose line is fetched early */
#define PATH_SIZE (TW_SETTING_PATH_MAX + 64)

struct tw_trace {
	struct tw_trace_file *file;
	struct tw_trace_event *events;
	size_t size;
	uint64_t head, mask, gap;
	uintptr_t thread;		   /* of the last event */
	uint8_t index;			   /* its index */
	uintptr_t known[TW_TRACE_THREADS]; /* by index */
};

/* A file with memory for all of it: a full disk is an error now, and no signal later. */
static struct tw_trace_file *trace_file(const char *path, size_t size)
{
	void *p = MAP_FAILED;
	int fd, err;

	if (size > tw_sys_limit(RLIMIT_FSIZE)) {
		errno = EFBIG;
		return NULL;
	}
	fd = tw_sys_create(path);
	if (fd < 0)
		return NULL;
	if (tw_sys_fallocate(fd, 0, 0, (off_t)size) == 0)
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	err = errno;
	tw_sys_close(fd);
	if (p == MAP_FAILED) {
		tw_sys_unlink(path);
		errno = err;
		return NULL;
	}
	madvise(p, size, MADV_DONTFORK);
	return p;
}

static void trace_head(struct tw_trace_file *f, const struct tw_ep *ep)
{
	char boot[64] = "";

	tw_file_line("/proc/sys/kernel/random/boot_id", "", boot, sizeof(boot));
	f->host = tw_hash_text(TW_HASH_START, boot);
	tw_file_line("/proc/sys/kernel/hostname", "", f->hostname, sizeof(f->hostname));
	f->hostname[strcspn(f->hostname, "\n")] = 0;
	f->nic_id = ep->host.self.nic_id;
	f->endpoint_id = ep->host.self.endpoint_id;
	f->session = ep->host.self.session;
	f->pid = (uint32_t)tw_sys_pid();
	f->per_us = (uint32_t)tw_clock_per_us;
	f->nevents = tw_settings.trace_events;
	memcpy(f->program, ep->stats->program, sizeof(f->program));
	memcpy(f->interface, ep->stats->interface, sizeof(f->interface));
	f->magic = TW_TRACE_MAGIC;
}

void tw_trace_open(struct tw_ep *ep)
{
	size_t size = sizeof(struct tw_trace_file) +
		      tw_settings.trace_events * sizeof(struct tw_trace_event);
	char path[PATH_SIZE], why[128] = "";
	struct tw_trace *t;

	if (!*tw_settings.trace)
		return;
	snprintf(path, sizeof(path), "%s/" TW_TRACE_PREFIX "%d-%u-%08x" TW_TRACE_SUFFIX,
		 tw_settings.trace, (int)tw_sys_pid(), ep->host.self.endpoint_id,
		 ep->host.self.session);
	t = calloc(1, sizeof(*t));
	if (t)
		t->file = trace_file(path, size);
	if (!t || !t->file) {
		snprintf(why, sizeof(why), "no trace is written: %m");
		tw_report(
			TW_LOG_ERROR, path, why,
			"TAGWIRE_TRACE names a directory with space, TAGWIRE_TRACE_EVENTS says how "
			"much");
		free(t);
		return;
	}
	t->events = (struct tw_trace_event *)(t->file + 1);
	t->size = size;
	t->mask = tw_settings.trace_events - 1;
	t->gap = tw_clock_us(IDLE_GAP_US);
	trace_head(t->file, ep);
	ep->trace = t;
	ep->traced = true;
}

void tw_trace_close(struct tw_ep *ep)
{
	if (!ep->trace)
		return;
	munmap(ep->trace->file, ep->trace->size);
	free(ep->trace);
}

void tw_trace_peer(const struct tw_peer *p)
{
	struct tw_trace *t = p->ep->trace;

	if (t && p->index < TW_TRACE_PEERS)
		t->file->peers[p->index] =
			(struct tw_trace_peer){.where = p->addr.where, .session = p->addr.session};
}

static tw_noinline void trace_thread(struct tw_trace *t, uintptr_t me)
{
	uint32_t n = t->file->nthreads, i = 0;

	while (i < n && t->known[i] != me)
		i++;
	if (i == n && n < TW_TRACE_THREADS) {
		t->known[i] = me;
		t->file->threads[i] = (uint32_t)tw_sys_tid();
		t->file->nthreads++;
	}
	t->thread = me;
	t->index = (uint8_t)tw_min(i, TW_TRACE_THREADS - 1u);
}

void tw_trace_add(struct tw_ep *ep, uint64_t tick, enum tw_trace_kind kind, uint32_t peer,
		  uint64_t match, uint32_t len, uint32_t number, uint32_t id)
{
	struct tw_trace *t = ep->trace;
	struct tw_trace_event *e = &t->events[t->head & t->mask];

	if (tw_unlikely(t->thread != tw_thread_id()))
		trace_thread(t, tw_thread_id());
	/* A store that misses the caches would delay the message stores that follow. */
	tw_prefetch_own(&t->events[(t->head + AHEAD) & t->mask]);
	*e = (struct tw_trace_event){.tick = tick,
				     .match = match,
				     .len = len,
				     .id = id,
				     .number = number,
				     .peer = (uint16_t)tw_min(peer, (uint32_t)UINT16_MAX),
				     .thread = t->index,
				     .kind = (uint8_t)kind};
	/* A reader of a running program may see a part of the last event. */
	atomic_store_explicit(&t->file->head, ++t->head, memory_order_relaxed);
}

/*
 * Polls that follow each other are one event, which grows. One poll alone, as of a program that
 * tests between its own work, is no wait: the next replaces it.
 */
void tw_trace_idle(struct tw_ep *ep, uint64_t since)
{
	struct tw_trace *t = ep->trace;
	struct tw_trace_event *e = &t->events[(t->head - 1) & t->mask];
	uint64_t now = tw_clock();

	if (e->kind != TW_TRACE_IDLE || t->thread != tw_thread_id()) {
		tw_trace_add(ep, since, TW_TRACE_IDLE, UINT16_MAX, now, 0, 0, 0);
		return;
	}
	if (since - e->match >= t->gap && e->match != e->tick) {
		tw_trace_add(ep, since, TW_TRACE_IDLE, UINT16_MAX, now, 0, 0, 0);
		return;
	}
	if (since - e->match >= t->gap)
		e->tick = since;
	e->match = now;
}
