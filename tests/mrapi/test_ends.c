/* SPDX-License-Identifier: BSD-2-Clause */
/* A node ends beside a call of another thread or process, at a moment that the test chooses. */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_ends, .init = twc_job, .timeout = MR_TIMEOUT);

/* -------------------------------------------- moments, where the library calls the system */

static _Thread_local void (*in_spin)(void), (*in_wake)(void), (*in_fill)(void);

static void once(void (**fn)(void))
{
	void (*now)(void) = *fn;

	*fn = NULL;
	if (now)
		now();
}

/* Who waits for a lock asks this before it spins. */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	int (*real)(pid_t, size_t, cpu_set_t *) =
		(int (*)(pid_t, size_t, cpu_set_t *))dlsym(RTLD_NEXT, "sched_getaffinity");

	once(&in_spin);
	return real(pid, size, set);
}

/* Reads six arguments, however many there are. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"), a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAKE)
		once(&in_wake);
	/* Before it gets its pages, shared memory frees what a dead process may have left. */
	if (number == SYS_fallocate && (a[1] & FALLOC_FL_PUNCH_HOLE))
		once(&in_fill);
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static _Atomic int there, go_on;

static void stop_here(void)
{
	atomic_store(&there, 1);
	while (!atomic_load(&go_on))
		twc_sleep(1);
}

static void await_there(void)
{
	while (!atomic_load(&there))
		twc_sleep(1);
}

/* --------------------------------------------------------------------------------- waits */

static const struct mr_kind *k; /* set before other processes start */

static void lock(void *unused)
{
	(void)unused;
	mr_ok(k->lock(mr_val(k->get(1)), MRAPI_INFINITE));
}

static void create(void *unused)
{
	(void)unused;
	mr_val(k->create(1, NULL));
}

static void lock_until_ended(void *unused)
{
	mrapi_hndl_t h = mr_val(k->get(1));

	(void)unused;
	in_spin = stop_here;
	mr_is(MRAPI_ERR_NODE_NOTINIT, k->lock(h, MRAPI_INFINITE));
}

/* It spins when its node ends, and goes to sleep after that. The process has another node. */
static void ends_beside_a_spin(const struct mr_kind *kind)
{
	struct mr_peer holder, other;
	struct twc_thread t;

	k = kind;
	mr_peer(&holder, MR_PROCESS, 1);
	mr_up(MR_NODE);
	mr_peer(&other, MR_THREAD, 2);
	mr_do(&holder, create, NULL);
	mr_do(&holder, lock, NULL);
	twc_start(&t, lock_until_ended, NULL);
	await_there();
	mr_down();
	atomic_store(&go_on, 1);
	twc_join(&t);
	mr_peer_end(&other);
	mr_peer_end(&holder);
}

Test(mrapi_ends, beside_a_spin_for_a_mutex)
{
	ends_beside_a_spin(&mr_kind[MR_MUTEX]);
}

Test(mrapi_ends, beside_a_spin_for_a_semaphore)
{
	ends_beside_a_spin(&mr_kind[MR_SEM]);
}

Test(mrapi_ends, beside_a_spin_for_a_writer)
{
	ends_beside_a_spin(&mr_kind[MR_RWL]);
}

struct words {
	uint32_t lock, sum;
	mrapi_msg_t element __attribute__((aligned(64)));
	_Atomic int begun;
};

static void hold_word(void *words)
{
	struct words *w = words;

	mr_ok(mrapi_atomic_lock(NULL, &w->lock, NULL, sizeof(w->lock), &mr_st));
}

static void await_word(void *words)
{
	struct words *w = words;

	atomic_store(&w->begun, 1);
	mr_is(MRAPI_ERR_NODE_NOTINIT,
	      mrapi_atomic_lock(NULL, &w->lock, NULL, sizeof(w->lock), &mr_st));
}

static void add_one(struct words *w, mrapi_atomic_barrier_t *axb, mrapi_status_t want)
{
	uint32_t one = 1;

	mr_is(want, mrapi_atomic_add(axb, &w->sum, &one, NULL, sizeof(one), &mr_st));
}

static void begin_barrier(struct words *w, mrapi_atomic_barrier_t *axb)
{
	mrapi_barrier_init(axb, 0, &w->element, 1, sizeof(w->element), NULL, MRAPI_INFINITE,
			   &mr_st);
}

static void hold_element(void *words)
{
	struct words *w = words;
	mrapi_atomic_barrier_t axb;

	mr_ok(begin_barrier(w, &axb));
	mr_ok(mrapi_atomic_hold(&axb, MRAPI_TRUE, &mr_st));
	add_one(w, &axb, MRAPI_SUCCESS);
}

