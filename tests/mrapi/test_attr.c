/* SPDX-License-Identifier: BSD-2-Clause */
/* 3.7 Attributes of the objects: init, set, get, and what is refused. */
#include "mrapi/mrapit.h"

TestSuite(mrapi_attr, .init = twc_job, .timeout = MR_TIMEOUT);

struct attribute {
	mrapi_uint_t num;
	const char *name;
	unsigned kinds; /* those that have it, as bits */
	size_t size;
	int boolean; /* its default, or -1: it is none */
	int settable;
};

#define LOCKS (1u << MR_MUTEX | 1u << MR_SEM | 1u << MR_RWL)
#define ALL (LOCKS | 1u << MR_SHMEM | 1u << MR_RMEM)
static const struct attribute attributes[] = {
#define A(num) num, #num
	{A(MRAPI_MUTEX_RECURSIVE), 1u << MR_MUTEX, sizeof(mrapi_boolean_t), MRAPI_FALSE, 1},
	{A(MRAPI_ERROR_EXT), LOCKS, sizeof(mrapi_boolean_t), MRAPI_FALSE, 1},
	{A(MRAPI_DOMAIN_SHARED), ALL, sizeof(mrapi_boolean_t), MRAPI_TRUE, 1},
	{A(MRAPI_SHMEM_RESOURCE), 1u << MR_SHMEM, sizeof(mrapi_resource_t), -1, 1},
	{A(MRAPI_SHMEM_ADDRESS), 1u << MR_SHMEM, sizeof(mrapi_addr_t), -1, 1},
	{A(MRAPI_SHMEM_SIZE), 1u << MR_SHMEM, sizeof(mrapi_size_t), -1, 0},
	{A(MRAPI_RMEM_SIZE), 1u << MR_RMEM, sizeof(mrapi_size_t), -1, 0},
	{A(MRAPI_RMEM_ACCESS_TYPE), 1u << MR_RMEM, sizeof(mrapi_rmem_atype_t), -1, 0},
	{A(MRAPI_OBJECT_ID), ALL, sizeof(mrapi_uint_t), -1, 0},
	{A(MR_NO_ATTR), 0, 4, -1, 0},
	{A(~0u), 0, 4, -1, 0},
#undef A
};
enum { N = sizeof(attributes) / sizeof(*attributes) };

static union mr_attributes fresh(const struct mr_kind *k)
{
	union mr_attributes a;

	memset(&a, 0xee, sizeof(a));
	mr_ok(k->init_attributes(&a));
	return a;
}

/* Every number with every kind: set. */
Test(mrapi_attr, set)
{
	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		union mr_attributes a = fresh(k);
		mrapi_resource_t zero;

		memset(&zero, 0, sizeof(zero));
		for (int n = 0; n < N; n++) {
			const struct attribute *t = &attributes[n];
			mrapi_status_t want = !(t->kinds & 1u << i) ? MRAPI_ERR_ATTR_NUM
					      : !t->settable	    ? MRAPI_ERR_ATTR_READONLY
								    : MRAPI_SUCCESS;

			mr_is(want, k->set_attribute(&a, t->num, &zero, t->size));
			mr_is(MRAPI_ERR_PARAMETER, k->set_attribute(&a, t->num, NULL, t->size));
			mr_is(MRAPI_ERR_PARAMETER, k->set_attribute(NULL, t->num, &zero, t->size));
			if (want != MRAPI_SUCCESS)
				continue;
			mr_is(MRAPI_ERR_ATTR_SIZE,
			      k->set_attribute(&a, t->num, &zero, t->size + 1));
			mr_is(MRAPI_ERR_ATTR_SIZE, k->set_attribute(&a, t->num, &zero, 0));
		}
		mr_is(MRAPI_ERR_PARAMETER, k->init_attributes(NULL));
	}
	mr_down();
}

/* Every number with every kind: get, of an object with the defaults. */
Test(mrapi_attr, get)
{
	union {
		mrapi_resource_t resource;
		mrapi_boolean_t boolean;
		unsigned char bytes[sizeof(mrapi_resource_t) + 8];
	} v;

	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		union mr_attributes a = fresh(k);
		/* The defaults are the same with and without attributes. */
		mrapi_hndl_t h[2] = {mr_val(k->create(1, NULL)), mr_val(k->create(2, &a))};

		for (int n = 0; n < 2 * N; n++) {
			const struct attribute *t = &attributes[n / 2];
			int has = (t->kinds & 1u << i) != 0;

			memset(&v, 0xee, sizeof(v));
			mr_is(has ? MRAPI_SUCCESS : MRAPI_ERR_ATTR_NUM,
			      k->get_attribute(h[n % 2], t->num, &v, t->size));
			mr_is(MRAPI_ERR_PARAMETER,
			      k->get_attribute(h[n % 2], t->num, NULL, t->size));
			if (!has)
				continue;
			twc_eq(v.bytes[t->size], 0xee);
			if (t->boolean >= 0)
				twc_eq(v.boolean, t->boolean);
			mr_is(MRAPI_ERR_ATTR_SIZE,
			      k->get_attribute(h[n % 2], t->num, &v, t->size + 1));
			mr_is(MRAPI_ERR_ATTR_SIZE, k->get_attribute(h[n % 2], t->num, &v, 0));
		}
		mr_ok(k->remove(h[0]));
		mr_ok(k->remove(h[1]));
	}
	mr_down();
}

