/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_getinfo(), addresses, the order of closing, wrong arguments, peers that die, threads. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fi/fit.h"

TestSuite(fi_objects, .timeout = FIT_TIMEOUT);

static int ctx[8];

static int ask(struct fi_info *h, uint32_t version)
{
	struct fi_info *info = NULL;
	int rc = fi_getinfo(version, NULL, NULL, 0, h, &info);

	for (struct fi_info *i = info; i; i = i->next)
		cr_assert(strcmp(i->fabric_attr->prov_name, "tagwire") == 0);
	fi_freeinfo(info);
	return rc;
}

#define REFUSED(change)                                                                            \
	do {                                                                                       \
		struct fi_info *h = fit_hints(&(struct fit_how){0});                               \
		change;                                                                            \
		fit_eq(ask(h, FI_VERSION(1, 17)), -FI_ENODATA);                                    \
		fi_freeinfo(h);                                                                    \
	} while (0)
#define TAKEN(change)                                                                              \
	do {                                                                                       \
		struct fi_info *h = fit_hints(&(struct fit_how){0});                               \
		change;                                                                            \
		fit_ok(ask(h, FI_VERSION(1, 17)));                                                 \
		fi_freeinfo(h);                                                                    \
	} while (0)

static long membarrier(int command)
{
	return syscall(__NR_membarrier, command, 0, 0);
}

/* The kernel lets a process with threads wait for its registration. */
Test(fi_objects, who_only_asks_is_not_registered)
{
	long known = membarrier(MEMBARRIER_CMD_QUERY);
	struct fit t;

	if (known < 0 || !(known & MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		cr_skip_test("no membarrier here");
	fit_env("self,shm");
	TAKEN((void)h);
	cr_assert(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == -1 && errno == EPERM);
	fit_open(&t, 1, "self,shm", (struct fit_how){0});
	fit_ok(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
	fit_close(&t);
}

Test(fi_objects, hints)
{
	fit_env("self,shm");
	REFUSED(h->caps |= FI_MULTICAST);
	REFUSED(h->ep_attr->type = FI_EP_MSG);
	REFUSED(h->ep_attr->type = FI_EP_DGRAM);
	REFUSED(h->ep_attr->mem_tag_format = 1ull << 63);
	REFUSED(h->ep_attr->max_msg_size = SIZE_MAX);
	REFUSED(h->ep_attr->tx_ctx_cnt = 2);
	REFUSED(h->addr_format = FI_SOCKADDR_IB);
	REFUSED(h->domain_attr->name = strdup("no such board"));
	REFUSED(h->domain_attr->cq_data_size = 16);
	REFUSED(h->domain_attr->mr_key_size = 16);
	REFUSED(h->tx_attr->inject_size = 1 << 30);
	REFUSED(h->tx_attr->iov_limit = 1000);
	REFUSED(h->tx_attr->msg_order = FI_ORDER_RAR);
	REFUSED(h->tx_attr->comp_order = FI_ORDER_RAR);
	REFUSED(h->tx_attr->op_flags = FI_COMMIT_COMPLETE);
	REFUSED(h->rx_attr->caps = FI_MULTI_RECV);
	REFUSED(h->domain_attr->threading = 77);
	REFUSED(h->domain_attr->resource_mgmt = 77);
	REFUSED(h->domain_attr->av_type = 77);
	REFUSED(h->domain_attr->control_progress = 77);
	REFUSED(h->domain_attr->data_progress = 77);
	REFUSED(h->src_addr = calloc(1, h->src_addrlen = 4));
	REFUSED(h->dest_addr = calloc(1, h->dest_addrlen = 4));
	TAKEN(h->domain_attr->control_progress = TW_LIBFABRIC_UNIFIED);
	TAKEN(h->caps |= FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV);
	TAKEN(h->tx_attr->msg_order = h->rx_attr->msg_order = FI_ORDER_SAS);
	TAKEN(h->domain_attr->threading = FI_THREAD_DOMAIN);
	TAKEN(h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR);
	TAKEN(h->ep_attr->mem_tag_format = 1ull << 62);
	TAKEN(h->addr_format = FI_ADDR_STR);
	TAKEN(h->addr_format = FI_SOCKADDR);
	for (uint32_t minor = 0; minor <= 17; minor++) {
		struct fi_info *h = fit_hints(&(struct fit_how){0});

		fit_ok(ask(h, FI_VERSION(1, minor)));
		fi_freeinfo(h);
	}
	/* What those bits mean depends on the version. */
	REFUSED(h->caps |= TW_LIBFABRIC_DIRECTED_2);
	if (FI_MAJOR(fi_version()) >= 2) {
		struct fi_info *h = fit_hints(&(struct fit_how){.caps = TW_LIBFABRIC_DIRECTED_2});

		fit_ok(ask(h, fi_version()));
		fi_freeinfo(h);
	}
	setenv("TAGWIRE_SERVICE", "0", 1);
	REFUSED(h->domain_attr->data_progress = FI_PROGRESS_AUTO);
}

Test(fi_objects, answers)
{
	struct fi_info *h, *info;

	fit_env("self,shm");
	h = fit_hints(&(struct fit_how){.caps = FI_SEND});
	h->tx_attr->size = 100;
	fit_ok(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, h, &info));
	cr_assert((info->caps & FI_SEND) && !(info->caps & FI_RECV));
	cr_assert(!(info->caps & (FI_DIRECTED_RECV | FI_SOURCE)));
	fit_eq(info->tx_attr->size, 100);
	fit_eq(info->mode, 0);
	fit_eq(info->domain_attr->mr_mode, 0);
	cr_assert(info->src_addr && !info->dest_addr);
	fi_freeinfo(info);
	fit_ok(fi_getinfo(FI_VERSION(1, 17), "localhost", "5", 0, h, &info));
	cr_assert(info->dest_addr);
	fi_freeinfo(info);
	fit_eq(fi_getinfo(FI_VERSION(1, 17), "no.such.host.invalid", "5", 0, h, &info),
	       -FI_ENODATA);
	fit_eq(fi_getinfo(FI_VERSION(1, 17), NULL, "words", FI_SOURCE, h, &info), -FI_ENODATA);
	fi_freeinfo(h);
}

static void try_format(uint32_t format, const char *scheme)
{
	struct fi_av_attr attr = {.type = FI_AV_MAP};
	char name[64], back[64], text[64];
	size_t len = sizeof(name), n;
	struct fid_av *av;
	fi_addr_t a[2];
	struct fit t;
	int v = 6;

	fit_open(&t, 2, "self,shm", (struct fit_how){.addr_format = format});
	fit_eq(t.info->addr_format, format);
	n = 1;
	fit_eq(fi_getname(&t.ep[1]->fid, name, &n), -FI_ETOOSMALL);
	fit_ok(fi_getname(&t.ep[1]->fid, name, &len));
	fit_eq(n, len);
	fit_ok(fi_av_open(t.domain, &attr, &av, NULL));
	fit_eq(fi_av_insert(av, name, 1, &a[0], 0, NULL), 1);
	n = sizeof(back);
	fit_ok(fi_av_lookup(av, a[0], back, &n));
	cr_assert(n == len && memcmp(back, name, len) == 0);
	n = sizeof(text);
	cr_assert(strncmp(fi_av_straddr(av, name, text, &n), scheme, strlen(scheme)) == 0);
	fit_eq(n, strlen(text) + 1);
	fit_ok(fi_av_remove(av, a, 1, 0));
	n = sizeof(back);
	fit_eq(fi_av_lookup(av, a[0], back, &n), -FI_EINVAL);
	fit_eq(fi_av_remove(av, a, 1, 0), -FI_EINVAL);
	fit_ok(fi_close(&av->fid));
	/* They lead to the endpoint. */
	fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, 2, 0, &ctx[1]));
	fit_tsend(&t, 0, 1, &v, 4, 2);
	fit_good(&t, 1, &ctx[1]);
	fit_close(&t);
}