static void await_element(void *words)
{
	struct words *w = words;
	mrapi_atomic_barrier_t axb;

	begin_barrier(w, &axb);
	atomic_store(&w->begun, 1);
	if (mr_st == MRAPI_SUCCESS)
		add_one(w, &axb, MRAPI_ERR_NODE_NOTINIT);
}

static void ends_beside_a_wait(void (*hold)(void *), void (*await)(void *))
{
	struct words *w = mr_shared(sizeof(*w));
	struct mr_peer holder;
	struct twc_thread t;

	mr_peer(&holder, MR_PROCESS, 1);
	mr_up(MR_NODE);
	mr_do(&holder, hold, w);
	twc_start(&t, await, w);
	while (!atomic_load(&w->begun))
		twc_sleep(1);
	twc_sleep(MR_SHORT);
	mr_down();
	twc_join(&t);
	mr_peer_end(&holder);
}

Test(mrapi_ends, beside_a_wait_for_an_atomic_lock)
{
	ends_beside_a_wait(hold_word, await_word);
}

Test(mrapi_ends, beside_a_wait_for_an_element)
{
	ends_beside_a_wait(hold_element, await_element);
}

/* A program that becomes a daemon closes what it knows nothing of. */
static int close_and_end(void *unused, int parent)
{
	(void)unused;
	mr_up(1);
	for (int fd = 3; fd < 900; fd++)
		if (fd != parent)
			close(fd);
	mr_down();
	return 0;
}

Test(mrapi_ends, without_its_descriptors)
{
	struct twt_child child;

	twt_spawn(&child, close_and_end, NULL);
	twc_check(twt_join(&child, TWT_LONG) == 0);
}

/* ------------------------------------------------------------------------------- wake-ups */

static void unlock_and_stay(void *unused)
{
	(void)unused;
	in_wake = stop_here;
	k->unlock(k->get(1));
}

/* It has released the lock and taken a sleeper off the count when its process ends in order. */
static void leave_amid_unlock(int has, int go)
{
	struct twc_thread t;
	char c;

	mr_up(1);
	create(NULL);
	lock(NULL);
	if (write(has, "x", 1) != 1 || read(go, &c, 1) != 1)
		_exit(1);
	twc_start(&t, unlock_and_stay, NULL);
	await_there();
	mr_down();
	_exit(0);
}

static void exits_amid_unlock(const struct mr_kind *kind)
{
	struct mr_peer waiter;
	int has[2], go[2], status;
	pid_t owner;
	char c;

	k = kind;
	mr_peer(&waiter, MR_PROCESS, 2);
	twc_check(pipe(has) == 0 && pipe(go) == 0);
	owner = fork();
	if (owner == 0)
		leave_amid_unlock(has[1], go[0]);
	twc_check(read(has[0], &c, 1) == 1);
	mr_go(&waiter, lock, NULL);
	mr_asleep(&waiter);
	twc_check(write(go[1], "x", 1) == 1);
	twc_check(waitpid(owner, &status, 0) == owner && WIFEXITED(status) && !WEXITSTATUS(status));
	mr_done(&waiter);
	mr_peer_end(&waiter);
}

Test(mrapi_ends, in_order_amid_an_unlock_of_a_mutex)
{
	exits_amid_unlock(&mr_kind[MR_MUTEX]);
}

Test(mrapi_ends, in_order_amid_an_unlock_of_a_semaphore)
{
	exits_amid_unlock(&mr_kind[MR_SEM]);
}

/* --------------------------------------------------------------------------- remote memory */

enum { SIZE = 16 << 20, ROUNDS = 10 };

struct writing {
	mrapi_rmem_hndl_t h;
	_Atomic int under_way;
	bool detaches;
};

static void write_without_end(void *writing)
{
	struct writing *w = writing;
	char *from = malloc(SIZE);

	memset(from, 'w', SIZE);
	do {
		mrapi_rmem_write(w->h, 0, from, 0, SIZE, 1, 0, 0, &mr_st);
		atomic_store(&w->under_way, 1);
	} while (mr_st == MRAPI_SUCCESS);
	free(from);
}

/* Writes, and detaches amid a write. */
static void be_client(void *writing)
{
	struct writing *w = writing;
	struct twc_thread t;

	w->h = mr_val(mrapi_rmem_get(1, MRAPI_RMEM_ATYPE_DEFAULT, &mr_st));
	mr_ok(mrapi_rmem_attach(w->h, &mr_st));
	twc_start(&t, write_without_end, w);
	while (!atomic_load(&w->under_way))
		twc_sleep(1);
	if (w->detaches)
		mr_ok(mrapi_rmem_detach(w->h, &mr_st));
	twc_join(&t);
}