/* What was set is what the object has; the others keep their defaults. */
Test(mrapi_attr, booleans)
{
	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++)
		for (int n = 0; n < N; n++)
			for (mrapi_boolean_t b = MRAPI_FALSE; b <= MRAPI_TRUE; b++) {
				const struct attribute *t = &attributes[n];
				mrapi_hndl_t h;

				if (t->boolean < 0 || !(t->kinds & 1u << i))
					continue;
				h = mr_create_with(&mr_kind[i], 1, t->num, b);
				for (int m = 0; m < N; m++) {
					const struct attribute *u = &attributes[m];
					mrapi_boolean_t got = 7;

					if (u->boolean < 0 || !(u->kinds & 1u << i))
						continue;
					mr_ok(mr_kind[i].get_attribute(h, u->num, &got,
								       sizeof(got)));
					twc_eq(got, m == n ? b : u->boolean);
				}
				mr_ok(mr_kind[i].remove(h));
			}
	mr_down();
}

/* Setting has no effect on what exists, and one structure serves many objects. */
Test(mrapi_attr, afterwards)
{
	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		union mr_attributes a = fresh(k);
		mrapi_boolean_t b = MRAPI_FALSE;
		mrapi_hndl_t first, second;

		mr_ok(k->set_attribute(&a, MRAPI_DOMAIN_SHARED, &b, sizeof(b)));
		first = mr_val(k->create(1, &a));
		second = mr_val(k->create(2, &a));
		b = MRAPI_TRUE;
		mr_ok(k->set_attribute(&a, MRAPI_DOMAIN_SHARED, &b, sizeof(b)));
		mr_ok(k->get_attribute(first, MRAPI_DOMAIN_SHARED, &b, sizeof(b)));
		twc_eq(b, MRAPI_FALSE);
		mr_ok(k->get_attribute(second, MRAPI_DOMAIN_SHARED, &b, sizeof(b)));
		twc_eq(b, MRAPI_FALSE);
		mr_ok(k->remove(first));
		mr_ok(k->remove(second));
	}
	mr_down();
}

/* A structure that was never initialized. */
Test(mrapi_attr, uninitialized)
{
	mrapi_boolean_t b = MRAPI_TRUE;
	union mr_attributes a;

	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++)
		for (int fill = 0; fill <= 0xee; fill += 0xee) {
			memset(&a, fill, sizeof(a));
			mr_is(MRAPI_ERR_PARAMETER, mr_kind[i].create(1, &a));
			mr_is(MRAPI_ERR_PARAMETER,
			      mr_kind[i].set_attribute(&a, MRAPI_DOMAIN_SHARED, &b, sizeof(b)));
			mr_is(mr_kind[i].id_invalid, mr_kind[i].get(1));
		}
	mr_down();
}

/* What other nodes get is the same. */
struct asked {
	mrapi_hndl_t h[MR_KINDS];
};

static void ask(void *arg)
{
	struct asked *q = arg;

	for (int i = 0; i < MR_KINDS; i++) {
		mrapi_boolean_t b = 7;
		mrapi_uint_t id = 7;

		mr_ok(mr_kind[i].get_attribute(q->h[i], MRAPI_DOMAIN_SHARED, &b, sizeof(b)));
		twc_eq(b, MRAPI_FALSE);
		mr_ok(mr_kind[i].get_attribute(q->h[i], MRAPI_OBJECT_ID, &id, sizeof(id)));
		twc_eq(id, 11);
	}
}

MR_BOTH(mrapi_attr, of_another_node)
{
	struct asked *q = mr_shared(sizeof(*q));
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++)
		q->h[i] = mr_create_with(&mr_kind[i], 11, MRAPI_DOMAIN_SHARED, MRAPI_FALSE);
	mr_do(&p, ask, q);
	mr_down();
	mr_peer_end(&p);
}

/* 4.4.1.3 allows the address as mrapi_uint_t, too. */
Test(mrapi_attr, shmem_address_widths)
{
	const struct mr_kind *k = &mr_kind[MR_SHMEM];
	union mr_attributes a;
	mrapi_uint_t narrow = MRAPI_SHMEM_ADDR_ANY;
	mrapi_addr_t wide = 1;
	mrapi_hndl_t h;

	mr_up(MR_NODE);
	a = fresh(k);
	mr_ok(k->set_attribute(&a, MRAPI_SHMEM_ADDRESS, &narrow, sizeof(narrow)));
	h = mr_val(k->create(1, &a));
	mr_ok(k->get_attribute(h, MRAPI_SHMEM_ADDRESS, &wide, sizeof(wide)));
	twc_eq(wide, MRAPI_SHMEM_ADDR_ANY);
	narrow = 1;
	mr_ok(k->get_attribute(h, MRAPI_SHMEM_ADDRESS, &narrow, sizeof(narrow)));
	twc_eq(narrow, MRAPI_SHMEM_ADDR_ANY);
	wide = 1ull << 40;
	mr_ok(k->set_attribute(&a, MRAPI_SHMEM_ADDRESS, &wide, sizeof(wide)));
	h = mr_val(k->create(2, &a));
	mr_is(MRAPI_ERR_ATTR_SIZE,
	      k->get_attribute(h, MRAPI_SHMEM_ADDRESS, &narrow, sizeof(narrow)));
	mr_down();
}
