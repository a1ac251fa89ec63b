/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory between two hosts: tests/net/rmem runs this with a wire between
 * them. An owner on the other host makes memory of each kind; a reader here does
 * everything to it that MRAPI 4.4.2 has, against a model of its bytes, by each
 * way there is; then either is killed in the middle of it.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/twr.h"
#include "lib/twt.h"

#define SIZE 1500000u
#define SOON_MS (10000 * (int)twt_patience()) /* a hang, not a delay */
#define TURNS (twt_slow() > 1 ? 25 : 300)
#define ENDS (twt_slow() > 1 ? 5 : 40)

enum { PLAIN = 1, ANY, DMA, CACHE, SHARED, HOMELY, NOBODYS = 77 };

static uint64_t rng = 1;
static struct twt_child owner;
static char model[SIZE], mine[2 * SIZE];

/* ------------------------------------------------------------------ the owner */

/* A word of the reader: what to do with which memory. */
struct order {
	char what; /* d delete, m show the bytes, f finalize, p pause */
	int id;
};

struct memory {
	mrapi_rmem_hndl_t handle;
	char *bytes;
};

static struct memory make(int id, mrapi_rmem_atype_t atype, char *bytes)
{
	struct memory m = {0, bytes};

	memset(bytes, 0, SIZE);
	OK(m.handle = mrapi_rmem_create(id, bytes, atype, NULL, SIZE, &st));
	return m;
}

/* Memory for the owner's domain only. */
static void make_homely(void)
{
	static char bytes[64];
	mrapi_rmem_attributes_t a;
	mrapi_boolean_t no = MRAPI_FALSE;

	OK(mrapi_rmem_init_attributes(&a, &st));
	OK(mrapi_rmem_set_attribute(&a, MRAPI_DOMAIN_SHARED, &no, sizeof(no), &st));
	OK(mrapi_rmem_create(HOMELY, bytes, MRAPI_RMEM_DEFAULT, &a, sizeof(bytes), &st));
}

static int own(void *arg, int fd)
{
	struct memory m[HOMELY + 1] = {{0}};
	mrapi_shmem_hndl_t shared;
	struct order o;
	char *bytes;

	(void)arg;
	twr_who = "owner";
	twr_node(4);
	OK(shared = mrapi_shmem_create(1, SIZE, NULL, 0, NULL, &st));
	OK(bytes = mrapi_shmem_attach(shared, &st));
	m[PLAIN] = make(PLAIN, MRAPI_RMEM_DEFAULT, malloc(SIZE));
	m[ANY] = make(ANY, MRAPI_RMEM_ATYPE_ANY, malloc(SIZE));
	m[DMA] = make(DMA, MRAPI_RMEM_DMA, malloc(SIZE));
	m[CACHE] = make(CACHE, MRAPI_RMEM_SWCACHE, malloc(SIZE));
	make_homely();
	m[SHARED] = make(SHARED, MRAPI_RMEM_DEFAULT, bytes);
	HOLDS(twt_put(fd, "r", 1) == 0);
	while (twt_get(fd, &o, sizeof(o)) == 0) {
		mrapi_status_t st = MRAPI_SUCCESS;

		if (o.what == 'd')
			mrapi_rmem_delete(m[o.id].handle, &st);
		if (o.what == 'm')
			HOLDS(twt_put(fd, m[o.id].bytes, SIZE) == 0);
		if (o.what == 'f')
			mrapi_finalize(&st);
		HOLDS(twt_put(fd, &st, sizeof(st)) == 0);
	}
	return 0;
}

static mrapi_status_t order(char what, int id)
{
	struct order o = {what, id};
	mrapi_status_t st;

	HOLDS(twt_put(owner.fd, &o, sizeof(o)) == 0);
	if (what == 'm')
		HOLDS(twt_get(owner.fd, mine, SIZE) == 0);
	HOLDS(twt_get(owner.fd, &st, sizeof(st)) == 0);
	return st;
}

/* ------------------------------------------------------------------ the reader */

static mrapi_rmem_hndl_t attach(int id, mrapi_rmem_atype_t atype)
{
	mrapi_rmem_hndl_t h;

	OK(h = mrapi_rmem_get(id, atype, &st));
	OK(mrapi_rmem_attach(h, &st));
	return h;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)(twt_random(&rng) % n);
}