Test(fi_objects, address_string)
{
	try_format(FI_ADDR_STR, "tagwire://");
}

Test(fi_objects, address_inet)
{
	try_format(FI_SOCKADDR_IN, "fi_sockaddr_in://");
}

/* An address that is shorter than its format says is none. */
Test(fi_objects, address_short)
{
	static const uint32_t formats[] = {FI_FORMAT_UNSPEC, FI_SOCKADDR_IN, FI_ADDR_STR};

	for (unsigned i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		struct fid_ep *ep;
		struct fit t;

		fit_open(&t, 1, "self,shm", (struct fit_how){.addr_format = formats[i]});
		t.info->src_addrlen--;
		fit_eq(fi_endpoint(t.domain, t.info, &ep, NULL), -FI_EINVAL);
		t.info->src_addrlen++;
		fit_ok(fi_endpoint(t.domain, t.info, &ep, NULL));
		fit_ok(fi_close(&ep->fid));
		fit_close(&t);
	}
}

Test(fi_objects, address_service)
{
	struct fi_info *h, *info;
	struct fid_ep *ep, *again;
	struct fi_av_attr attr = {.type = FI_AV_TABLE};
	fi_addr_t a[3] = {9, 9, 9};
	struct fit t;
	char bad[16] = {0};
	int errors[1];

	fit_open(&t, 1, "self,shm", (struct fit_how){0});
	h = fit_hints(&(struct fit_how){0});
	fit_ok(fi_getinfo(FI_VERSION(1, 17), NULL, "9228", FI_SOURCE, h, &info));
	fit_ok(fi_endpoint(t.domain, info, &ep, NULL));
	fit_eq(fi_endpoint(t.domain, info, &again, NULL), -FI_EADDRINUSE);
	fit_eq(fi_av_insertsvc(t.av, "localhost", "9228", &a[0], 0, NULL), 1);
	fit_eq(fi_av_insertsvc(t.av, "no.such.host.invalid", "1", &a[1], 0, NULL), 0);
	fit_eq(a[1], FI_ADDR_NOTAVAIL);
	fit_eq(fi_av_insert(t.av, bad, 1, &a[2], FI_SYNC_ERR, errors), 0);
	cr_assert(errors[0] == FI_EINVAL && a[2] == FI_ADDR_NOTAVAIL);
	attr.name = "shared";
	{
		struct fid_av *av;

		fit_eq(fi_av_open(t.domain, &attr, &av, NULL), -FI_ENOSYS);
	}
	fit_ok(fi_close(&ep->fid));
	fi_freeinfo(info);
	fi_freeinfo(h);
	fit_close(&t);
}

