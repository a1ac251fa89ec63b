/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.2 Nodes: initialize, finalize, who is who, attributes of nodes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_node, .init = twc_job, .timeout = MR_TIMEOUT);

/* 3.12.3.2 What initialize tells. */
Test(mrapi_node, info)
{
	mrapi_parameters_t parameters = 0;
	mrapi_info_t info;

	memset(&info, 0xee, sizeof(info));
	mr_ok(mrapi_initialize(MR_DOMAIN, MR_NODE, &parameters, &info, &mr_st));
	twc_eq(info.mrapi_version, MRAPI_VERSION);
	twc_eq(info.mrapi_version & 0xfff, 0x93);
	twc_eq(info.organization_id, MRAPI_ORGANIZATION_ID);
	twc_check(info.implementation_version != 0xeeeeeeee);
	twc_check(info.number_of_domains >= 16);
	twc_check(info.number_of_nodes >= 64);
	mr_down();
}

Test(mrapi_node, initialize_errors)
{
	mrapi_info_t info;

	mr_is(MRAPI_ERR_PARAMETER, mrapi_initialize(MR_DOMAIN, MR_NODE, NULL, NULL, &mr_st));
	mr_is(MRAPI_ERR_NODE_NOTINIT, mrapi_node_id_get(&mr_st));
	mr_is(MRAPI_ERR_NODE_INVALID,
	      mrapi_initialize(MR_DOMAIN, MRAPI_MAX_NODE_ID + 1, NULL, &info, &mr_st));
	mr_is(MRAPI_ERR_NODE_INVALID, mrapi_initialize(MR_DOMAIN, ~0u, NULL, &info, &mr_st));
	mr_is(MRAPI_ERR_DOMAIN_INVALID,
	      mrapi_initialize(MRAPI_MAX_DOMAIN_ID + 1, MR_NODE, NULL, &info, &mr_st));
	mr_is(MRAPI_ERR_DOMAIN_INVALID, mrapi_initialize(~0u, MR_NODE, NULL, &info, &mr_st));
	mr_is(MRAPI_ERR_NODE_NOTINIT, mrapi_finalize(&mr_st));

	mr_up(MR_NODE);
	mr_is(MRAPI_ERR_NODE_INITIALIZED,
	      mrapi_initialize(MR_DOMAIN, MR_NODE, NULL, &info, &mr_st));
	mr_is(MRAPI_ERR_NODE_INITIALIZED,
	      mrapi_initialize(MR_ELSEWHERE, MR_NODE + 1, NULL, &info, &mr_st));
	/* The NULL comes first. */
	mr_is(MRAPI_ERR_PARAMETER, mrapi_initialize(MR_DOMAIN, MR_NODE, NULL, NULL, &mr_st));
	twc_eq(mr_val(mrapi_node_id_get(&mr_st)), MR_NODE);
	twc_eq(mr_val(mrapi_domain_id_get(&mr_st)), MR_DOMAIN);
	mr_down();
}

Test(mrapi_node, limits_of_numbers)
{
	mr_up_in(MRAPI_MAX_DOMAIN_ID, MRAPI_MAX_NODE_ID);
	twc_eq(mr_val(mrapi_node_id_get(&mr_st)), MRAPI_MAX_NODE_ID);
	twc_eq(mr_val(mrapi_domain_id_get(&mr_st)), MRAPI_MAX_DOMAIN_ID);
	mr_down();
	mr_up_in(0, 0);
	twc_eq(mr_val(mrapi_node_id_get(&mr_st)), 0);
	twc_eq(mr_val(mrapi_domain_id_get(&mr_st)), 0);
	mr_down();
}

Test(mrapi_node, again_and_again)
{
	for (mrapi_node_t i = 0; i < 50; i++) {
		mr_up_in(i % 3, i);
		twc_eq(mr_val(mrapi_node_id_get(&mr_st)), i);
		twc_eq(mr_val(mrapi_domain_id_get(&mr_st)), i % 3);
		mr_down();
		mr_is(MRAPI_ERR_NODE_NOTINIT, mrapi_finalize(&mr_st));
		mr_is(MRAPI_ERR_NODE_NOTINIT, mrapi_node_id_get(&mr_st));
		mr_is(MRAPI_ERR_NODE_NOTINIT, mrapi_domain_id_get(&mr_st));
	}
}