/* A random strided piece of work that fits. */
struct work {
	bool write, later;
	uint32_t remote, local, bytes, n, remote_stride, local_stride;
};

static struct work random_work(void)
{
	static const uint32_t longest[] = {1, 8, 100, 5000, 70000, 600000};
	struct work w = {.write = below(2), .later = below(2)};

	w.bytes = 1 + below(longest[below(6)]);
	w.n = w.bytes > 10000 ? 1 + below(2) : below(200);
	w.remote_stride = w.bytes + (below(2) ? 0 : below(below(2) ? 20 : 6000));
	w.local_stride = w.bytes + (below(2) ? 0 : below(20));
	while (w.n > 1 && (uint64_t)(w.n - 1) * w.remote_stride + w.bytes > SIZE)
		w.n /= 2;
	w.remote = below(SIZE - (w.n ? (w.n - 1) * w.remote_stride : 0) - w.bytes + 1);
	w.local = below(64);
	return w;
}

static void do_work(mrapi_rmem_hndl_t h, const struct work *w)
{
	mrapi_request_t request;
	size_t moved = 0;

	if (!w->later && w->write)
		OK(mrapi_rmem_write(h, w->remote, mine, w->local, w->bytes, w->n, w->remote_stride,
				    w->local_stride, &st));
	else if (!w->later)
		OK(mrapi_rmem_read(h, w->remote, mine, sizeof(mine), w->local, w->bytes, w->n,
				   w->remote_stride, w->local_stride, &st));
	else if (w->write)
		OK(mrapi_rmem_write_i(h, w->remote, mine, w->local, w->bytes, w->n,
				      w->remote_stride, w->local_stride, &request, &st));
	else
		OK(mrapi_rmem_read_i(h, w->remote, mine, w->local, w->bytes, w->n, w->remote_stride,
				     w->local_stride, &request, &st));
	if (w->later) {
		OK(mrapi_wait(&request, &moved, SOON_MS, &st));
		HOLDS(moved == (size_t)w->bytes * w->n);
	}
}

static void random_turn(mrapi_rmem_hndl_t h)
{
	struct work w = random_work();
	uint32_t span = w.local + w.n * w.local_stride + w.bytes;

	memset(mine, 0x5a, span);
	if (w.write)
		twt_fill(mine, span, twt_random(&rng));
	do_work(h, &w);
	for (uint32_t i = 0; i < w.n; i++) {
		char *here = mine + w.local + (size_t)i * w.local_stride;
		char *there = model + w.remote + (size_t)i * w.remote_stride;

		if (w.write)
			memcpy(there, here, w.bytes);
		HOLDS(memcmp(there, here, w.bytes) == 0);
		if (!w.write)
			memset(here, 0x5a, w.bytes);
	}
	/* Nothing beside the pieces was touched. */
	for (uint32_t i = 0; i < span && !w.write; i++)
		HOLDS(mine[i] == 0x5a);
}

static void use_one(int id, mrapi_rmem_atype_t atype)
{
	mrapi_rmem_hndl_t h = attach(id, atype);

	memset(model, 0, SIZE);
	for (int i = 0; i < TURNS; i++)
		random_turn(h);
	OK(mrapi_rmem_flush(h, &st));
	HOLDS(order('m', id) == MRAPI_SUCCESS);
	HOLDS(memcmp(mine, model, SIZE) == 0);
	OK(mrapi_rmem_read(h, 0, mine, SIZE, 0, SIZE, 1, 0, 0, &st));
	HOLDS(memcmp(mine, model, SIZE) == 0);
	OK(mrapi_rmem_detach(h, &st));
}

