/* SPDX-License-Identifier: BSD-2-Clause */
#include "panda/pant.h"

#include <malloc.h>
#include <stdio.h>

void pant_job(void)
{
	twc_job();
	/* Wrong calls are made on purpose; before the settings are read, too. */
	setenv("TAGWIRE_LOG", "0", 0);
	tw_settings.log = (uint32_t)atoi(getenv("TAGWIRE_LOG"));
}

void pant_begin(int pid, int n)
{
	char rank[32];

	snprintf(rank, sizeof(rank), "%d/%d", pid, n);
	setenv("TAGWIRE_RANK", rank, 1);
	if (getenv("TWT_NETNS"))
		setenv("TAGWIRE_NODES", "0=10.116.119.1,1-7=10.116.119.2", 1);
	pan_init(NULL, NULL);
	twc_eq(pan_my_pid(), pid);
	twc_eq(pan_nr_platforms(), n);
	pan_mp_init(NULL, NULL);
	pan_start();
}

void pant_end(void)
{
	pan_mp_end();
	pan_end();
}

struct start {
	int pid, n;
	int (*fn)(int pid, int fd);
};

static int platform(void *arg, int fd)
{
	struct start *s = arg;
	int code;

	pant_begin(s->pid, s->n);
	code = s->fn(s->pid, fd);
	pant_end();
	return code;
}

void pant_platforms(struct twt_child children[PANT_MAX], int n, int (*fn)(int pid, int fd))
{
	for (int i = 1; i < n; i++) {
		struct start s = {i, n, fn};

		twt_spawn(&children[i], platform, &s);
	}
	pant_begin(0, n);
}

void pant_join(struct twt_child children[PANT_MAX], int n)
{
	for (int i = 1; i < n; i++)
		twc_eq(twt_join(&children[i], TWC_LONG), 0);
}

uint64_t pant_counter(enum tw_counter which)
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	uint64_t n;

	twc_check(ep != NULL);
	n = ep->counters[which];
	tw_group_leave(ep);
	return n;
}

void pant_until(atomic_int *what, int least)
{
	double end = twt_now() + TWC_LONG;

	while (atomic_load(what) < least) {
		if (twt_now() > end)
			twc_fail(__FILE__, __LINE__, "%d never become %d", atomic_load(what),
				 least);
		twc_sleep(1);
	}
}

void pant_send(int pid, int port, const void *data, int len, pan_mp_ack_t ack)
{
	int ticket = pan_mp_send(pid, port, (void *)(uintptr_t)data, len, ack);

	twc_check(ticket > 0);
	if (ack == PAN_MP_EXTERNAL)
		pan_mp_ack_send(ticket);
	else
		pan_mp_finish_send(ticket);
}

void pant_receive(int port, uint64_t seed, int len)
{
	int ticket = pan_mp_receive(port), size, got;
	void *data;

	twc_check(ticket > 0);
	data = pan_mp_finish_receive(ticket, &size, &got);
	twc_check(data != NULL);
	twc_eq(got, len);
	twc_check(size >= got);
	twc_eq(twt_check(data, (size_t)got, seed), got);
	pan_free(data);
}

void pant_receive_byte(int port, char byte)
{
	int ticket = pan_mp_receive(port), size = 0, len = 0;
	char *got;

	twc_check(ticket > 0);
	got = pan_mp_finish_receive(ticket, &size, &len);
	twc_check(got);
	twc_eq(size, 1);
	twc_eq(*got, byte);
	pan_free(got);
}

size_t pant_heap(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}