/* Nothing is written to memory that its owner has again. */
static void owner_gets_it_back(bool detaches)
{
	struct writing *w = mr_shared(sizeof(*w));
	mrapi_rmem_hndl_t h;
	struct mr_peer client;
	char *mem = malloc(SIZE);

	w->detaches = detaches;
	mr_peer(&client, MR_PROCESS, 1);
	for (int i = 0; i < ROUNDS; i++) {
		mr_up(MR_NODE);
		memset(mem, 0, SIZE);
		h = mr_val(mrapi_rmem_create(1, mem, MRAPI_RMEM_ATYPE_DEFAULT, NULL, SIZE, &mr_st));
		atomic_store(&w->under_way, 0);
		mr_go(&client, be_client, w);
		while (!atomic_load(&w->under_way))
			twc_sleep(1);
		if (!detaches)
			mr_down();
		else
			do
				mrapi_rmem_delete(h, &mr_st);
			while (mr_st == MRAPI_ERR_RMEM_ATTACH);
		memset(mem, 'm', SIZE);
		twc_sleep(MR_SHORT);
		for (size_t k = 0; k < SIZE; k++)
			twc_check(mem[k] == 'm');
		mr_done(&client);
		if (detaches)
			mr_down();
	}
	mr_peer_end(&client);
	free(mem);
}

Test(mrapi_ends, client_beside_its_write)
{
	owner_gets_it_back(true);
}

Test(mrapi_ends, owner_beside_a_write)
{
	owner_gets_it_back(false);
}

/* --------------------------------------------------------------------------- shared memory */

enum { ARENA = 64 << 20, MOST_OF_IT = 40 << 20 };

struct creating {
	mrapi_uint_t id;
	mrapi_shmem_hndl_t h;
	mrapi_status_t status;
};

static void create_large(void *creating)
{
	struct creating *c = creating;

	c->h = mrapi_shmem_create(c->id, MOST_OF_IT, NULL, 0, NULL, &c->status);
}

/* Of two that are created at a time, where there is room for one, one is refused. */
Test(mrapi_ends, room_for_one)
{
	struct rlimit small = {(2048ull << 20) + ARENA, RLIM_INFINITY};
	struct creating c[2] = {{.id = 1}, {.id = 2}};
	struct twc_thread t;

	if (sizeof(void *) < 8 || setrlimit(RLIMIT_FSIZE, &small) < 0)
		cr_skip_test("the limit does not make the arena small");
	mr_up(MR_NODE);
	for (int i = 0; i < ROUNDS; i++) {
		twc_start(&t, create_large, &c[1]);
		create_large(&c[0]);
		twc_join(&t);
		twc_check(c[0].status != MRAPI_SUCCESS || c[1].status != MRAPI_SUCCESS);
		for (int k = 0; k < 2; k++)
			if (c[k].status == MRAPI_SUCCESS)
				mr_ok(mrapi_shmem_delete(c[k].h, &mr_st));
	}
	mr_down();
}

/* And for a while. */
static void stop_until_ended(void)
{
	mrapi_status_t st;

	atomic_store(&there, 1);
	do {
		twc_sleep(1);
		mrapi_node_id_get(&st);
	} while (st == MRAPI_SUCCESS);
	twc_sleep(5 * MR_SHORT);
}

static void create_until_ended(void *unused)
{
	(void)unused;
	in_fill = stop_until_ended;
	mr_is(MRAPI_ERR_NODE_NOTINIT, mrapi_shmem_create(1, SIZE, NULL, 0, NULL, &mr_st));
}

static void create_instead(void *unused)
{
	(void)unused;
	mr_ok(mrapi_shmem_delete(mr_val(mrapi_shmem_create(1, SIZE, NULL, 0, NULL, &mr_st)),
				 &mr_st));
}

/* Nothing of it stays in the job when the process has left that. */
Test(mrapi_ends, beside_a_create)
{
	struct mr_peer other;
	struct twc_thread t;

	if (sizeof(void *) < 8)
		cr_skip_test("the system is called otherwise");
	mr_peer(&other, MR_PROCESS, 1);
	mr_up(MR_NODE);
	twc_start(&t, create_until_ended, NULL);
	await_there();
	mr_down();
	mr_do(&other, create_instead, NULL);
	twc_join(&t);
	mr_peer_end(&other);
}
