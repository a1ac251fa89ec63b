/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wrapper stands between engine and provider on both ways: the engine is
 * given links whose provider is the wrapper, the provider a host whose upcalls
 * are the wrapper's.
 */
#include "fault/faulty.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "engine/engine.h"
#include "lib/twt.h"
#include "naming/naming.h"
#include "providers/net/session.h"
#include "providers/registry.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#define LINKS 2048

/* By default what changes nothing that a program could see. */
#ifndef FAULTY_AGAIN
#define FAULTY_AGAIN 50
#endif
struct faulty faulty = {.seed = 1, .again = FAULTY_AGAIN, .delay = 50};
struct faulty_count faulty_count;

struct kept {
	struct tw_link *link;
	bool up, doomed;
};

/* One opened provider. */
struct wrap {
	struct tw_host host; /* what the provider sees */
	struct tw_host *engine;
	const struct tw_provider *ops, *inner;
	void *instance;
	bool refused; /* a send, since the last look */
	uint64_t rng;
	struct kept links[LINKS];
	unsigned nlinks;
};

/* Every endpoint has its lock, so one random sequence for each wrapper. */
static bool happens(struct wrap *w, unsigned chance, unsigned of, uint64_t *count)
{
	if (!chance || twt_random(&w->rng) % of >= chance)
		return false;
	__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
	return true;
}

/* Which wrapper a link belongs to: few of either. */
static struct wrap *wraps[4096];
static unsigned nwraps;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Inside connect(): what is connected before it returns is new. */
static _Thread_local struct wrap *connecting;

static struct kept *find_in(struct wrap *w, const struct tw_link *link)
{
	for (unsigned i = 0; i < w->nlinks; i++)
		if (w->links[i].link == link)
			return &w->links[i];
	return NULL;
}

static struct wrap *wrap_of(const struct tw_link *link)
{
	struct wrap *found = NULL;

	if (connecting)
		return connecting;
	pthread_mutex_lock(&mutex);
	for (unsigned i = 0; i < nwraps && !found; i++)
		if (wraps[i] && find_in(wraps[i], link))
			found = wraps[i];
	pthread_mutex_unlock(&mutex);
	if (!found)
		abort();
	return found;
}

static void keep(struct wrap *w, struct tw_link *link, bool up)
{
	struct kept *k;

	pthread_mutex_lock(&mutex);
	k = find_in(w, link);
	if (!k) {
		if (w->nlinks == LINKS)
			abort();
		k = &w->links[w->nlinks++];
	}
	*k = (struct kept){link, up, false};
	link->provider = w->ops;
	pthread_mutex_unlock(&mutex);
}

static void drop(struct wrap *w, const struct tw_link *link)
{
	struct kept *k;

	pthread_mutex_lock(&mutex);
	k = find_in(w, link);
	if (k)
		*k = w->links[--w->nlinks];
	pthread_mutex_unlock(&mutex);
}

/* Towards the engine ------------------------------------------------------- */

static struct wrap *of_host(struct tw_host *host)
{
	return tw_container(host, struct wrap, host);
}

static enum tw_err up_packet(struct tw_link *link, struct tw_hdr hdr, const void *payload,
			     uint32_t len)
{
	struct wrap *w = wrap_of(link);
	struct kept *k = find_in(w, link);

	if (k->doomed || happens(w, faulty.delay, 1000, &faulty_count.delay))
		return TW_AGAIN;
	if (happens(w, faulty.down, 1000000, &faulty_count.down)) {
		k->doomed = true;
		return TW_AGAIN;
	}
	return w->engine->up->packet(link, hdr, payload, len);
}

static enum tw_err up_incoming(struct tw_host *host, struct tw_link *link,
			       const struct tw_ident *other, struct tw_ident *me)
{
	struct wrap *w = of_host(host);
	enum tw_err err;

	keep(w, link, true);
	err = w->engine->up->incoming(w->engine, link, other, me);
	if (err != TW_OK)
		drop(w, link);
	return err;
}

static void up_connected(struct tw_link *link, const struct tw_ident *other)
{
	struct wrap *w = wrap_of(link);

	keep(w, link, true);
	w->engine->up->connected(link, other);
}

static void up_refused(struct tw_link *link, enum tw_err why)
{
	struct wrap *w = wrap_of(link);

	drop(w, link);
	w->engine->up->refused(link, why);
}

static void up_down(struct tw_link *link, enum tw_err why)
{
	struct wrap *w = wrap_of(link);

	drop(w, link);
	w->engine->up->down(link, why);
}

static void up_wake(struct tw_host *host)
{
	of_host(host)->engine->up->wake(of_host(host)->engine);
}

static void up_timer(struct tw_host *host, uint64_t when)
{
	of_host(host)->engine->up->timer(of_host(host)->engine, when);
}

