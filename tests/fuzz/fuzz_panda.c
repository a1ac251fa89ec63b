/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Panda under a platform that sends anything: any match information, any length,
 * any count of acknowledgements, between the calls of a program. The platform is
 * this one itself, whose engine is made to send what Panda would not.
 */
#include "fuzz/fuzz.h"
#include "panda/panda_internal.h"

const unsigned fuzz_inputs = 4500;

#define TICKETS 16
#define PORTS 8
#define LONGEST 40000

static struct {
	int ticket; /* 0: none */
	char *data; /* of a send */
	bool receive, external;
} tickets[TICKETS];
/* Of sends that an upcall is to end; it may never be made. */
static char *others[4096];
static unsigned upcalls, nothers;

/* Reads all of it: a sanitizer would see bytes that are not there. */
static volatile char sum;

static void look_at(const char *data, int len)
{
	for (int i = 0; i < len; i++)
		sum = (char)(sum ^ data[i]);
}

static int upcall(void *data, int size, int len)
{
	FUZZ_MUST(data && len >= 0 && size >= len);
	look_at(data, len);
	if (++upcalls % 3)
		return 0;
	pan_free(data);
	return 1;
}

static void sent(void *arg)
{
	char **data = arg;

	FUZZ_MUST(*data);
	free(*data);
	*data = NULL;
}

/* What the engine sends for a platform that does not keep the rules. */
static void forge(struct input *in)
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	static char bytes[LONGEST];
	uint8_t how = in_byte(in);
	uint32_t port = how & 1 ? in_byte(in) % (PORTS + 2) : in_word(in);
	uint32_t len = how & 2 ? in_byte(in) : in_word(in) % LONGEST;
	struct tw_req *r = tw_req_new1(ep, TW_SEND, bytes, len);

	FUZZ_MUST(r);
	if (how & 4)
		port = (uint32_t)tickets[in_byte(in) % TICKETS].ticket;
	r->match = tw_panda_match(port, how & 8 ? in_byte(in) : 0, in_byte(in) % 4);
	if (how & 16)
		r->match = (uint64_t)in_word(in) << 32 | port;
	r->flags = TW_R_FORGOTTEN | (how & 32 ? TW_R_URGENT : 0);
	r->context = NULL;
	tw_send(ep, r, ep->self->addr);
	tw_group_leave(ep);
}

static void tell(struct input *in)
{
	struct tw_ep *ep = tw_panda_enter(__func__);

	tw_am_send(ep, ep->self->addr, in_byte(in) % 2 ? in_byte(in) : in_word(in), NULL, 0);
	tw_progress(ep);
	tw_group_leave(ep);
}

static void send(struct input *in, unsigned i)
{
	uint8_t how = in_byte(in);
	int len = how & 1 ? in_byte(in) : (int)(in_word(in) % LONGEST), t;
	char *data;

	if (tickets[i].ticket || nothers == tw_countof(others))
		return;
	FUZZ_MUST((data = calloc(1, (size_t)len + 1)) != NULL);
	t = pan_mp_send(0, 1 + in_byte(in) % PORTS, data, len, (pan_mp_ack_t)(how / 2 % 3));
	FUZZ_MUST(t > 0);
	if ((how & 64) && how / 2 % 3 != PAN_MP_EXTERNAL) {
		others[nothers] = data;
		pan_mp_async_send(t, sent, &others[nothers++]);
		return;
	}
	tickets[i].ticket = t;
	tickets[i].data = data;
	tickets[i].receive = false;
	tickets[i].external = how / 2 % 3 == PAN_MP_EXTERNAL;
}

static void receive(struct input *in, unsigned i)
{
	int t;

	if (tickets[i].ticket)
		return;
	t = pan_mp_receive(in_byte(in) % (PORTS + 1));
	if (t > 0) {
		tickets[i].ticket = t;
		tickets[i].receive = true;
	}
}

static void look(unsigned i)
{
	int t = tickets[i].ticket;
	bool over;

	if (!t)
		return;
	if (tickets[i].receive) {
		over = pan_mp_poll_receive(t);
		if (over) {
			int size, len;
			char *data = pan_mp_finish_receive(t, &size, &len);

			look_at(data, len);
			pan_free(data);
		}
	} else if (tickets[i].external) {
		over = false; /* it might wait for ever */
	} else {
		over = pan_mp_poll_send(t);
	}
	if (!over)
		return;
	free(tickets[i].data);
	memset(&tickets[i], 0, sizeof(tickets[i]));
}

static void step(struct input *in)
{
	uint8_t op = in_byte(in), i = in_byte(in) % TICKETS;

	switch (op % 12) {
	case 0:
		send(in, i);
		break;
	case 1:
		receive(in, i);
		break;
	case 2:
	case 3:
		look(i);
		break;
	case 4:
		pan_poll();
		break;
	case 5:
		pan_mp_free_port(1 + in_byte(in) % PORTS);
		break;
	case 6:
		pan_mp_register_port(in_byte(in) % 2 ? upcall : NULL);
		break;
	case 7:
		tell(in);
		break;
	case 8:
		if (tickets[i].receive)
			pan_mp_free_port(tickets[i].ticket);
		break;
	default:
		forge(in);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	setenv("TAGWIRE_SERVICE", "0", 1);
	setenv("TAGWIRE_SINGLE_THREADED", "1", 1);
	setenv("TAGWIRE_UNEXP_MAX", "128k", 1);
	setenv("TAGWIRE_LOG", "0", 1);
	/* Some messages are for nobody. */
	tw_panda_linger_us = 0;
	pan_init(NULL, NULL);
	pan_mp_init(NULL, NULL);
	pan_mp_register_port(upcall);
	pan_mp_register_port(NULL);
	while (in.left)
		step(&in);
	for (int i = 0; i < PORTS; i++)
		pan_mp_free_port(1 + i);
	for (int i = 0; i < 100; i++)
		pan_poll();
	pan_end();
	while (nothers)
		free(others[--nothers]);
	for (unsigned i = 0; i < TICKETS; i++) {
		free(tickets[i].data);
		memset(&tickets[i], 0, sizeof(tickets[i]));
	}
	return 0;
}

/* In place of providers/registry.c. */
extern const struct tw_provider tw_provider_self;

unsigned tw_provider_list(const char *names, const struct tw_provider *out[TW_MAX_PROVIDERS])
{
	(void)names;
	out[0] = &tw_provider_self;
	return 1;
}