/* 3.10: a NULL status reports nothing, and the call still does its work. */
Test(mrapi_node, null_status)
{
	mrapi_info_t info;
	mrapi_mutex_hndl_t m;
	mrapi_key_t key;

	mrapi_finalize(NULL);
	twc_eq(mrapi_mutex_create(1, NULL, NULL), 0);
	mrapi_initialize(MR_DOMAIN, MR_NODE, NULL, &info, NULL);
	twc_eq(mrapi_node_id_get(NULL), MR_NODE);
	twc_eq(mrapi_domain_id_get(NULL), MR_DOMAIN);
	m = mrapi_mutex_create(1, NULL, NULL);
	twc_eq(mr_val(mrapi_mutex_get(1, &mr_st)), m);
	mrapi_mutex_lock(m, &key, 0, NULL);
	mr_is(MRAPI_ERR_MUTEX_LOCKED, mrapi_mutex_delete(m, &mr_st));
	mrapi_mutex_unlock(m, &key, NULL);
	twc_check(mrapi_mutex_trylock(m, &key, NULL));
	mrapi_mutex_unlock(m, &key, NULL);
	mrapi_mutex_delete(m, NULL);
	mr_is(MRAPI_ERR_MUTEX_ID_INVALID, mrapi_mutex_get(1, &mr_st));
	mrapi_finalize(NULL);
	mr_is(MRAPI_ERR_NODE_NOTINIT, mrapi_finalize(&mr_st));
}

/* ---- nodes beside each other */

struct numbers {
	mrapi_node_t node;
	mrapi_domain_t domain;
	mrapi_status_t status;
};

static void who(void *arg)
{
	struct numbers *n = arg;

	n->node = mr_val(mrapi_node_id_get(&mr_st));
	n->domain = mr_val(mrapi_domain_id_get(&mr_st));
}

static void try_initialize(void *arg)
{
	struct numbers *n = arg;
	mrapi_info_t info;

	mrapi_initialize(n->domain, n->node, NULL, &info, &n->status);
}

static void finalize(void *arg)
{
	struct numbers *n = arg;

	mrapi_finalize(&n->status);
}

MR_BOTH(mrapi_node, two_nodes)
{
	struct numbers *n = mr_shared(sizeof(*n));
	struct mr_peer p;

	mr_peer_in(&p, where, MR_ELSEWHERE, 1);
	mr_up(MR_NODE);
	mr_do(&p, who, n);
	twc_eq(n->node, 1);
	twc_eq(n->domain, MR_ELSEWHERE);
	twc_eq(mr_val(mrapi_node_id_get(&mr_st)), MR_NODE);
	twc_eq(mr_val(mrapi_domain_id_get(&mr_st)), MR_DOMAIN);
	/* Who ends leaves the other alone. */
	mr_down();
	mr_do(&p, who, n);
	twc_eq(n->node, 1);
	mr_up(MR_NODE);
	mr_peer_end(&p);
	twc_eq(mr_val(mrapi_node_id_get(&mr_st)), MR_NODE);
	mr_down();
}

/* A number that is in use is refused, and is free again once its node is gone. */
MR_BOTH(mrapi_node, duplicate)
{
	struct numbers *n = mr_shared(sizeof(*n));
	struct mr_peer p;

	mr_peer_raw(&p, where);
	mr_up(MR_NODE);
	n->domain = MR_DOMAIN;
	n->node = MR_NODE;
	mr_do(&p, try_initialize, n);
	mr_eq(n->status, MRAPI_ERR_NODE_INITIALIZED);
	mr_down();
	mr_do(&p, try_initialize, n);
	mr_eq(n->status, MRAPI_SUCCESS);
	mr_do(&p, finalize, n);
	mr_eq(n->status, MRAPI_SUCCESS);
	mr_peer_end(&p);
}