static void up_ended(struct tw_link *link, void *cookie, enum tw_err err)
{
	wrap_of(link)->engine->up->ended(link, cookie, err);
}

static void up_paths(struct tw_link *link)
{
	wrap_of(link)->engine->up->paths(link);
}

static void up_poll(struct tw_host *host, void *instance, bool on)
{
	(void)instance; /* the engine knows the wrapper */
	of_host(host)->engine->up->poll(of_host(host)->engine, of_host(host), on);
}

/* All engines of a process have the same. */
static const struct tw_upcalls *engine_up;

static enum tw_err up_locate(uint64_t nic_id, struct sockaddr_storage *sa)
{
	return engine_up->locate(nic_id, sa);
}

static void up_trouble(struct tw_host *host, void *peer, enum tw_err why, const char *cause,
		       const char *advice)
{
	of_host(host)->engine->up->trouble(of_host(host)->engine, peer, why, cause, advice);
}

static const struct tw_upcalls upcalls = {
	.packet = up_packet,
	.incoming = up_incoming,
	.connected = up_connected,
	.refused = up_refused,
	.down = up_down,
	.ended = up_ended,
	.trouble = up_trouble,
	.paths = up_paths,
	.wake = up_wake,
	.poll = up_poll,
	.locate = up_locate,
	.found = tw_naming_found,
	.describe = tw_naming_describe,
	.timer = up_timer,
};

/* Towards the provider ------------------------------------------------------ */

static void do_close(void *instance)
{
	struct wrap *w = instance;

	w->inner->close(w->instance);
	pthread_mutex_lock(&mutex);
	for (unsigned i = 0; i < nwraps; i++)
		if (wraps[i] == w)
			wraps[i] = NULL;
	pthread_mutex_unlock(&mutex);
	free(w);
}

static bool do_reaches(void *instance, uint64_t nic_id, uint32_t endpoint_id)
{
	struct wrap *w = instance;

	return w->inner->reaches(w->instance, nic_id, endpoint_id);
}

static enum tw_err do_connect(void *instance, const struct tw_ident *me, uint64_t nic_id,
			      uint32_t endpoint_id, void *peer, struct tw_link **link)
{
	struct wrap *w = instance;
	enum tw_err err;

	connecting = w;
	err = w->inner->connect(w->instance, me, nic_id, endpoint_id, peer, link);
	connecting = NULL;
	if (err == TW_OK && !find_in(w, *link))
		keep(w, *link, false);
	return err;
}

static void do_disconnect(struct tw_link *link)
{
	struct wrap *w = wrap_of(link);

	drop(w, link);
	w->inner->disconnect(link);
}

static enum tw_err do_send(struct tw_link *link, enum tw_send_class cls, struct tw_hdr hdr,
			   const struct iovec *iov, unsigned niov, uint32_t len)
{
	struct wrap *w = wrap_of(link);

	link->txq = NULL; /* each packet is to come through here */
	if (happens(w, faulty.again, 1000, &faulty_count.again)) {
		w->refused = true;
		return TW_AGAIN;
	}
	return w->inner->send(link, cls, hdr, iov, niov, len);
}

/* What may happen to a get or a put. */
static enum tw_err transfer_fails(struct wrap *w, struct tw_link *link)
{
	if (happens(w, faulty.eperm, 1000, &faulty_count.eperm)) {
		link->can_get = false;
		return TW_EPERM;
	}
	if (happens(w, faulty.efault, 1000, &faulty_count.efault))
		return TW_EFAULT;
	if (happens(w, faulty.lost, 1000, &faulty_count.lost)) {
		find_in(w, link)->doomed = true;
		return TW_ELOST;
	}
	return TW_OK;
}

static enum tw_err do_rma(struct tw_link *link, bool put, const struct iovec *iov, unsigned niov,
			  uint64_t address, const void *key, void *cookie)
{
	struct wrap *w = wrap_of(link);
	enum tw_err err = transfer_fails(w, link);

	return err == TW_OK ? w->inner->rma(link, put, iov, niov, address, key, cookie) : err;
}

static bool do_alive(struct tw_link *link)
{
	return wrap_of(link)->inner->alive(link);
}

static bool do_polls(struct tw_link *link, uint64_t since)
{
	const struct tw_provider *inner = wrap_of(link)->inner;

	return !inner->polls || inner->polls(link, since);
}

static unsigned do_progress(void *instance)
{
	struct wrap *w = instance;
	unsigned n = w->inner->progress(w->instance);

	for (unsigned i = 0; i < w->nlinks; i++) {
		struct tw_link *link = w->links[i].link;

		if (!w->links[i].doomed)
			continue;
		drop(w, link);
		w->inner->disconnect(link);
		w->engine->up->down(link, TW_ELOST);
		i--;
	}
	return n;
}