/* Endpoints that ask for no number leave those that programs ask for. */
Test(fi_objects, address_left)
{
	struct fid_ep *ep, *any[16];
	struct fi_info *h, *info;
	struct fit t;

	fit_open(&t, 1, "self,shm", (struct fit_how){0});
	for (unsigned i = 0; i < 16; i++)
		fit_ok(fi_endpoint(t.domain, t.info, &any[i], NULL));
	h = fit_hints(&(struct fit_how){0});
	fit_ok(fi_getinfo(FI_VERSION(1, 17), NULL, "9228", FI_SOURCE, h, &info));
	fit_ok(fi_endpoint(t.domain, info, &ep, NULL));
	fit_ok(fi_close(&ep->fid));
	for (unsigned i = 0; i < 16; i++)
		fit_ok(fi_close(&any[i]->fid));
	fi_freeinfo(info);
	fi_freeinfo(h);
	fit_close(&t);
}

Test(fi_objects, closing)
{
	struct fid_ep *ep;
	struct fit t;
	int v;

	fit_open(&t, 1, "self,shm", (struct fit_how){0});
	fit_eq(fi_close(&t.fabric->fid), -FI_EBUSY);
	fit_eq(fi_close(&t.domain->fid), -FI_EBUSY);
	fit_eq(fi_close(&t.av->fid), -FI_EBUSY);
	fit_eq(fi_close(&t.cq[0]->fid), -FI_EBUSY);
	fit_ok(fi_endpoint(t.domain, t.info, &ep, NULL));
	fit_eq(fi_tsend(ep, &v, 4, NULL, t.to[0], 1, NULL), -FI_EOPBADSTATE);
	fit_eq(fi_trecv(ep, &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), -FI_EOPBADSTATE);
	fit_eq(fi_ep_bind(t.ep[0], &t.cq[0]->fid, FI_RECV), -FI_EINVAL);
	fit_eq(fi_ep_bind(t.ep[0], &t.av->fid, 0), -FI_EINVAL);
	fit_ok(fi_close(&ep->fid));
	fit_eq(fi_tsend(t.ep[0], &v, 4, NULL, 1234567, 1, NULL), -FI_EINVAL);
	fit_eq(fi_tsend(t.ep[0], &v, 4, NULL, FI_ADDR_UNSPEC, 1, NULL), -FI_EINVAL);
	fit_eq(fi_send(t.ep[0], NULL, 4, NULL, t.to[0], NULL), -FI_EINVAL);
	/* Also where a message has taken the fast path before. */
	fit_ok(fi_trecv(t.ep[0], &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
	fit_tsend(&t, 0, 0, &v, 4, 1);
	fit_good(&t, 0, NULL);
	fit_eq(fi_tsend(t.ep[0], NULL, 4, NULL, t.to[0], 1, NULL), -FI_EINVAL);
	fit_eq(fi_tinject(t.ep[0], NULL, 4, t.to[0], 1), -FI_EINVAL);
	/* With receives posted and messages unread. */
	fit_ok(fi_trecv(t.ep[0], &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
	fit_tsend(&t, 0, 0, &v, 4, 2);
	fit_close(&t);
}

/* Whatever is in a domain keeps it open, and it works on. */
Test(fi_objects, closing_domain)
{
	struct fi_cntr_attr cntr = {.wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.wait_obj = FI_WAIT_NONE};
	struct fi_poll_attr poll = {0};
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};
	struct fid_domain *domain;
	struct fid *in[6];
	char memory[8];
	struct fit t;
	int v = 3;

	fit_open(&t, 1, "self,shm", (struct fit_how){.caps = FI_RMA});
	fit_ok(fi_domain(t.fabric, t.info, &domain, NULL));
	fit_ok(fi_cntr_open(domain, &cntr, (struct fid_cntr **)&in[0], NULL));
	fit_ok(fi_av_open(domain, &av, (struct fid_av **)&in[1], NULL));
	fit_ok(fi_cq_open(domain, &cq, (struct fid_cq **)&in[2], NULL));
	/* fi_poll_open(), which 2.x deprecates. */
	fit_ok(domain->ops->poll_open(domain, &poll, (struct fid_poll **)&in[3]));
	fit_ok(fi_endpoint(domain, t.info, (struct fid_ep **)&in[4], NULL));
	fit_ok(fi_mr_reg(domain, memory, 8, FI_REMOTE_READ, 0, 1, 0, (struct fid_mr **)&in[5],
			 NULL));
	for (unsigned i = 0; i < 6; i++) {
		fit_eq(fi_close(&domain->fid), -FI_EBUSY);
		fit_ok(fi_close(in[i]));
	}
	fit_ok(fi_eq_open(t.fabric, &eq, (struct fid_eq **)&in[0], NULL));
	fit_ok(fi_domain_bind(domain, in[0], 0));
	fit_eq(fi_close(in[0]), -FI_EBUSY);
	fit_eq(fi_close(&t.fabric->fid), -FI_EBUSY);
	fit_ok(fi_close(&domain->fid));
	fit_ok(fi_close(in[0]));
	/* The other domain did not notice. */
	fit_ok(fi_trecv(t.ep[0], &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
	fit_tsend(&t, 0, 0, &v, 4, 1);
	fit_good(&t, 0, NULL);
	fit_close(&t);
}

static void *open_and_close(void *arg)
{
	struct fit *t = arg;

	for (int i = 0; i < 50; i++) {
		struct fid_ep *ep;
		int v = i;

		fit_ok(fi_endpoint(t->domain, t->info, &ep, NULL));
		fit_ok(fi_ep_bind(ep, &t->cq[0]->fid, FI_TRANSMIT | FI_RECV));
		fit_ok(fi_ep_bind(ep, &t->av->fid, 0));
		fit_ok(fi_enable(ep));
		fit_ok(fi_trecv(ep, &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
		fit_ok(fi_close(&ep->fid));
	}
	return NULL;
}

/* Endpoints come and go at a queue that another thread reads. */
FIT_TEST(fi_objects, closing_under_reader)
{
	struct fi_cq_tagged_entry e;
	pthread_t id;
	struct fit t;

	fit_open(&t, 1, *way, (struct fit_how){.threading = FI_THREAD_SAFE});
	pthread_create(&id, NULL, open_and_close, &t);
	while (pthread_tryjoin_np(id, NULL))
		fit_eq(fi_cq_read(t.cq[0], &e, 1), -FI_EAGAIN);
	fit_close(&t);
}

enum { THREADS = 4, ROUNDS = 300 };

struct one {
	struct fit *t;
	unsigned id;
	_Atomic(unsigned) got;
};
static _Atomic(unsigned) arrived;

static void *exchange(void *arg)
{
	struct one *o = arg;
	struct fit *t = o->t;
	char *in = malloc(20000), *out = malloc(20000);

	for (unsigned i = 0; i < ROUNDS; i++) {
		size_t n = i % 10 ? i : 20000;
		unsigned seen;
		ssize_t rc;

		twt_fill(out, n, i + o->id);
		fit_ok(fi_trecv(t->ep[1], in, 20000, NULL, FI_ADDR_UNSPEC, o->id, 0, (void *)o));
		do
			rc = fi_tinject(t->ep[0], out, n < 4000 ? n : 4000, t->to[1], o->id);
		while (rc == -FI_EAGAIN);
		fit_ok(rc);
		seen = i + 1;
		/* Any thread may take the event of another. */
		for (;;) {
			struct fi_cq_tagged_entry e;

			if (fi_cq_read(t->cq[1], &e, 1) == 1)
				atomic_fetch_add(&((struct one *)e.op_context)->got, 1);
			fi_cq_read(t->cq[0], NULL, 0);
			if (atomic_load(&o->got) >= seen)
				break;
		}
		n = n < 4000 ? n : 4000;
		fit_eq(twt_check(in, n, i + o->id), n);
		atomic_fetch_add(&arrived, 1);
	}
	free(in);
	free(out);
	return NULL;
}

FIT_TEST(fi_objects, threads)
{
	struct one o[THREADS] = {{0}};
	pthread_t id[THREADS];
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.threading = FI_THREAD_SAFE});
	for (unsigned i = 0; i < THREADS; i++) {
		o[i].t = &t;
		o[i].id = i;
		pthread_create(&id[i], NULL, exchange, &o[i]);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
	fit_eq(atomic_load(&arrived), THREADS * ROUNDS);
	fit_close(&t);
}