/* A thread that did not initialize acts for the first node of its process. */
Test(mrapi_node, threads_without_a_node)
{
	struct numbers *n = mr_shared(sizeof(*n));
	struct mr_peer raw, other;

	mr_peer_raw(&raw, MR_THREAD);
	mr_up(MR_NODE);
	mr_peer(&other, MR_THREAD, 2);
	mr_do(&raw, who, n);
	twc_eq(n->node, MR_NODE);
	mr_do(&other, who, n);
	twc_eq(n->node, 2);
	/* It may become a node of its own. */
	n->domain = MR_DOMAIN;
	n->node = 3;
	mr_do(&raw, try_initialize, n);
	mr_eq(n->status, MRAPI_SUCCESS);
	mr_do(&raw, who, n);
	twc_eq(n->node, 3);
	mr_do(&raw, finalize, n);
	mr_eq(n->status, MRAPI_SUCCESS);
	mr_do(&raw, who, n);
	twc_eq(n->node, MR_NODE);
	/* The first of those that are left. */
	mr_down();
	mr_do(&raw, who, n);
	twc_eq(n->node, 2);
	mr_peer_end(&other);
	mr_do(&raw, finalize, n);
	mr_eq(n->status, MRAPI_ERR_NODE_NOTINIT);
	mr_peer_end(&raw);
}

/* The child of a node is no node and can become one. */
Test(mrapi_node, fork)
{
	mrapi_mutex_hndl_t m;
	struct mr_peer p;

	mr_up(MR_NODE);
	m = mr_val(mrapi_mutex_create(7, NULL, &mr_st));
	mr_peer(&p, MR_PROCESS, 1);
	mr_eq(mr_at_lock(&p, &mr_kind[MR_MUTEX], m, MR_LONG), MRAPI_SUCCESS);
	mr_is(MRAPI_TIMEOUT, mrapi_mutex_lock(m, &mr_key, 0, &mr_st));
	mr_eq(mr_at_unlock(&p, &mr_kind[MR_MUTEX], m), MRAPI_SUCCESS);
	mr_peer_end(&p);
	mr_peer_raw(&p, MR_PROCESS);
	mr_eq(mr_at_lock(&p, &mr_kind[MR_MUTEX], m, 0), MRAPI_ERR_NODE_NOTINIT);
	mr_peer_end(&p);
	mr_ok(mrapi_mutex_lock(m, &mr_key, 0, &mr_st));
	mr_ok(mrapi_mutex_unlock(m, &mr_key, &mr_st));
	mr_down();
}

/* A first node that is refused leaves nothing behind, where there are other hosts either. */
Test(mrapi_node, refused_then_not)
{
	mrapi_info_t info;
	struct mr_peer p;

	/* A host that nobody ever asks for anything. */
	setenv("TAGWIRE_NODES", "200=192.0.2.77", 1);
	mr_peer(&p, MR_PROCESS, 1);
	mr_is(MRAPI_ERR_NODE_INITIALIZED, mrapi_initialize(MR_DOMAIN, 1, NULL, &info, &mr_st));
	mr_up(2);
	mr_down();
	mr_peer_end(&p);
	unsetenv("TAGWIRE_NODES");
}

/* The last node's finalize frees what is left: the same ids can be made again. */
MR_BOTH(mrapi_node, last_finalize_frees)
{
	struct mr_peer p;
	mrapi_hndl_t old[MR_KINDS];

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++)
		old[i] = mr_val(mr_kind[i].create(5, NULL));
	mr_ok(mrapi_mutex_lock(old[MR_MUTEX], &mr_key, 0, &mr_st));
	mr_ok(mrapi_shmem_attach(old[MR_SHMEM], &mr_st));
	mr_peer_end(&p);
	mr_down();
	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++) {
		mr_is(mr_kind[i].id_invalid, mr_kind[i].get(5));
		mr_ok(mr_kind[i].create(5, NULL));
	}
	mr_down();
}

