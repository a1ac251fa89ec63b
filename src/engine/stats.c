/* SPDX-License-Identifier: BSD-2-Clause */
/* The page with the statistics of an endpoint for tools; see base/stats.h. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fds.h"
#include "base/file.h"
#include "base/sys.h"
#include "engine/layout.h"
#include "engine/trace.h"
#include "shmem/sealed.h"

struct tw_stats_fence tw_stats_fence;
static struct tw_stats_peer unseen; /* shared by the peers for which the page has no space */

enum tw_err tw_stats_open(struct tw_ep *ep)
{
	struct tw_stats *s;
	void *page;
	int fd;

	if (tw_sealed_make(TW_STATS_NAME, sizeof(*s), TW_SEALS & ~F_SEAL_SEAL, &fd, &page) != TW_OK)
		return TW_ENOMEM;
	/* Tools read it. The engine relies on it, so nobody else may write, where the system can.
	 */
	tw_sys_fcntl(fd, F_ADD_SEALS, (void *)(intptr_t)F_SEAL_FUTURE_WRITE);
	tw_sys_fcntl(fd, F_ADD_SEALS, (void *)(intptr_t)F_SEAL_SEAL);
	s = page;
	s->size = (uint32_t)sizeof(*s);
	s->pid = (uint32_t)tw_sys_pid();
	s->nic_id = ep->host.self.nic_id;
	s->board = ep->board;
	s->endpoint_id = ep->host.self.endpoint_id;
	s->session = ep->host.self.session;
	s->ncounters = TW_NCOUNTERS;
	s->layout = tw_layout();
	s->self = (uintptr_t)ep;
	s->job = tw_stats_job(tw_settings.job);
	s->fence = (uintptr_t)&tw_stats_fence;
	if (ep->iface->name)
		snprintf(s->interface, sizeof(s->interface), "%s", ep->iface->name);
	if (tw_file_line("/proc/self/comm", "", s->program, sizeof(s->program)))
		s->program[strcspn(s->program, "\n")] = 0;
	s->magic = TW_STATS_MAGIC;
	ep->stats = s;
	ep->stats_fd = tw_fd_own(fd);
	ep->counters = s->counters;
	ep->gauges = s->gauges;
	return TW_OK;
}

void tw_stats_close(struct tw_ep *ep)
{
	if (!ep->stats)
		return;
	munmap(ep->stats, sizeof(*ep->stats));
	tw_fd_close(ep->stats_fd);
}

static void show_link(struct tw_stats_peer *show, const struct tw_link *l)
{
	snprintf(show->provider, sizeof(show->provider), "%s", tw_link_name(l));
	memcpy(show->paths, l->paths, sizeof(show->paths));
}

void tw_stats_peer(struct tw_peer *p)
{
	struct tw_stats *s = p->ep->stats;
	struct tw_stats_peer *show = &unseen;

	if (p->index < TW_STATS_PEERS) {
		show = &s->peers[p->index];
		s->npeers = tw_max(s->npeers, p->index + 1);
	}
	if (p->show != show)
		memset(show, 0, sizeof(*show));
	p->show = show;
	show->nic_id = p->addr.where >> 16;
	show->endpoint_id = p->addr.where & 0xffff;
	show->session = p->addr.session;
	show->state = p->state;
	if (p->link)
		show_link(show, p->link);
	tw_trace_peer(p);
}

void tw_stats_paths(struct tw_link *link)
{
	struct tw_peer *p = link->peer;

	/* Before it is connected there is no peer, and afterwards it is shown anew. */
	if (p && p->link == link)
		show_link(p->show, link);
}