static void check_attributes(void)
{
	mrapi_rmem_hndl_t h;
	mrapi_rmem_atype_t atype;
	mrapi_uint_t id;
	size_t size;

	OK(h = mrapi_rmem_get(ANY, MRAPI_RMEM_DMA, &st));
	OK(mrapi_rmem_get_attribute(h, MRAPI_RMEM_SIZE, &size, sizeof(size), &st));
	HOLDS(size == SIZE);
	OK(mrapi_rmem_get_attribute(h, MRAPI_RMEM_ACCESS_TYPE, &atype, sizeof(atype), &st));
	HOLDS(atype == MRAPI_RMEM_ATYPE_ANY);
	OK(mrapi_rmem_get_attribute(h, MRAPI_OBJECT_ID, &id, sizeof(id), &st));
	HOLDS(id == ANY);
	IS(MRAPI_ERR_ATTR_NUM, mrapi_rmem_get_attribute(h, 9999, &size, sizeof(size), &st));
}

static void check_errors(void)
{
	mrapi_rmem_hndl_t h, again;
	mrapi_request_t request;

	IS(MRAPI_ERR_RMEM_ID_INVALID, mrapi_rmem_get(NOBODYS, MRAPI_RMEM_DEFAULT, &st));
	OK(mrapi_rmem_get(HOMELY, MRAPI_RMEM_DEFAULT, &st));
	IS(MRAPI_ERR_RMEM_ATYPE, mrapi_rmem_get(PLAIN, MRAPI_RMEM_DMA, &st));
	IS(MRAPI_ERR_RMEM_ATYPE_INVALID, mrapi_rmem_get(PLAIN, 99, &st));
	OK(h = mrapi_rmem_get(PLAIN, MRAPI_RMEM_DEFAULT, &st));
	OK(again = mrapi_rmem_get(PLAIN, MRAPI_RMEM_DEFAULT, &st));
	HOLDS(h == again);
	IS(MRAPI_ERR_RMEM_NOTATTACHED, mrapi_rmem_read(h, 0, mine, 1, 0, 1, 1, 0, 0, &st));
	IS(MRAPI_ERR_RMEM_NOTATTACHED, mrapi_rmem_detach(h, &st));
	OK(mrapi_rmem_attach(h, &st));
	IS(MRAPI_ERR_RMEM_ATTACHED, mrapi_rmem_attach(h, &st));
	IS(MRAPI_ERR_RMEM_NOTOWNER, mrapi_rmem_delete(h, &st));
	IS(MRAPI_ERR_RMEM_BUFF_OVERRUN,
	   mrapi_rmem_read(h, SIZE - 1, mine, SIZE, 0, 2, 1, 0, 0, &st));
	IS(MRAPI_ERR_RMEM_BUFF_OVERRUN, mrapi_rmem_write(h, 0, mine, 0, 8, SIZE / 8, 9, 8, &st));
	IS(MRAPI_ERR_RMEM_STRIDE, mrapi_rmem_read(h, 0, mine, SIZE, 0, 8, 2, 7, 8, &st));
	IS(MRAPI_ERR_PARAMETER, mrapi_rmem_read(h, 0, NULL, SIZE, 0, 8, 1, 8, 8, &st));
	IS(MRAPI_ERR_PARAMETER, mrapi_rmem_read(h, 0, mine, SIZE, 0, 0, 1, 8, 8, &st));
	IS(MRAPI_ERR_PARAMETER, mrapi_rmem_read(h, 0, mine, 4, 0, 8, 1, 8, 8, &st));
	OK(mrapi_rmem_read(h, 0, mine, SIZE, 0, 8, 0, 8, 8, &st));
	OK(mrapi_rmem_read_i(h, 0, mine, 0, 8, 0, 8, 8, &request, &st));
	OK(mrapi_wait(&request, NULL, SOON_MS, &st));
	HOLDS(order('d', PLAIN) == MRAPI_ERR_RMEM_ATTACH);
	OK(mrapi_rmem_detach(h, &st));
	HOLDS(order('d', PLAIN) == MRAPI_SUCCESS);
	IS(MRAPI_ERR_RMEM_INVALID, mrapi_rmem_attach(h, &st));
	IS(MRAPI_ERR_RMEM_ID_INVALID, mrapi_rmem_get(PLAIN, MRAPI_RMEM_DEFAULT, &st));
}