/* What a node made stays until the last node is gone. */
MR_BOTH(mrapi_node, objects_outlive_their_maker)
{
	struct mr_peer p;
	mrapi_hndl_t h;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_SHMEM; i++)
		mr_ok(mr_kind[i].create(6, NULL));
	mr_down();
	for (int i = 0; i < MR_SHMEM; i++) {
		mr_eq(mr_at_get(&p, &mr_kind[i], 6, &h), MRAPI_SUCCESS);
		mr_eq(mr_at_lock(&p, &mr_kind[i], h, 0), MRAPI_SUCCESS);
		mr_eq(mr_at_unlock(&p, &mr_kind[i], h), MRAPI_SUCCESS);
	}
	mr_peer_end(&p);
}

/* Jobs do not see each other. */
Test(mrapi_node, jobs)
{
	struct mr_peer p;
	char *job = strdup(getenv("TAGWIRE_JOB"));

	setenv("TAGWIRE_JOB", "another-job", 1);
	mr_peer(&p, MR_PROCESS, MR_NODE);
	setenv("TAGWIRE_JOB", job, 1);
	mr_up(MR_NODE);
	mr_ok(mrapi_mutex_create(1, NULL, &mr_st));
	mr_eq(mr_at_get(&p, &mr_kind[MR_MUTEX], 1, NULL), MRAPI_ERR_MUTEX_ID_INVALID);
	mr_down();
	mr_peer_end(&p);
	free(job);
}

/* A node whose process was killed is gone: its number is free. */
Test(mrapi_node, killed)
{
	struct mr_peer p, q;
	double end = twt_now() + MR_LONG / 1000.;
	mrapi_info_t info;

	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	mr_peer_kill(&p);
	mr_peer_raw(&q, MR_PROCESS);
	mr_down();
	do
		mrapi_initialize(MR_DOMAIN, 1, NULL, &info, &mr_st);
	while (mr_st == MRAPI_ERR_NODE_INITIALIZED && twt_now() < end);
	mr_eq(mr_st, MRAPI_SUCCESS);
	mr_peer_end(&q);
	mr_down();
}

/* ---- the environment fails */

Test(mrapi_node, no_descriptors)
{
	struct rlimit limit, none;
	mrapi_info_t info;

	twc_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3;
	twc_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	mrapi_initialize(MR_DOMAIN, MR_NODE, NULL, &info, &mr_st);
	twc_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	mr_eq(mr_st, MRAPI_ENO_INIT);
	mr_is(MRAPI_ERR_NODE_NOTINIT, mrapi_finalize(&mr_st));
	mr_up(MR_NODE);
	mr_down();
}

/* ---- 4.2.1.1 to 4.2.1.3 */

static void node_attributes(mrapi_node_t node, mrapi_domain_t domain, pid_t pid)
{
	mrapi_uint_t id = 77, process = 77;
	mrapi_domain_t d = 77;

	mr_ok(mrapi_node_get_attribute(node, MRAPI_OBJECT_ID, &id, sizeof(id), &mr_st));
	twc_eq(id, node);
	mr_ok(mrapi_node_get_attribute(node, MRAPI_NODE_DOMAIN, &d, sizeof(d), &mr_st));
	twc_eq(d, domain);
	mr_ok(mrapi_node_get_attribute(node, MRAPI_NODE_PID, &process, sizeof(process), &mr_st));
	twc_eq(process, pid);
}