static bool do_arm(void *instance)
{
	struct wrap *w = instance;
	bool found;

	w->host.state = w->engine->state;
	found = w->inner->arm(w->instance) || w->refused;
	for (unsigned i = 0; i < w->nlinks; i++)
		found |= w->links[i].doomed;
	w->refused = false;
	return found;
}

static void do_disarm(void *instance)
{
	struct wrap *w = instance;

	if (w->inner->disarm)
		w->inner->disarm(w->instance);
}

static void do_hide(void *instance)
{
	struct wrap *w = instance;

	if (w->inner->hide)
		w->inner->hide(w->instance);
}

static uint64_t do_expire(void *instance, uint64_t now)
{
	struct wrap *w = instance;

	return w->inner->expire ? w->inner->expire(w->instance, now) : 0;
}

/* The registry --------------------------------------------------------------- */

extern const struct tw_provider tw_provider_self, tw_provider_shm;
static enum tw_err open_self(struct tw_host *host, void **instance);
static enum tw_err open_shm(struct tw_host *host, void **instance);

#define WRAPPED(its_name, its_open)                                                                \
	.name = its_name, .open = its_open, .close = do_close, .reaches = do_reaches,              \
	.connect = do_connect, .disconnect = do_disconnect, .send = do_send, .rma = do_rma,        \
	.alive = do_alive, .polls = do_polls, .progress = do_progress,                             \
	.arm = do_arm, .disarm = do_disarm, .expire = do_expire, .hide = do_hide
static const struct tw_provider self = {WRAPPED("self", open_self)};
static const struct tw_provider shm = {WRAPPED("shm", open_shm)};

static enum tw_err open_wrapped(const struct tw_provider *ops, const struct tw_provider *inner,
				struct tw_host *host, void **instance)
{
	struct wrap *w = calloc(1, sizeof(*w));
	enum tw_err err;
	unsigned i;

	if (!w)
		return TW_ENOMEM;
	w->host = *host;
	engine_up = host->up;
	w->host.up = &upcalls;
	w->engine = host;
	w->ops = ops;
	w->inner = inner;
	w->rng = faulty.seed ^ host->self.endpoint_id << 8 ^ (inner == &tw_provider_shm);
	err = inner->open(&w->host, &w->instance);
	if (err != TW_OK) {
		free(w);
		return err;
	}
	pthread_mutex_lock(&mutex);
	for (i = 0; i < nwraps && wraps[i]; i++)
		;
	if (i == tw_countof(wraps))
		abort();
	wraps[i] = w;
	nwraps = tw_max(nwraps, i + 1);
	pthread_mutex_unlock(&mutex);
	*instance = w;
	return TW_OK;
}

static enum tw_err open_self(struct tw_host *host, void **instance)
{
	return open_wrapped(&self, &tw_provider_self, host, instance);
}

static enum tw_err open_shm(struct tw_host *host, void **instance)
{
	return open_wrapped(&shm, &tw_provider_shm, host, instance);
}

#if TW_HAVE_NET
static enum tw_err do_mem_reg(struct tw_link *link, void *addr, size_t len, unsigned rights,
			      struct tw_mem_reg *mr)
{
	return wrap_of(link)->inner->mem_reg(link, addr, len, rights, mr);
}

static void do_mem_dereg(struct tw_link *link, struct tw_mem_reg *mr)
{
	wrap_of(link)->inner->mem_dereg(link, mr);
}

static enum tw_err open_net(struct tw_host *host, void **instance);
static const struct tw_provider net = {WRAPPED("net", open_net), .mem_reg = do_mem_reg,
				       .mem_dereg = do_mem_dereg, .query = tw_net_query};

static enum tw_err open_net(struct tw_host *host, void **instance)
{
	return open_wrapped(&net, &tw_provider_net, host, instance);
}
#endif

/* In place of the registry's where that is left out. */
__attribute__((weak)) const struct tw_provider *(*tw_provider_of_driver)(const char *, size_t);

static const struct tw_provider *find(const char *name, size_t len)
{
	if (len == 4 && memcmp(name, "self", len) == 0)
		return &self;
	if (len == 3 && memcmp(name, "shm", len) == 0)
		return &shm;
#if TW_HAVE_NET
	if (tw_driver_provider(name, len))
		return &net;
#endif
	return NULL;
}

unsigned tw_provider_list(const char *names, const struct tw_provider *out[TW_MAX_PROVIDERS])
{
	unsigned n = 0;

	for (size_t len; *names; names += len + (names[len] == ',')) {
		const struct tw_provider *p;
		bool known = false;

		len = strcspn(names, ",");
		p = find(names, len);
		for (unsigned i = 0; i < n; i++)
			known |= out[i] == p;
		if (p && !known)
			out[n++] = p;
	}
	return n;
}
