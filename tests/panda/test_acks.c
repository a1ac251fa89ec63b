/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kinds of acknowledgement, told apart by the packets of the side that
 * acknowledges: TW_C_ACK_SENT counts packets that carry nothing else.
 */
#include <sys/socket.h>

#include "panda/pant.h"

TestSuite(panda_acks, .init = pant_job, .timeout = PANT_TIMEOUT);

#define COUNT 20
#define FOREVER_US 1000000000u

struct packets {
	uint64_t acks, eager, rndv;
};

static struct packets packets(void)
{
	return (struct packets){pant_counter(TW_C_ACK_SENT), pant_counter(TW_C_SEND_EAGER),
				pant_counter(TW_C_SEND_RNDV)};
}

/* Receives what it is told, then tells what it has sent since it began. */
static int receiver(int pid, int fd)
{
	int port = pan_mp_register_port(NULL), answers = 0, count;
	struct packets now;

	(void)pid;
	twc_tell(fd);
	while (twt_get(fd, &count, sizeof(count)) == 0 && count) {
		for (int i = 0; i < count; i++) {
			pant_receive(port, 1, 100);
			answers++;
		}
		now = packets();
		twc_eq(twt_put(fd, &now, sizeof(now)), 0);
	}
	return answers ? 0 : 1;
}

static struct packets after(int fd, int count)
{
	struct packets p;

	twc_eq(twt_put(fd, &count, sizeof(count)), 0);
	twc_eq(twt_get(fd, &p, sizeof(p)), 0);
	return p;
}

static void end(struct twt_child *c)
{
	int none = 0;

	twc_eq(twt_put(c[1].fd, &none, sizeof(none)), 0);
	pant_join(c, 2);
	pant_end();
}

static void count(pan_mp_ack_t ack, uint64_t least, uint64_t most)
{
	struct twt_child c[PANT_MAX];
	struct packets p;
	char data[100];

	twt_fill(data, sizeof(data), 1);
	pant_platforms(c, 2, receiver);
	twc_hear(c[1].fd);
	for (int i = 0; i < COUNT; i++)
		pant_send(1, 1, data, sizeof(data), ack);
	p = after(c[1].fd, COUNT);
	twc_check(p.acks >= least && p.acks <= most);
	twc_eq(p.eager, 0);
	twc_eq(p.rndv, 0);
	twc_eq(pant_counter(TW_C_SEND_EAGER), COUNT);
	end(c);
}

/* One at a time: a packet for each. */
Test(panda_acks, normal)
{
	count(PAN_MP_NORMAL, COUNT, COUNT);
}

/* Nothing goes back: each waits for its timeout. */
Test(panda_acks, delayed_alone)
{
	count(PAN_MP_DELAYED, COUNT, COUNT);
}

Test(panda_acks, external)
{
	count(PAN_MP_EXTERNAL, 0, 0);
}

/* Many at once share the packet of one timeout. */
Test(panda_acks, delayed_together)
{
	struct twt_child c[PANT_MAX];
	int tickets[COUNT];
	char data[100];
	struct packets p;

	tw_panda_delay_us = 300000;
	twt_fill(data, sizeof(data), 1);
	pant_platforms(c, 2, receiver);
	twc_hear(c[1].fd);
	for (int i = 0; i < COUNT; i++)
		tickets[i] = pan_mp_send(1, 1, data, sizeof(data), PAN_MP_DELAYED);
	for (int i = 0; i < COUNT; i++)
		pan_mp_finish_send(tickets[i]);
	p = after(c[1].fd, COUNT);
	/* One, but for a machine that is very busy. */
	twc_check(p.acks >= 1 && p.acks < COUNT / 2);
	twc_eq(p.eager, 0);
	end(c);
}

/* Sends back what it receives. */
static int echo(int pid, int fd)
{
	int port = pan_mp_register_port(NULL);
	struct packets p;

	(void)pid;
	twc_tell(fd);
	for (int i = 0; i < COUNT; i++) {
		int ticket = pan_mp_receive(port), size, len;
		void *data = pan_mp_finish_receive(ticket, &size, &len);

		pant_send(0, 1, data, len, PAN_MP_EXTERNAL);
		pan_free(data);
	}
	p = packets();
	twc_eq(twt_put(fd, &p, sizeof(p)), 0);
	twc_hear(fd);
	return 0;
}

static struct packets count_echo(pan_mp_ack_t ack)
{
	struct twt_child c[PANT_MAX];
	char data[100];
	int port;
	struct packets p;

