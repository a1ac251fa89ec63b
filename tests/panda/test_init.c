/* SPDX-License-Identifier: BSD-2-Clause */
/* Beginning and end, in any order; platforms; memory. */
#include <dirent.h>
#include <pthread.h>

#include "panda/pant.h"

TestSuite(panda_init, .init = pant_job, .timeout = PANT_TIMEOUT);

/* Every call outside of message passing says so and does nothing. */
static void nothing_works(void)
{
	int size = 5, len = 5;

	twc_eq(pan_mp_register_port(NULL), -1);
	twc_eq(pan_mp_send(0, 1, NULL, 0, PAN_MP_NORMAL), -1);
	twc_eq(pan_mp_receive(PAN_MP_DIRECT_PORT), -1);
	twc_eq(pan_mp_poll_send(1 << 30), -1);
	twc_eq(pan_mp_poll_receive(1 << 30), -1);
	twc_check(!pan_mp_finish_receive(1 << 30, &size, &len));
	twc_eq(size, 0);
	twc_eq(len, 0);
	pan_mp_finish_send(1 << 30);
	twc_eq(pan_mp_confirm_send(1 << 30), -1);
	pan_mp_ack_send(1 << 30);
	pan_mp_async_send(1 << 30, NULL, NULL);
	pan_mp_free_port(1);
	pan_mp_expect(0);
	pan_poll();
}

Test(panda_init, wrong_order)
{
	twc_eq(pan_my_pid(), -1);
	twc_eq(pan_nr_platforms(), 0);
	nothing_works();
	pan_mp_init(NULL, NULL);
	pan_mp_end();
	pan_start();
	pan_end();
	nothing_works();
	pan_init(NULL, NULL);
	twc_eq(pan_my_pid(), 0);
	twc_eq(pan_nr_platforms(), 1);
	nothing_works();
	pan_init(NULL, NULL);
	pan_mp_init();
	pan_mp_init(NULL, NULL);
	twc_eq(pan_mp_register_port(NULL), 1);
	pan_mp_end();
	pan_mp_end();
	nothing_works();
	pan_end();
	twc_eq(pan_my_pid(), -1);
	pan_end();
}

/* Begins, sends and ends in a thread that is cancelled as soon as a call lets that happen. */
static void *lives_cancelled(void *through)
{
	twc_eq(pthread_cancel(pthread_self()), 0);
	pant_begin(0, 1);
	twc_eq(pan_mp_register_port(NULL), 1);
	pant_send(0, 1, "x", 1, PAN_MP_NORMAL);
	twc_check(pan_mp_receive(1) > 0);
	pan_poll();
	pant_end();
	*(bool *)through = true;
	pthread_testcancel();
	return NULL;
}

/* No call is a cancellation point, and the next life is as good. */
Test(panda_init, cancelled)
{
	bool through = false;
	pthread_t thread;
	void *result;

	twc_eq(pthread_create(&thread, NULL, lives_cancelled, &through), 0);
	twc_eq(pthread_join(thread, &result), 0);
	twc_check(through && result == PTHREAD_CANCELED);
	pant_begin(0, 1);
	pant_end();
}

Test(panda_init, again_and_again)
{
	for (int i = 0; i < 20; i++) {
		pant_begin(0, 1);
		/* Ports begin anew. */
		twc_eq(pan_mp_register_port(NULL), 1);
		pant_send(0, 1, "x", 1, PAN_MP_NORMAL);
		twc_check(pan_mp_receive(1) > 0);
		twc_check(pan_mp_receive(PAN_MP_DIRECT_PORT) > 0);
		pant_end();
	}
}

