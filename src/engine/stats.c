/* SPDX-License-Identifier: BSD-2-Clause */
/* The page that shows an endpoint to tools; see base/stats.h. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fds.h"
#include "engine/engine.h"

static struct tw_stats_peer unseen; /* for peers beyond those shown */

enum tw_err tw_stats_open(struct tw_ep *ep)
{
	size_t size = sizeof(struct tw_stats);
	struct tw_stats *s;
	int fd = memfd_create(TW_STATS_NAME, MFD_CLOEXEC);
	FILE *comm;

	if (fd < 0)
		return TW_ENOMEM;
	if (ftruncate(fd, (off_t)size) < 0)
		goto fail;
	s = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s == MAP_FAILED)
		goto fail;
	madvise(s, size, MADV_DONTFORK);
	s->size = (uint32_t)size;
	s->pid = (uint32_t)getpid();
	s->nic_id = ep->host.self.nic_id;
	s->board = ep->board;
	s->endpoint_id = ep->host.self.endpoint_id;
	s->session = ep->host.self.session;
	s->ncounters = TW_NCOUNTERS;
	comm = fopen("/proc/self/comm", "re");
	if (comm) {
		if (fgets(s->program, sizeof(s->program), comm))
			s->program[strcspn(s->program, "\n")] = 0;
		fclose(comm);
	}
	s->magic = TW_STATS_MAGIC;
	ep->stats = s;
	ep->stats_fd = tw_fd_own(fd);
	ep->counters = s->counters;
	ep->gauges = s->gauges;
	return TW_OK;
fail:
	close(fd);
	return TW_ENOMEM;
}

void tw_stats_close(struct tw_ep *ep)
{
	if (!ep->stats)
		return;
	munmap(ep->stats, sizeof(*ep->stats));
	tw_fd_close(ep->stats_fd);
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
		strncpy(show->provider, p->link->provider->name, sizeof(show->provider) - 1);
}