	/* So that no timeout can be what ends a send. */
	tw_panda_delay_us = FOREVER_US;
	twt_fill(data, sizeof(data), 1);
	pant_platforms(c, 2, echo);
	port = pan_mp_register_port(NULL);
	twc_hear(c[1].fd);
	for (int i = 0; i < COUNT; i++) {
		int ticket = pan_mp_send(1, 1, data, sizeof(data), ack);

		pant_receive(port, 1, sizeof(data));
		if (ack == PAN_MP_EXTERNAL)
			pan_mp_ack_send(ticket);
		else
			pan_mp_finish_send(ticket);
	}
	twc_eq(twt_get(c[1].fd, &p, sizeof(p)), 0);
	twc_tell(c[1].fd);
	twc_eq(p.eager, COUNT);
	pant_join(c, 2);
	pant_end();
	return p;
}

/* Delayed ones travel with the answers: no packet is sent for them. */
Test(panda_acks, delayed_with_answers)
{
	twc_eq(count_echo(PAN_MP_DELAYED).acks, 0);
}

/* Others do not wait for an answer. Where one finds no room, it leaves with the next. */
Test(panda_acks, normal_with_answers)
{
	uint64_t acks = count_echo(PAN_MP_NORMAL).acks;

	twc_check(acks > COUNT / 2 && acks <= COUNT);
}

Test(panda_acks, external_with_answers)
{
	twc_eq(count_echo(PAN_MP_EXTERNAL).acks, 0);
}

static int never(int pid, int fd)
{
	(void)pid;
	pan_mp_register_port(NULL);
	twc_tell(fd);
	twc_hear(fd);
	pant_receive(1, 1, 10);
	return 0;
}

/* Without an answer and before its time, a delayed one is not acknowledged. */
Test(panda_acks, delayed_waits)
{
	struct twt_child c[PANT_MAX];
	char data[10];
	int ticket;

	tw_panda_delay_us = FOREVER_US;
	twt_fill(data, sizeof(data), 1);
	pant_platforms(c, 2, never);
	twc_hear(c[1].fd);
	ticket = pan_mp_send(1, 1, data, sizeof(data), PAN_MP_DELAYED);
	for (int i = 0; i < 50; i++) {
		twc_eq(pan_mp_poll_send(ticket), 0);
		twc_sleep(2);
	}
	/* Who ends says so first. */
	twc_tell(c[1].fd);
	pan_mp_finish_send(ticket);
	pant_join(c, 2);
	pant_end();
}

/* While the receiver computes, until all is acknowledged, acknowledgements come. */
static int computes(int pid, int fd)
{
	volatile unsigned long sum = 0;
	char c;

	(void)pid;
	pan_mp_register_port(NULL);
	twc_tell(fd);
	while (recv(fd, &c, 1, MSG_DONTWAIT) < 0)
		for (int i = 0; i < 1000000; i++)
			sum++;
	for (int i = 0; i < 40; i++)
		pant_receive(1, 1, 10);
	return 0;
}

Test(panda_acks, while_the_receiver_computes)
{
	struct twt_child c[PANT_MAX];
	char data[10];

	twt_fill(data, sizeof(data), 1);
	pant_platforms(c, 2, computes);
	twc_hear(c[1].fd);
	for (int i = 0; i < 20; i++) {
		pant_send(1, 1, data, sizeof(data), PAN_MP_NORMAL);
		pant_send(1, 1, data, sizeof(data), PAN_MP_DELAYED);
	}
	twc_tell(c[1].fd);
	pant_join(c, 2);
	pant_end();
}

/* Long messages are acknowledged by how they travel, or counted when copied. */
static void long_ones(const char *way)
{
	enum { LONG = 300000 };
	char *data = malloc(LONG);
	int port, tickets[3];

	setenv("TAGWIRE_RNDV", way, 1);
	twt_fill(data, LONG, 1);
	pant_begin(0, 1);
	port = pan_mp_register_port(NULL);
	for (int i = 0; i < 3; i++)
		tickets[i] =
			pan_mp_send(0, port, data, LONG, i % 2 ? PAN_MP_DELAYED : PAN_MP_NORMAL);
	for (int i = 0; i < 3; i++)
		pan_mp_finish_send(tickets[i]);
	for (int i = 0; i < 3; i++)
		pant_receive(port, 1, LONG);
	pant_end();
	free(data);
}

Test(panda_acks, long_got)
{
	long_ones("get");
}

Test(panda_acks, long_copied)
{
	long_ones("copy");
}
