/* SPDX-License-Identifier: BSD-2-Clause */
/* Joining a job, and living in it, with too few descriptors: nobody takes that for a death. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_join, .init = twc_job, .timeout = MR_TIMEOUT);

enum { LIMIT = 64, ENOUGH = 40 };

static void limit_descriptors(rlim_t most)
{
	struct rlimit r;

	twc_eq(getrlimit(RLIMIT_NOFILE, &r), 0);
	r.rlim_cur = most < r.rlim_max ? most : r.rlim_max;
	twc_eq(setrlimit(RLIMIT_NOFILE, &r), 0);
}

/* Takes all descriptors below the limit; how many were free. */
static int use_up(void)
{
	int n = 0;

	setenv("TAGWIRE_LOG", "0", 1); /* that there are too few is told each time */
	limit_descriptors(LIMIT);
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		n++;
	twc_eq(errno, EMFILE);
	return n;
}

struct world {
	mrapi_mutex_hndl_t m;
	mrapi_key_t key;
	int joined[ENOUGH + 1];
	_Atomic(int) got;
};

static void create_and_lock(void *arg)
{
	struct world *w = arg;

	w->m = mr_val(mrapi_mutex_create(1, NULL, &mr_st));
	mr_ok(mrapi_mutex_lock(w->m, &w->key, 0, &mr_st));
}

static void unlock_and_delete(void *arg)
{
	struct world *w = arg;

	mr_ok(mrapi_mutex_unlock(w->m, &w->key, &mr_st));
	mr_ok(mrapi_mutex_delete(w->m, &mr_st));
}

/* Joins with 0, 1, 2 and more descriptors that are free. */
static void join_with_few(void *arg)
{
	struct world *w = arg;
	mrapi_info_t info;
	mrapi_key_t key;

	use_up();
	for (int n = 0; n <= ENOUGH; n++) {
		for (int i = 1; i <= n; i++)
			close(LIMIT - i);
		mr_st = -1;
		mrapi_initialize(MR_DOMAIN, 9, NULL, &info, &mr_st);
		w->joined[n] = mr_st == MRAPI_SUCCESS;
		if (w->joined[n]) {
			/* Its holder lives. */
			twc_check(!mr_val(mrapi_mutex_trylock(w->m, &key, &mr_st)));
			mr_down();
		} else {
			mr_eq(mr_st, MRAPI_ENO_INIT);
			mr_note("mrapi_initialize(");
		}
		twc_eq(use_up(), n);
	}
}

Test(mrapi_join, few_descriptors)
{
	struct world *w = mr_shared(sizeof(*w));
	struct mr_peer p[4];
	int first = 0;

	mr_peer_raw(&p[3], MR_PROCESS);
	for (mrapi_node_t i = 0; i < 3; i++)
		mr_peer(&p[i], MR_PROCESS, i);
	mr_do(&p[1], create_and_lock, w);
	mr_do(&p[3], join_with_few, w);
	twc_check(!w->joined[0]);
	while (first < ENOUGH && !w->joined[first])
		first++;
	for (int n = first; n <= ENOUGH; n++)
		twc_check(w->joined[n]);
	mr_do(&p[1], unlock_and_delete, w);
	for (int i = 0; i < 4; i++)
		mr_peer_end(&p[i]);
}

/* The first of a job, too, and there is one job only. */
static void be_first_with_few(void *arg)
{
	struct world *w = arg;
	mrapi_info_t info;
	int n = 0;

	use_up();
	while (mr_st = -1, mrapi_initialize(MR_DOMAIN, 9, NULL, &info, &mr_st),
	       mr_st == MRAPI_ENO_INIT)
		close(LIMIT - ++n);
	mr_eq(mr_st, MRAPI_SUCCESS);
	create_and_lock(w);
	unlock_and_delete(w);
	mr_down();
}

Test(mrapi_join, first_with_few)
{
	struct world *w = mr_shared(sizeof(*w));
	struct mr_peer p;

	mr_peer_raw(&p, MR_PROCESS);
	mr_do(&p, be_first_with_few, w);
	mr_peer_end(&p);
}

/* ------------------------------- a member that can take no connection any more */

static void run_out(void *arg)
{
	(void)arg;
	use_up();
}

static void recover(void *arg)
{
	(void)arg;
	limit_descriptors(RLIM_INFINITY);
}

/* There is nothing to do, so nothing is done. */
static void idle(void *arg)
{
	double before = twt_cpu();

	(void)arg;
	twc_sleep(1000);
	twc_check(twt_cpu() - before < 0.3);
}