/* How many descriptors (fd) or threads (task) this process has. */
static int entries(const char *what)
{
	char path[32];
	int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/self/%s", what);
	dir = opendir(path);
	twc_check(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Ends amid messages of every kind and receives that wait. */
static void end_amid_all(char *big, int len)
{
	int up;

	pant_begin(0, 1);
	twc_eq(pan_mp_register_port(NULL), 1);
	up = pan_mp_register_port(NULL);
	for (int i = 0; i < 5; i++) {
		pan_mp_send(0, 1, "x", 1, PAN_MP_DELAYED);
		pan_mp_send(0, up, big, len, PAN_MP_EXTERNAL);
		pan_mp_send(0, 7, big, len, PAN_MP_EXTERNAL);
		pan_mp_send(0, 7, big, 10, PAN_MP_NORMAL);
		pan_mp_send(0, pan_mp_receive(0), big, len, PAN_MP_EXTERNAL);
		pan_mp_send(0, pan_mp_receive(0), big, 100, PAN_MP_EXTERNAL);
		pan_mp_receive(up);
	}
	pan_end();
}

static struct {
	atomic_int entered[2], go[2]; /* by life */
	atomic_int inside, most;      /* of the second */
} lives;
static _Thread_local bool polls;

static int live_first(void *data, int size, int len)
{
	(void)data, (void)size, (void)len;
	if (polls) {
		atomic_store(&lives.entered[0], 1);
		pant_until(&lives.go[0], 1);
	}
	return 0;
}

static int live_second(void *data, int size, int len)
{
	int now = atomic_fetch_add(&lives.inside, 1) + 1;

	(void)data, (void)size, (void)len;
	if (now > lives.most)
		lives.most = now;
	atomic_fetch_add(&lives.entered[1], 1);
	pant_until(&lives.go[1], 1);
	atomic_fetch_sub(&lives.inside, 1);
	return 0;
}

static void poll_once(void *arg)
{
	(void)arg;
	polls = true;
	while (!lives.entered[0])
		pan_poll();
}

/* An upcall of a polling thread that ends in the next life ends no upcall of that life. */
Test(panda_init, upcall_of_the_life_before)
{
	struct twc_thread poller;
	int port;

	pant_begin(0, 1);
	port = pan_mp_register_port(live_first);
	twc_start(&poller, poll_once, NULL);
	while (!lives.entered[0]) { /* until it is the poller that makes the upcall */
		pan_mp_finish_send(pan_mp_send(0, port, "x", 1, PAN_MP_NORMAL));
		twc_sleep(1);
	}
	pan_mp_end();
	pan_mp_init(NULL, NULL);
	port = pan_mp_register_port(live_second);
	for (int i = 0; i < 8; i++)
		pan_mp_finish_send(pan_mp_send(0, port, "x", 1, PAN_MP_NORMAL));
	pant_until(&lives.entered[1], 1);
	atomic_store(&lives.go[0], 1);
	twc_join(&poller);
	twc_sleep(100); /* for a second upcall, if one is made */
	twc_eq(lives.most, 1);
	atomic_store(&lives.go[1], 1);
	pant_until(&lives.entered[1], 8);
	pan_mp_free_port(port);
	twc_eq(lives.inside, 0);
	pant_end();
}

Test(panda_init, end_with_everything_open)
{
	enum { LEN = 1000000 };
	int fds = entries("fd"), threads = entries("task");
	char *big = calloc(1, LEN);
	size_t before = 0;

	for (int i = 0; i < 8; i++) {
		if (i == 3) /* what is kept for good is there */
			before = pant_heap();
		end_amid_all(big, LEN);
	}
	twc_check(pant_heap() <= before + LEN / 2);
	twc_eq(entries("fd"), fds);
	twc_eq(entries("task"), threads);
	/* Nothing of all that is there in the next life. */
	pant_begin(0, 1);
	twc_eq(pan_mp_register_port(NULL), 1);
	pant_send(0, 1, "y", 1, PAN_MP_NORMAL);
	pant_receive_byte(1, 'y');
	pant_end();
	free(big);
}

static void with(const char *rank, int pid, int n)
{
	setenv("TAGWIRE_RANK", rank, 1);
	pan_init(NULL, NULL);
	twc_eq(pan_my_pid(), pid);
	twc_eq(pan_nr_platforms(), n);
	if (n)
		pan_end();
}

Test(panda_init, environment)
{
	with("0/1", 0, 1);
	with("3/4", 3, 4);
	with("4095/4096", 4095, 4096);
	with("0/4097", -1, 0);
	with("4/4", -1, 0);
	with("-1/4", -1, 0);
	with("0/0", -1, 0);
	with("0", -1, 0);
	with("0/2x", -1, 0);
	with("zero", -1, 0);
	setenv("TAGWIRE_NODES", "0-1=127.0.0.1", 1);
	with("1/2", 1, 2);
	setenv("TAGWIRE_NODES", "0-1=no.such.host.invalid", 1);
	with("1/2", -1, 0);
	setenv("TAGWIRE_NODES", "0-5000=127.0.0.1", 1);
	with("1/2", -1, 0);
}

/* A platform whose place is elsewhere cannot begin here. */
Test(panda_init, elsewhere)
{
	setenv("TAGWIRE_RANK", "1/2", 1);
	setenv("TAGWIRE_NODES", "1=192.0.2.1", 1);
	pan_init(NULL, NULL);
	twc_eq(pan_my_pid(), 1);
	pan_mp_init(NULL, NULL);
	twc_eq(pan_mp_register_port(NULL), -1);
	pan_end();
}

static int second(int pid, int fd)
{
	(void)pid;
	twc_tell(fd);
	twc_hear(fd);
	return 0;
}

static int lonely(void *arg, int fd)
{
	(void)arg;
	pant_begin(0, 1);
	pant_send(0, pan_mp_register_port(NULL), "x", 1, PAN_MP_NORMAL);
	twc_tell(fd);
	twc_hear(fd);
	pant_end();
	return 0;
}

/* Programs that are alone do not meet, and do not mind each other. */
Test(panda_init, alone_together)
{
	struct twt_child c[2];

	for (int i = 0; i < 2; i++)
		twt_spawn(&c[i], lonely, NULL);
	for (int i = 0; i < 2; i++)
		twc_hear(c[i].fd);
	for (int i = 0; i < 2; i++)
		twc_tell(c[i].fd);
	for (int i = 0; i < 2; i++)
		twc_eq(twt_join(&c[i], TWC_LONG), 0);
}

/* A platform number that somebody has. */
Test(panda_init, taken)
{
	struct twt_child c[PANT_MAX];

	pant_platforms(c, 2, second);
	twc_hear(c[1].fd);
	pant_end();
	setenv("TAGWIRE_RANK", "1/2", 1);
	pan_init(NULL, NULL);
	pan_mp_init(NULL, NULL);
	twc_eq(pan_mp_register_port(NULL), -1);
	pan_end();
	twc_tell(c[1].fd);
	pant_join(c, 2);
}

Test(panda_init, command_line)
{
	char *argv[] = {"prog", "-v", "--panda-rank", "1/3", "file", "--panda-rank=2/3",
			"end",	NULL};
	int argc = 7;

	setenv("TAGWIRE_RANK", "0/2", 1);
	pan_init(&argc, argv);
	twc_eq(argc, 4);
	twc_check(!strcmp(argv[1], "-v") && !strcmp(argv[2], "file") && !strcmp(argv[3], "end"));
	twc_check(!argv[4]);
	twc_eq(pan_my_pid(), 2);
	twc_eq(pan_nr_platforms(), 3);
	pan_end();
}

Test(panda_init, command_line_alone)
{
	char *argv[] = {"prog", "--panda-rank", NULL};
	int argc = 2;

	/* Nothing follows: it is not ours. */
	pan_init(&argc, argv);
	twc_eq(argc, 2);
	twc_eq(pan_nr_platforms(), 1);
	pan_end();
	argc = 0;
	pan_init(&argc, argv + 2);
	twc_eq(argc, 0);
	pan_end();
}

Test(panda_init, child)
{
	struct twt_child c;

	pant_begin(0, 1);
	twc_eq(pan_mp_register_port(NULL), 1);
	fflush(NULL);
	/* The address sanitizer's child hangs when a thread is just beginning: ours have begun. */
	twc_sleep(200);
	c.pid = fork();
	if (c.pid == 0) {
		int good = pan_my_pid() == -1 && pan_mp_send(0, 1, "x", 1, PAN_MP_NORMAL) == -1;

		/* It may begin anew, as somebody else. */
		pant_begin(1, 2);
		good &= pan_mp_register_port(NULL) == 1;
		pant_end();
		_exit(good ? 0 : 1);
	}
	c.fd = -1;
	twc_eq(twt_join(&c, TWC_LONG), 0);
	pant_send(0, 1, "x", 1, PAN_MP_NORMAL);
	pant_end();
}

Test(panda_init, memory)
{
	char *p = pan_malloc(0), *q;

	twc_check(p != NULL);
	pan_free(p);
	pan_free(NULL);
	p = pan_malloc(1000);
	twc_eq((uintptr_t)p % 16, 0);
	twt_fill(p, 1000, 1);
	q = pan_realloc(p, 100000);
	twc_eq(twt_check(q, 1000, 1), 1000);
	q = pan_realloc(q, 10);
	twc_eq(twt_check(q, 10, 1), 10);
	pan_free(q);
	q = pan_realloc(NULL, 10);
	memset(q, 1, 10);
	pan_free(q);
	twc_check(!pan_malloc(SIZE_MAX));
}

/* What is received is such memory too. */
Test(panda_init, received_memory)
{
	char data[50], *p;
	int size, len;

	pant_begin(0, 1);
	pan_mp_register_port(NULL);
	twt_fill(data, sizeof(data), 1);
	pant_send(0, 1, data, sizeof(data), PAN_MP_NORMAL);
	p = pan_mp_finish_receive(pan_mp_receive(1), &size, &len);
	pant_end();
	/* It outlives message passing. */
	p = pan_realloc(p, 5000);
	twc_eq(twt_check(p, 50, 1), 50);
	memset(p, 1, 5000);
	pan_free(p);
}
