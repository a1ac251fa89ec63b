/* SPDX-License-Identifier: BSD-2-Clause */
/* A node is killed, and another process begins as the same node. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_again, .init = twc_job, .timeout = MCT_TIMEOUT);

enum { SURVIVOR = 0, VICTIM = 1, LIVES = 5, EACH = 300 };

static void end_life(struct twt_child *c)
{
	twc_eq(kill(c->pid, SIGKILL), 0);
	twc_eq(twt_join(c, MCT_CHILD), 1000 + SIGKILL);
}

/* Messages ------------------------------------------------------------------------- */

/* Receives consecutive numbers, and sends them back. */
static int echo(void *arg, int fd)
{
	uint64_t first = (uintptr_t)arg;
	mcapi_endpoint_t ep, to;

	mct_up(VICTIM);
	ep = mct_create(1);
	to = mct_get(SURVIVOR, 1);
	twc_tell(fd);
	for (uint64_t i = 0;; i++) {
		twc_eq(mct_recv(ep), first + i);
		mct_send(ep, to, first + i, 0);
	}
	return 1;
}

/*
 * The endpoint of the new process has the old handle. What is sent once it is found arrives, and
 * nothing of before.
 */
static void messages(int mode)
{
	mcapi_endpoint_t ep, to = 0;
	struct twt_child c;
	uint64_t number = 0, value;

	mct_up(SURVIVOR);
	ep = mct_create(1);
	for (int life = 0; life < LIVES; life++) {
		twt_spawn(&c, echo, (void *)(uintptr_t)number);
		if (mode)
			twc_hear(c.fd);
		if (life)
			twc_eq(mct_get(VICTIM, 1), to);
		to = mct_get(VICTIM, 1);
		for (int i = 0; i < EACH; i++, number++) {
			mct_send(ep, to, number, 0);
			twc_eq(mct_recv(ep), number);
		}
		end_life(&c);
		/* These are lost, and count as sent (3.5.1). */
		for (int i = 0; mode && i < EACH; i++) {
			value = 1000000;
			mct_ok(mcapi_msg_send(ep, to, &value, 8, 0, ST));
		}
	}
	mct_down();
}

Test(mcapi_again, unseen)
{
	messages(0);
}

Test(mcapi_again, sent_meanwhile)
{
	messages(1);
}

/* Whoever polls for it learns that the node is gone. */
static int stay(void *arg, int fd)
{
	(void)arg;
	mct_up(VICTIM);
	mct_create(1);
	twc_tell(fd);
	pause();
	return 1;
}

Test(mcapi_again, attribute)
{
	double end = twt_now() + MCT_CHILD;
	mcapi_endpoint_t to;
	struct twt_child c;
	uint32_t value;

	mct_up(SURVIVOR);
	for (int life = 0; life < 2; life++) {
		twt_spawn(&c, stay, NULL);
		twc_hear(c.fd);
		to = mct_get(VICTIM, 1);
		mct_attr(to, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE);
		end_life(&c);
		do {
			mcapi_get_endpoint_attribute(to, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE, &value,
						     sizeof(value), ST);
			twc_check(twt_now() < end);
		} while (mct_status == MCAPI_SUCCESS);
		twc_eq(mct_status, MCAPI_ENOT_ENDP);
	}
	mct_down();
}

/* Meanwhile standard error goes to a file. */
struct said {
	FILE *file;
	int old;
};

static void note_said(struct said *s)
{
	s->file = tmpfile();
	s->old = dup(2);
	twc_check(s->file);
	dup2(fileno(s->file), 2);
}

/* How many times it said that messages are lost. */
static int said_lost(struct said *s)
{
	char line[1000];
	int times = 0;

	fflush(stderr);
	dup2(s->old, 2);
	close(s->old);
	rewind(s->file);
	while (fgets(line, sizeof(line), s->file))
		times += strstr(line, "port 1 of node 1") && strstr(line, "messages are lost");
	fclose(s->file);
	return times;
}

/* Standard error says once what no status may say. */
Test(mcapi_again, says_so)
{
	mcapi_endpoint_t ep, to;
	struct twt_child c;
	struct said said;

	mct_up(SURVIVOR);
	ep = mct_create(1);
	twt_spawn(&c, stay, NULL);
	twc_hear(c.fd);
	to = mct_get(VICTIM, 1);
	mct_send(ep, to, 1, 0);
	note_said(&said);
	end_life(&c);
	for (int i = 0; i < EACH; i++)
		mct_ok(mcapi_msg_send(ep, to, &(uint64_t){2}, 8, 0, ST));
	twc_eq(said_lost(&said), 1);
	mct_down();
}