Test(mrapi_node, get_attribute)
{
	struct mr_peer p;
	mrapi_uint_t v = 0;

	mr_peer(&p, MR_PROCESS, 1);
	mr_is(MRAPI_ERR_NODE_NOTINIT,
	      mrapi_node_get_attribute(1, MRAPI_OBJECT_ID, &v, sizeof(v), &mr_st));
	mr_up(MR_NODE);
	node_attributes(MR_NODE, MR_DOMAIN, getpid());
	node_attributes(1, MR_DOMAIN, p.child.pid);
	mr_is(MRAPI_ERR_PARAMETER,
	      mrapi_node_get_attribute(MR_NODE, MRAPI_OBJECT_ID, NULL, sizeof(v), &mr_st));
	mr_is(MRAPI_ERR_ATTR_NUM,
	      mrapi_node_get_attribute(MR_NODE, MR_NO_ATTR, &v, sizeof(v), &mr_st));
	mr_is(MRAPI_ERR_ATTR_NUM,
	      mrapi_node_get_attribute(MR_NODE, MRAPI_MUTEX_RECURSIVE, &v, sizeof(v), &mr_st));
	mr_is(MRAPI_ERR_ATTR_SIZE,
	      mrapi_node_get_attribute(MR_NODE, MRAPI_OBJECT_ID, &v, sizeof(v) - 1, &mr_st));
	mr_is(MRAPI_ERR_ATTR_SIZE,
	      mrapi_node_get_attribute(MR_NODE, MRAPI_NODE_PID, &v, 0, &mr_st));
	/* A node that is not there. */
	mr_is(MRAPI_ERR_PARAMETER,
	      mrapi_node_get_attribute(42, MRAPI_OBJECT_ID, &v, sizeof(v), &mr_st));
	mr_down();
	mr_peer_end(&p);
}

/* Both are called before initialize. */
Test(mrapi_node, set_attribute)
{
	mrapi_node_attributes_t a;
	mrapi_uint_t v = 1;

	mr_is(MRAPI_ERR_PARAMETER, mrapi_node_init_attributes(NULL, &mr_st));
	mr_ok(mrapi_node_init_attributes(&a, &mr_st));
	mr_is(MRAPI_ERR_ATTR_READONLY,
	      mrapi_node_set_attribute(&a, MRAPI_OBJECT_ID, &v, sizeof(v), &mr_st));
	mr_is(MRAPI_ERR_ATTR_READONLY,
	      mrapi_node_set_attribute(&a, MRAPI_NODE_PID, &v, sizeof(v), &mr_st));
	mr_is(MRAPI_ERR_ATTR_READONLY,
	      mrapi_node_set_attribute(&a, MRAPI_NODE_DOMAIN, &v, sizeof(v), &mr_st));
	mr_is(MRAPI_ERR_ATTR_NUM, mrapi_node_set_attribute(&a, MR_NO_ATTR, &v, sizeof(v), &mr_st));
	mr_is(MRAPI_ERR_ATTR_NUM,
	      mrapi_node_set_attribute(&a, MRAPI_ERROR_EXT, &v, sizeof(v), &mr_st));
	mr_is(MRAPI_ERR_PARAMETER,
	      mrapi_node_set_attribute(NULL, MR_NO_ATTR, &v, sizeof(v), &mr_st));
	mr_is(MRAPI_ERR_PARAMETER,
	      mrapi_node_set_attribute(&a, MR_NO_ATTR, NULL, sizeof(v), &mr_st));
	mr_up(MR_NODE);
	mr_ok(mrapi_node_init_attributes(&a, &mr_st));
	mr_down();
}

/* ---- as many nodes as a job may have */

struct member {
	mrapi_node_t node;
	pthread_t id;
	pthread_barrier_t *in, *out;
};

static void *member(void *arg)
{
	struct member *m = arg;

	mr_up(m->node);
	pthread_barrier_wait(m->in);
	pthread_barrier_wait(m->out);
	mr_down();
	return NULL;
}

Test(mrapi_node, limit)
{
	enum { N = MRAPI_MAX_NODES };
	static struct member m[N];
	pthread_barrier_t in, out;
	pthread_attr_t attr;
	mrapi_info_t info;

	pthread_barrier_init(&in, NULL, N + 1);
	pthread_barrier_init(&out, NULL, N + 1);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	for (int i = 0; i < N; i++) {
		m[i] = (struct member){.node = (mrapi_node_t)i, .in = &in, .out = &out};
		twc_eq(pthread_create(&m[i].id, &attr, member, &m[i]), 0);
	}
	pthread_barrier_wait(&in);
	mr_is(MRAPI_ENO_INIT, mrapi_initialize(MR_DOMAIN, N, NULL, &info, &mr_st));
	pthread_barrier_wait(&out);
	for (int i = 0; i < N; i++)
		twc_eq(pthread_join(m[i].id, NULL), 0);
	mr_up(N);
	mr_down();
}
