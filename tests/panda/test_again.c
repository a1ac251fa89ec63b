/* SPDX-License-Identifier: BSD-2-Clause */
/* A platform is killed, and begins again as another process. */
#include <signal.h>

#include "panda/pant.h"

TestSuite(panda_again, .init = pant_job, .timeout = PANT_TIMEOUT);

enum { EACH = 100, OLD = 10 };

/* Both lives of platform 1 exist before this process begins, as it may not fork later. */
struct life {
	int number;
	int (*fn)(int life, int fd);
};

static int run_life(void *arg, int fd)
{
	struct life *l = arg;
	int code;

	twc_hear(fd);
	pant_begin(1, 2);
	code = l->fn(l->number, fd);
	pant_end();
	return code;
}

static void two_lives(struct twt_child c[2], int (*fn)(int life, int fd))
{
	struct life life[2] = {{0, fn}, {1, fn}};

	for (int i = 0; i < 2; i++)
		twt_spawn(&c[i], run_life, &life[i]);
	pant_begin(0, 2);
	twc_tell(c[0].fd);
}

static void end_life(struct twt_child *c)
{
	kill(c->pid, SIGKILL);
	twc_eq(twt_join(c, TWC_LONG), 1000 + SIGKILL);
}

/* Consecutive numbers from the first one on, until that of the end. */
static int counts(int life, int fd)
{
	int port = pan_mp_register_port(NULL), *n, first, next;

	twc_tell(fd);
	n = pan_mp_finish_receive(pan_mp_receive(port), NULL, NULL);
	first = next = *n;
	pan_free(n);
	twc_eq(twt_put(fd, &first, sizeof(first)), 0);
	while (next++ != first + EACH) {
		n = pan_mp_finish_receive(pan_mp_receive(port), NULL, NULL);
		twc_eq(*n, next);
		pan_free(n);
	}
	twc_tell(fd);
	twc_hear(fd);
	return life != 1;
}

/* Sends that number until it arrives: none is repeated, and none is lost after the first. */
static void sends_numbers(const struct twt_child *c, int *number)
{
	double end = twt_now() + TWC_LONG;
	int first, arrived;

	twc_hear(c->fd);
	do {
		arrived = pan_mp_confirm_send(
			pan_mp_send(1, 1, number, sizeof(*number), PAN_MP_NORMAL));
		twc_check(twt_now() < end);
		++*number;
	} while (arrived != 1);
	twc_eq(twt_get(c->fd, &first, sizeof(first)), 0);
	twc_eq(first, *number - 1);
	for (int i = 0; i < EACH; i++, ++*number) {
		int t = pan_mp_send(1, 1, number, sizeof(*number), (pan_mp_ack_t)(i % 2));

		twc_eq(pan_mp_confirm_send(t), 1);
	}
	twc_hear(c->fd);
}

/* Sends reach the new process. */
Test(panda_again, sent_to)
{
	struct twt_child c[2];
	int number = 0;

	two_lives(c, counts);
	sends_numbers(&c[0], &number);
	end_life(&c[0]);
	/* Nobody is there. */
	while (pan_mp_confirm_send(pan_mp_send(1, 1, "xxx", 4, PAN_MP_NORMAL)) == 1)
		;
	twc_eq(pan_mp_confirm_send(pan_mp_send(1, 1, "xxx", 4, PAN_MP_NORMAL)), -1);
	twc_tell(c[1].fd);
	sends_numbers(&c[1], &number);
	twc_tell(c[1].fd);
	twc_eq(twt_join(&c[1], TWC_LONG), 0);
	pant_end();
}

static int speaks(int life, int fd)
{
	int port = pan_mp_register_port(NULL), t, n;

	for (int i = 0; i < EACH; i++) {
		n = life * EACH + i;
		t = pan_mp_send(0, 1, &n, sizeof(n), PAN_MP_NORMAL);
		twc_eq(pan_mp_confirm_send(t), 1);
	}
	twc_tell(fd);
	twc_hear(fd);
	if (life)
		pant_receive_byte(port, 'r');
	twc_tell(fd);
	twc_hear(fd);
	return life != 1;
}

static void hears_numbers(int port, int first)
{
	for (int i = 0; i < EACH; i++) {
		int *n = pan_mp_finish_receive(pan_mp_receive(port), NULL, NULL);

		twc_eq(*n, first + i);
		pan_free(n);
	}
}

/*
 * The new process calls before the death of the old one was noticed: its messages are received, and
 * acknowledged to it. Acknowledgements that the old one owed are none of its own.
 */
Test(panda_again, calls)
{
	struct twt_child c[2];
	int port, t[OLD];

	setenv("TAGWIRE_SERVICE", "0", 1);
	two_lives(c, speaks);
	port = pan_mp_register_port(NULL);
	hears_numbers(port, 0);
	twc_hear(c[0].fd);
	for (int i = 0; i < OLD; i++)
		t[i] = pan_mp_send(1, 2, "o", 1, PAN_MP_DELAYED);
	end_life(&c[0]);
	twc_tell(c[1].fd);
	hears_numbers(port, EACH);
	for (int i = 0; i < OLD; i++)
		pan_mp_finish_send(t[i]);
	twc_hear(c[1].fd);
	twc_tell(c[1].fd);
	twc_eq(pan_mp_confirm_send(pan_mp_send(1, 1, "r", 1, PAN_MP_NORMAL)), 1);
	twc_hear(c[1].fd);
	twc_tell(c[1].fd);
	twc_eq(twt_join(&c[1], TWC_LONG), 0);
	pant_end();
}

static int gives_ticket(int life, int fd)
{
	int t = pan_mp_receive(PAN_MP_DIRECT_PORT), len;
	char *p;

	twc_eq(twt_put(fd, &t, sizeof(t)), 0);
	p = pan_mp_finish_receive(t, NULL, &len);
	twc_check(p && len == 1);
	twc_eq(*p, 'n');
	pan_free(p);
	return life != 1;
}

/* A late answer to a ticket of the old process is none to the new one. */
Test(panda_again, old_ticket)
{
	struct twt_child c[2];
	int old, new;

	two_lives(c, gives_ticket);
	twc_eq(twt_get(c[0].fd, &old, sizeof(old)), 0);
	pan_mp_expect(1);
	end_life(&c[0]);
	twc_tell(c[1].fd);
	twc_eq(twt_get(c[1].fd, &new, sizeof(new)), 0);
	while (pan_mp_confirm_send(pan_mp_send(1, old, "o", 1, PAN_MP_NORMAL)) != 1)
		;
	twc_eq(pan_mp_confirm_send(pan_mp_send(1, new, "n", 1, PAN_MP_NORMAL)), 1);
	twc_eq(twt_join(&c[1], TWC_LONG), 0);
	pant_end();
}