/* Several requests at once: the end of any, of all, and cancelled ones. */
static void check_requests(void)
{
	mrapi_rmem_hndl_t h = attach(ANY, MRAPI_RMEM_DEFAULT);
	mrapi_request_t r[8];
	size_t size;

	for (int turn = 0; turn < 20; turn++) {
		mrapi_uint_t i;

		for (int k = 0; k < 8; k++)
			OK(mrapi_rmem_read_i(h, 0, mine, 0, SIZE / (1 + k), 1, 0, 0, &r[k], &st));
		OK(i = mrapi_wait_any(8, r, &size, SOON_MS, &st));
		HOLDS(i < 8 && size == SIZE / (1 + i));
		for (mrapi_uint_t k = 0; k < 8; k++) {
			mrapi_status_t st;

			if (k == i)
				continue;
			mrapi_cancel(&r[k], &st);
			HOLDS(st == MRAPI_SUCCESS);
			IS(MRAPI_ERR_REQUEST_CANCELED, mrapi_test(&r[k], &size, &st));
		}
	}
	OK(mrapi_rmem_detach(h, &st));
}

/* Stops the owner's process: all of its threads stand when the process is shown so. */
static void stop_owner(void)
{
	char path[40], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)owner.pid);
	HOLDS(kill(owner.pid, SIGSTOP) == 0);
	while (state != 'T') {
		HOLDS((f = fopen(path, "r")) != NULL);
		HOLDS(fscanf(f, "%*d (%*[^)]) %c", &state) == 1);
		fclose(f);
	}
}

/* The owner's process stands still: requests begin all the same, and end when it goes on. */
static void check_later(void)
{
	static const uint32_t sizes[] = {1, 65536, 262144, SIZE};
	mrapi_rmem_hndl_t h = attach(ANY, MRAPI_RMEM_DEFAULT);
	mrapi_request_t r[2];
	size_t size;

	for (int i = 0; i < 4; i++) {
		stop_owner();
		OK(mrapi_rmem_read_i(h, 0, mine, 0, sizes[i], 1, 0, 0, &r[0], &st));
		OK(mrapi_rmem_write_i(h, 0, model, 0, sizes[i], 1, 0, 0, &r[1], &st));
		for (int k = 0; k < 2; k++) {
			IS(MRAPI_INCOMPLETE, mrapi_test(&r[k], &size, &st));
			IS(MRAPI_TIMEOUT, mrapi_wait(&r[k], &size, 10, &st));
		}
		HOLDS(kill(owner.pid, SIGCONT) == 0);
		for (int k = 0; k < 2; k++) {
			OK(mrapi_wait(&r[k], &size, SOON_MS, &st));
			HOLDS(size == sizes[i]);
		}
	}
	OK(mrapi_rmem_detach(h, &st));
}

static void check_locals(void)
{
	mrapi_mutex_hndl_t m;

	/* What crosses hosts is remote memory alone. */
	IS(MRAPI_ERR_SHM_ID_INVALID, mrapi_shmem_get(1, &st));
	OK(m = mrapi_mutex_create(1, NULL, &st));
	OK(mrapi_mutex_delete(m, &st));
}

static int read_all(void *arg, int fd)
{
	mrapi_rmem_hndl_t h;

	(void)fd;
	twr_who = arg;
	setenv("TAGWIRE_RMEM", arg, 1);
	twr_node(0);
	check_locals();
	use_one(PLAIN, MRAPI_RMEM_DEFAULT);
	use_one(ANY, MRAPI_RMEM_DEFAULT);
	use_one(DMA, MRAPI_RMEM_DMA);
	use_one(CACHE, MRAPI_RMEM_SWCACHE);
	use_one(SHARED, MRAPI_RMEM_DEFAULT);
	check_attributes();
	check_requests();
	/* A device reads and writes without its owner's processor. */
	if (!getenv("NET_RMEM_DEVICE") || strcmp(arg, "network") != 0)
		check_later();
	check_errors();
	/* The owner ends while we are attached. */
	h = attach(DMA, MRAPI_RMEM_DMA);
	HOLDS(order('f', 0) == MRAPI_SUCCESS);
	IS(MRAPI_ERR_RMEM_INVALID, mrapi_rmem_read(h, 0, mine, 1, 0, 1, 1, 0, 0, &st));
	IS(MRAPI_ERR_RMEM_INVALID, mrapi_rmem_detach(h, &st));
	OK(mrapi_finalize(&st));
	return 0;
}

