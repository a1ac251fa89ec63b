/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the tests of the provider, which use libfabric's public calls only. */
#ifndef FIT_H
#define FIT_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdlib.h>
#include <string.h>

#include "base/libfabric.h"
#include "lib/twt.h"

#define FIT_MAX 4
#define FIT_TIMEOUT TWT_TIMEOUT

/* How the endpoints of a test reach each other: a value of TAGWIRE_PROVIDERS. */
typedef char fit_way[16];

/* Changes to what fit_open() asks for. */
struct fit_how {
	uint64_t caps;	   /* in addition to both kinds of messages */
	uint64_t cq_flags; /* of fi_ep_bind() */
	enum fi_cq_format format;
	enum fi_wait_obj wait;
	enum fi_threading threading;
	size_t tx_size, rx_size, cq_size;
	uint32_t addr_format;
	int mr_mode;
};

/* Endpoints of one domain, each with a queue for both directions and all addresses. */
struct fit {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq[FIT_MAX];
	struct fid_ep *ep[FIT_MAX];
	fi_addr_t to[FIT_MAX];
	unsigned n;
	struct fit_how how;
};

/* Points libfabric at the provider in this build. Before any call of libfabric. */
void fit_env(const char *way);
struct fi_info *fit_hints(const struct fit_how *how);
void fit_open(struct fit *t, unsigned n, const char *way, struct fit_how how);
void fit_close(struct fit *t);
/* One more endpoint; or in two steps, between which something may be bound to the last. */
void fit_add(struct fit *t);
void fit_prepare(struct fit *t);
void fit_enable(struct fit *t);

/* The next event of a queue, an error included; all are driven meanwhile. */
struct fi_cq_err_entry fit_next(struct fit *t, unsigned i);
/* The next, which must be no error, with this context. */
struct fi_cq_err_entry fit_good(struct fit *t, unsigned i, void *context);
/* The next, which must be this error. */
struct fi_cq_err_entry fit_bad(struct fit *t, unsigned i, void *context, int err);
/* There is none, though everything was driven for a while. */
void fit_none(struct fit *t, unsigned i);
/* Sends a tagged message and takes the event. */
void fit_tsend(struct fit *t, unsigned from, unsigned to, const void *buf, size_t len,
	       uint64_t tag);

#define fit_eq(a, b)                                                                               \
	do {                                                                                       \
		long long fit_a = (long long)(a), fit_b = (long long)(b);                          \
		cr_assert(fit_a == fit_b, "%s:%d: %s is %lld, not %lld", __FILE__, __LINE__, #a,   \
			  fit_a, fit_b);                                                           \
	} while (0)
#define fit_ok(call) fit_eq(call, 0)

#if TW_HAVE_TCP
#define FIT_WAYS "self,shm", "self,tcp"
#else
#define FIT_WAYS "self,shm"
#endif

/* A test over every way. */
#define FIT_TEST(suite, name)                                                                      \
	ParameterizedTestParameters(suite, name)                                                   \
	{                                                                                          \
		static fit_way ways[] = {FIT_WAYS};                                                \
		return cr_make_param_array(fit_way, ways, sizeof(ways) / sizeof(*ways));           \
	}                                                                                          \
	ParameterizedTest(fit_way *way, suite, name)

#endif /* FIT_H */