static void lock_here(void *arg)
{
	struct world *w = arg;
	mrapi_key_t key;

	mr_ok(mrapi_mutex_lock(w->m, &key, MRAPI_INFINITE, &mr_st));
	atomic_fetch_add(&w->got, 1);
	mr_ok(mrapi_mutex_unlock(w->m, &key, &mr_st));
}

/* The one that could tell of a death stands still: the other one must see it itself. */
static void dies_unseen(struct mr_peer *stopped, struct mr_peer *waits, struct mr_peer *dies,
			struct world *w)
{
	int before = atomic_load(&w->got);

	mr_do(dies, create_and_lock, w);
	twc_eq(kill(stopped->child.pid, SIGSTOP), 0);
	mr_go(waits, lock_here, w);
	mr_asleep(waits);
	twc_eq(atomic_load(&w->got), before);
	mr_peer_kill(dies);
	mr_done(waits);
	twc_eq(atomic_load(&w->got), before + 1);
	twc_eq(kill(stopped->child.pid, SIGCONT), 0);
}

static void delete_it(void *arg)
{
	struct world *w = arg;

	mr_ok(mrapi_mutex_delete(w->m, &mr_st));
}

/* Of two members the second has no descriptor left. */
static void first_and_poor(struct mr_peer *first, struct mr_peer *poor)
{
	mr_peer(first, MR_PROCESS, 1);
	mr_peer(poor, MR_PROCESS, 2);
	mr_do(poor, run_out, NULL);
}

static void end_both(struct mr_peer *first, struct mr_peer *poor)
{
	mr_peer_end(poor);
	mr_peer_end(first);
}

Test(mrapi_join, member_without_descriptors)
{
	struct world *w = mr_shared(sizeof(*w));
	struct mr_peer first, poor, joins;

	first_and_poor(&first, &poor);
	mr_peer(&joins, MR_PROCESS, 3);
	mr_do(&poor, idle, NULL);
	dies_unseen(&first, &poor, &joins, w);
	mr_do(&poor, delete_it, w);
	/* With descriptors it is a member as any other. */
	mr_peer(&joins, MR_PROCESS, 3);
	mr_do(&poor, recover, NULL);
	dies_unseen(&first, &poor, &joins, w);
	mr_do(&poor, idle, NULL);
	mr_peer(&joins, MR_PROCESS, 3);
	mr_peer_end(&joins);
	end_both(&first, &poor);
}

static void be_another_node(void *arg)
{
	(void)arg;
	mr_up(3);
	mr_down();
}

static void begin_again_here(void *arg)
{
	struct twc_thread t;

	(void)arg;
	twc_start(&t, be_another_node, NULL);
	twc_join(&t);
}

/* A number is free once its process is dead, whoever has noticed that. */
Test(mrapi_join, number_of_a_dead_process)
{
	struct world *w = mr_shared(sizeof(*w));
	struct mr_peer first, poor, dies;

	first_and_poor(&first, &poor);
	for (int i = 0; i < 10; i++) {
		mr_peer(&dies, MR_PROCESS, 3);
		twc_eq(kill(first.child.pid, SIGSTOP), 0);
		mr_peer_kill(&dies);
		mr_do(&poor, begin_again_here, NULL);
		twc_eq(kill(first.child.pid, SIGCONT), 0);
	}
	mr_do(&poor, recover, NULL);
	end_both(&first, &poor);
}

/* There is nobody else to ask: no second job is begun, and later all is well. */
static void try_to_join(void *arg)
{
	mrapi_info_t info;

	(void)arg;
	setenv("TAGWIRE_LOG", "0", 1);
	mr_is(MRAPI_ENO_INIT, mrapi_initialize(MR_DOMAIN, 9, NULL, &info, &mr_st));
}

static void join_and_look(void *arg)
{
	struct world *w = arg;
	mrapi_key_t key;

	mr_up(9);
	twc_check(!mr_val(mrapi_mutex_trylock(w->m, &key, &mr_st)));
	mr_down();
}

Test(mrapi_join, only_member_without_descriptors)
{
	struct world *w = mr_shared(sizeof(*w));
	struct mr_peer poor, joins;

	mr_peer_raw(&joins, MR_PROCESS);
	mr_peer(&poor, MR_PROCESS, 1);
	mr_do(&poor, create_and_lock, w);
	mr_do(&poor, run_out, NULL);
	mr_do(&joins, try_to_join, NULL);
	mr_do(&poor, recover, NULL);
	mr_do(&joins, join_and_look, w);
	mr_do(&poor, unlock_and_delete, w);
	mr_peer_end(&joins);
	mr_peer_end(&poor);
}