static void send_long(void *to)
{
	static char data[4 << 20];

	mct_is(MCAPI_ENOT_ENDP, mcapi_msg_send(SURVIVOR << 16 | 1, *(mcapi_endpoint_t *)to, data,
					       sizeof(data), 0, ST));
}

/* Not if the sender's own node ends. */
Test(mcapi_again, says_nothing_of_its_own_end)
{
	struct twc_thread t;
	mcapi_endpoint_t to;
	struct twt_child c;
	struct said said;

	mct_up(SURVIVOR);
	mct_create(1);
	twt_spawn(&c, stay, NULL);
	twc_hear(c.fd);
	to = mct_get(VICTIM, 1);
	mct_send(SURVIVOR << 16 | 1, to, 1, 0);
	mct_stop(&c);
	twc_start(&t, send_long, &to);
	twc_asleep(&t);
	note_said(&said);
	mct_down();
	twc_join(&t);
	twc_eq(said_lost(&said), 0);
	end_life(&c);
}

/* Channels --------------------------------------------------------------------------- */

struct end {
	const struct mct_kind *k;
	bool sends;
	uint64_t first;
};

static int other_end(void *arg, int fd)
{
	const struct end *e = arg;
	mcapi_endpoint_t ep;
	mcapi_request_t open;
	uint32_t h;

	mct_up(VICTIM);
	ep = mct_create(1);
	twc_tell(fd);
	twc_hear(fd);
	open = e->sends ? mct_open_send(e->k, ep, &h) : mct_open_recv(e->k, ep, &h);
	mct_done(&open);
	for (uint64_t i = 0; i < EACH; i++) {
		if (e->sends)
			mct_put(e->k, h, e->first + i);
		else
			twc_eq(mct_take(e->k, h), e->first + i);
	}
	twc_tell(fd);
	pause();
	return 1;
}

/* Its end is closed, and connected again. */
static uint64_t one_channel(const struct end *e, mcapi_endpoint_t ep, struct twt_child *c)
{
	mcapi_endpoint_t to = mct_get(VICTIM, 1);
	double end = twt_now() + MCT_CHILD;
	mcapi_request_t open;
	uint64_t n = e->first;
	uint32_t h;

	mct_connect(e->k, e->sends ? to : ep, e->sends ? ep : to);
	twc_tell(c->fd);
	open = e->sends ? mct_open_recv(e->k, ep, &h) : mct_open_send(e->k, ep, &h);
	mct_done(&open);
	for (int i = 0; i < EACH; i++, n++) {
		if (e->sends)
			twc_eq(mct_take(e->k, h), n);
		else
			mct_put(e->k, h, n);
	}
	twc_hear(c->fd);
	end_life(c);
	do {
		if (e->sends)
			e->k->recv(h, ST);
		else
			e->k->send(h, 1000000, ST);
		twc_check(twt_now() < end);
	} while (mct_status == MCAPI_SUCCESS);
	twc_eq(mct_status, MCAPI_ENOT_HANDLE);
	if (e->sends)
		mct_close_recv(e->k, h);
	else
		mct_close_send(e->k, h);
	return n;
}

static void channels(const struct mct_kind *k, bool sends)
{
	struct end e = {k, sends, 0};
	mcapi_endpoint_t ep;
	struct twt_child c;

	mct_up(SURVIVOR);
	ep = mct_create(1);
	for (int life = 0; life < LIVES; life++) {
		twt_spawn(&c, other_end, &e);
		twc_hear(c.fd);
		e.first = one_channel(&e, ep, &c);
	}
	mct_down();
}

Test(mcapi_again, receiver_of_packets)
{
	channels(&mct_kinds[MCT_PKT], false);
}

Test(mcapi_again, sender_of_packets)
{
	channels(&mct_kinds[MCT_PKT], true);
}

Test(mcapi_again, receiver_of_scalars)
{
	channels(&mct_kinds[MCT_SCL], false);
}

Test(mcapi_again, sender_of_scalars)
{
	channels(&mct_kinds[MCT_SCL], true);
}