static int look_from_elsewhere(void *arg, int fd)
{
	(void)fd;
	twr_who = arg;
	twr_node_in(2, 1);
	OK(mrapi_rmem_get(PLAIN, MRAPI_RMEM_DEFAULT, &st));
	IS(MRAPI_ERR_DOMAIN_NOTSHARED, mrapi_rmem_get(HOMELY, MRAPI_RMEM_DEFAULT, &st));
	OK(mrapi_finalize(&st));
	return 0;
}

/* A handle means the same in another process of the host. */
static int use_handle(void *handle, int fd)
{
	mrapi_rmem_hndl_t h = (mrapi_rmem_hndl_t)(uintptr_t)handle;

	(void)fd;
	twr_node(1);
	OK(mrapi_rmem_attach(h, &st));
	OK(mrapi_rmem_read(h, 0, mine, SIZE, 0, SIZE, 1, 0, 0, &st));
	OK(mrapi_rmem_detach(h, &st));
	OK(mrapi_finalize(&st));
	return 0;
}

static int lend_handle(void *arg, int fd)
{
	mrapi_rmem_hndl_t h;
	char word;

	(void)arg;
	twr_node(0);
	OK(h = mrapi_rmem_get(ANY, MRAPI_RMEM_DEFAULT, &st));
	HOLDS(twt_put(fd, &h, sizeof(h)) == 0 && twt_get(fd, &word, 1) == 0);
	OK(mrapi_finalize(&st));
	return 0;
}

/* Reads and writes until the owner is dead, or for ever. */
static int read_on(void *arg, int fd)
{
	mrapi_rmem_hndl_t h;
	mrapi_request_t request;
	mrapi_status_t st = MRAPI_SUCCESS;

	twr_who = arg;
	setenv("TAGWIRE_RMEM", arg, 1);
	twr_node(0);
	h = attach(PLAIN, MRAPI_RMEM_DEFAULT);
	HOLDS(twt_put(fd, "r", 1) == 0);
	for (double end = twt_now() + SOON_MS / 1000.; st == MRAPI_SUCCESS;) {
		mrapi_rmem_read(h, 0, mine, SIZE, 0, SIZE, 1, 0, 0, &st);
		if (st != MRAPI_SUCCESS)
			break;
		mrapi_rmem_write_i(h, 0, mine, 0, 1, SIZE / 1000, 999, 1, &request, &st);
		if (st == MRAPI_SUCCESS)
			mrapi_wait(&request, NULL, SOON_MS, &st);
		if (twt_now() > end)
			FAIL("the owner's death is not seen", st);
	}
	if (st != MRAPI_ERR_RMEM_INVALID)
		FAIL("after the owner's death", st);
	IS(MRAPI_ERR_RMEM_ID_INVALID, mrapi_rmem_get(PLAIN, MRAPI_RMEM_DEFAULT, &st));
	OK(mrapi_finalize(&st));
	return 0;
}

/* A thread's reads, until the process's last node ends. */
struct reads {
	mrapi_rmem_hndl_t h;
	_Atomic int begun, ended;
};

static void *read_until_the_end(void *arg)
{
	struct reads *r = arg;
	mrapi_status_t st = MRAPI_SUCCESS;

	while (st == MRAPI_SUCCESS) {
		mrapi_rmem_read(r->h, 0, mine, SIZE, 0, SIZE, 1, 0, 0, &st);
		atomic_store(&r->begun, 1);
	}
	if (st != MRAPI_ERR_RMEM_INVALID && st != MRAPI_ERR_NODE_NOTINIT &&
	    st != MRAPI_ERR_RMEM_NOTATTACHED)
		FAIL("after the end of the node", st);
	/* From here on the memory is the program's. */
	memset(mine, 0x5a, SIZE);
	while (!atomic_load(&r->ended))
		usleep(10);
	for (uint32_t i = 0; i < SIZE; i++)
		HOLDS(mine[i] == 0x5a);
	return NULL;
}

