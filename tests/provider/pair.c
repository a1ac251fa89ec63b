/* SPDX-License-Identifier: BSD-2-Clause */
#include "provider/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "provider/lossy.h"
#include "providers/net/session.h"
#include "providers/registry.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Every provider there is. */
static const struct traits providers[] = {
	{"self", SHARED | PROMPT | KEEPS | QUIET},
	{"shm", OTHERS | FAULTS | BREAKS | SHARED | PROMPT | KEEPS | QUIET},
#if TW_HAVE_TCP
	{"tcp", OTHERS | BREAKS | PROMPT | KEEPS | QUIET | RIGHTS},
#endif
#ifndef TWT_FAULTY /* the others have faults of their own */
#if TW_HAVE_VERBS
	/* TWT_BOARDS tells which addresses have an RDMA device; tests/vm makes some. */
	{"verbs", OTHERS | BREAKS | PROMPT | KEEPS | QUIET | RIGHTS | DEVICE},
#endif
#if TW_HAVE_OFI
	{"ofi", OTHERS | BREAKS | PROMPT | KEEPS | QUIET | RIGHTS},
#endif
	{"lossy", OTHERS | BREAKS | QUIET},
#endif
};

/* What ofi lacks with a provider of libfabric that TAGWIRE_OFI names: see tagwire-ofi(7). */
static const struct lacks {
	const char *name;
	unsigned traits;
} lacks[] = {{"net", QUIET | KEEPS},
	     {"udp", PROMPT | QUIET | KEEPS | RIGHTS},
	     {"sockets", PROMPT | QUIET | KEEPS}};

static unsigned can_do(const struct traits *t)
{
	const char *name = getenv("TAGWIRE_OFI");

	for (unsigned i = 0; i < tw_countof(lacks) && name && strcmp(t->name, "ofi") == 0; i++)
		if (strncmp(name, lacks[i].name, strlen(lacks[i].name)) == 0)
			return t->can & ~lacks[i].traits;
	return t->can;
}

static void free_list(struct criterion_test_params *params)
{
	cr_free(params->params);
}

struct criterion_test_params providers_that(unsigned can)
{
	struct traits *list = cr_malloc(sizeof(providers));
	const char *only = getenv("TWT_PROVIDER"); /* to look into one of them */
	size_t n = 0;

	for (unsigned i = 0; i < tw_countof(providers); i++) {
		bool named = only && strcmp(only, providers[i].name) == 0;

		list[n] = providers[i];
		list[n].can = can_do(&list[n]);
		n += (list[n].can & can) == can && (only ? named : !(providers[i].can & DEVICE));
	}
	/* A test without parameters would not be seen at all: pair_open() skips this. */
	if (n == 0)
		list[n++] = (struct traits){.name = ""};
	return cr_make_param_array(struct traits, list, n, free_list);
}

/* Tests run side by side: each has names and ports of its own, where no other test's caller asks.
 */
static void own_names(const struct traits *t)
{
	char job[48], port[8];

	snprintf(port, sizeof(port), "%u", 20480 + (unsigned)getpid() % 31 * 32);
	setenv("TAGWIRE_PORT", port, 1);
	snprintf(job, sizeof(job), "conformance-%d-%llx", (int)getpid(),
		 (unsigned long long)(twt_now() * 1e6));
	setenv("TAGWIRE_JOB", job, 1);
	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	/* Else each endpoint of ofi_rxm begins with 64 MB of buffers. */
	setenv("FI_OFI_RXM_MSG_RX_SIZE", "64", 0);
	cr_assert(tw_settings_load());
	/* Some are drivers of these tests alone. */
	snprintf(tw_settings.providers, sizeof(tw_settings.providers), "%s", t->name);
}

struct pair *pair_open(const struct traits *t)
{
	static struct pair p;
	const struct tw_provider *found[TW_MAX_PROVIDERS];

	if (!*t->name)
		cr_skip_test("no provider that can do this");
	own_names(t);
	tw_provider_of_driver = tw_driver_provider; /* in a build without drivers, too */
	tw_driver_add(&lossy);
	tw_clock_init();
	cr_assert_eq(tw_provider_list(t->name, found), 1u);
	p.ops = found[0];
	p.can = t->can;
	p.b = &p.a;
	cr_assert_eq(fake_open(&p.a, p.ops, 1), TW_OK);
	if (t->can & OTHERS) {
		p.b = &p.second;
		cr_assert_eq(fake_open(p.b, p.ops, 2), TW_OK);
	}
	return &p;
}

void pair_connect(struct pair *p, struct fake_peer **ab, struct fake_peer **ba)
{
	const struct tw_ident *to = &p->b->host.self;
	unsigned before = p->b->npeers;
	struct fake_peer *peer = fake_connect(&p->a, to->nic_id, to->endpoint_id, to->filter);

	UNTIL(p, peer->state != FAKE_NEW);
	cr_assert_eq(peer->state, FAKE_UP, "error %d", peer->why);
	cr_assert_eq(p->b->npeers, before + 1);
	*ab = peer;
	*ba = &p->b->peers[before];
}

struct pair *pair_connected(const struct traits *t)
{
	struct pair *p = pair_open(t);

	pair_connect(p, &p->ab, &p->ba);
	return p;
}

void pair_disconnect(struct fake_peer *p)
{
	p->ended = true;
	p->f->ops->disconnect(p->link);
}

void pair_check(const struct pair *p)
{
	cr_assert_null(p->a.wrong, "%s", p->a.wrong);
	cr_assert_null(p->b->wrong, "%s", p->b->wrong);
}

void pair_pump(struct pair *p)
{
	fake_pump(&p->a);
	if (p->b != &p->a)
		fake_pump(p->b);
	pair_check(p);
}

void pair_close(struct pair *p)
{
	pair_check(p);
	/* Neither is pumped while the other waits for its acknowledgements. */
	tw_settings.retry = 0;
	fake_close(&p->a);
	if (p->b != &p->a)
		fake_close(p->b);
	pair_check(p);
}