static int end_amid_reads(void *arg, int fd)
{
	(void)fd;
	twr_who = arg;
	setenv("TAGWIRE_RMEM", arg, 1);
	for (int turn = 0; turn < ENDS; turn++) {
		struct reads r = {0};
		pthread_t thread;

		twr_node(0);
		r.h = attach(ANY, MRAPI_RMEM_DEFAULT);
		HOLDS(pthread_create(&thread, NULL, read_until_the_end, &r) == 0);
		while (!atomic_load(&r.begun))
			usleep(10);
		usleep((useconds_t)below(3000));
		OK(mrapi_finalize(&st));
		atomic_store(&r.ended, 1);
		HOLDS(pthread_join(thread, NULL) == 0);
	}
	return 0;
}

/* ------------------------------------------------------------------------ main */

static void hear(const struct twt_child *c)
{
	char word;

	HOLDS(twt_get(c->fd, &word, 1) == 0);
}

static void begin_owner(void)
{
	twt_spawn(&owner, own, NULL);
	hear(&owner);
}

/* A child on this host. */
static void spawn_here(struct twt_child *c, int (*fn)(void *, int), const char *arg)
{
	char *there = strdup(getenv("TWT_NETNS"));

	unsetenv("TWT_NETNS");
	twt_spawn(c, fn, (void *)(uintptr_t)arg);
	setenv("TWT_NETNS", there, 1);
	free(there);
}

static void share_handle(void)
{
	struct twt_child lender, user;
	mrapi_rmem_hndl_t h;

	spawn_here(&lender, lend_handle, NULL);
	HOLDS(twt_get(lender.fd, &h, sizeof(h)) == 0);
	spawn_here(&user, use_handle, (const char *)(uintptr_t)h);
	HOLDS(twt_join(&user, TWT_LONG) == 0);
	HOLDS(twt_put(lender.fd, "e", 1) == 0);
	HOLDS(twt_join(&lender, TWT_LONG) == 0);
}

static void everything(const char *by)
{
	struct twt_child reader;

	begin_owner();
	spawn_here(&reader, look_from_elsewhere, by);
	HOLDS(twt_join(&reader, TWT_LONG) == 0);
	share_handle();
	spawn_here(&reader, end_amid_reads, by);
	HOLDS(twt_join(&reader, 2 * TWT_LONG) == 0);
	spawn_here(&reader, read_all, by);
	HOLDS(twt_join(&reader, 2 * TWT_LONG) == 0);
	close(owner.fd);
	owner.fd = -1;
	HOLDS(twt_join(&owner, TWT_LONG) == 0);
}

static void owner_dies(const char *by)
{
	struct twt_child reader;

	begin_owner();
	spawn_here(&reader, read_on, by);
	hear(&reader);
	usleep((useconds_t)below(100000));
	kill(owner.pid, SIGKILL);
	HOLDS(twt_join(&reader, TWT_LONG) == 0);
	twt_join(&owner, TWT_LONG);
}

static void reader_dies(const char *by)
{
	struct twt_child reader;
	mrapi_status_t st = MRAPI_ERR_RMEM_ATTACH;

	begin_owner();
	spawn_here(&reader, read_on, by);
	hear(&reader);
	HOLDS(order('d', PLAIN) == MRAPI_ERR_RMEM_ATTACH);
	usleep((useconds_t)below(100000));
	kill(reader.pid, SIGKILL);
	twt_join(&reader, TWT_LONG);
	for (int i = 0; i < SOON_MS && st != MRAPI_SUCCESS; i++) {
		usleep(1000);
		st = order('d', PLAIN);
	}
	if (st != MRAPI_SUCCESS)
		FAIL("deleting what the dead was attached to", st);
	kill(owner.pid, SIGKILL);
	twt_join(&owner, TWT_LONG);
}

int main(int argc, char **argv)
{
	static const char *const ways[] = {"network", "served"};
	long deaths = argc > 2 ? atol(argv[2]) : 5;

	rng = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	if (!getenv("TWT_NETNS")) {
		fprintf(stderr, "net_rmem: needs two hosts, see tests/net/rmem\n");
		return 2;
	}
	/* On a busy machine opening a network takes long. */
	setenv("TAGWIRE_CONNECT_TIMEOUT", "60000", 0);
	for (int i = 0; i < 2; i++) {
		twr_who = ways[i];
		everything(ways[i]);
		for (int k = 0; k < deaths; k++) {
			owner_dies(ways[i]);
			reader_dies(ways[i]);
		}
	}
	return 0;
}
