/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine under a provider whose peer sends anything: packets of any type
 * with any fields, between the calls of a program that sends, receives and
 * cancels. The provider is in this file; see tw_provider_list() at its end.
 */
#include "engine/engine.h"
#include "fuzz/fuzz.h"
#include "mx_extensions.h"
#include "myriexpress.h"

const unsigned fuzz_inputs = 10000;

#define TAGS 4
#define REQS 24
#define BUF 80000 /* more than the longest eager message */
#define MAX_PAYLOAD 32768
#define SEEN 16

static struct {
	struct tw_host *host;
	struct tw_link link;
	bool up, full, cold;
	enum tw_err get; /* what the next get() answers */
	/* The packet that progress() has to deliver. */
	bool pending;
	struct tw_hdr hdr;
	uint32_t len;
	uint8_t *payload;
	/* References that the engine has told, as a peer would know them. */
	uint64_t seen[SEEN];
	unsigned nseen;
} f;

/* The provider ------------------------------------------------------------ */

static enum tw_err do_open(struct tw_host *host, void **instance)
{
	f.host = host;
	*instance = &f;
	return TW_OK;
}

static void do_close(void *instance)
{
	(void)instance;
}

static bool do_reaches(void *instance, uint64_t nic_id, uint32_t endpoint_id)
{
	(void)instance;
	(void)nic_id;
	(void)endpoint_id;
	return false;
}

static enum tw_err do_connect(void *instance, const struct tw_ident *me, uint64_t nic_id,
			      uint32_t endpoint_id, void *peer, struct tw_link **link)
{
	(void)instance;
	(void)me;
	(void)nic_id;
	(void)endpoint_id;
	(void)peer;
	(void)link;
	return TW_ECLOSED;
}

static void do_disconnect(struct tw_link *link)
{
	(void)link;
	f.up = false;
}

static void note(struct tw_ref r)
{
	f.seen[f.nseen++ % SEEN] = tw_ref_pack(r);
}

static enum tw_err do_send(struct tw_link *link, enum tw_send_class cls, struct tw_hdr hdr,
			   const struct iovec *iov, unsigned niov, uint32_t len)
{
	uint8_t type = tw_hdr_type(hdr);
	struct tw_ref ref;
	uint32_t sum = 0;

	(void)link;
	(void)cls;
	FUZZ_MUST(f.up && len <= MAX_PAYLOAD && type >= TW_EAGER && type <= TW_WINDOW);
	for (unsigned i = 0; i < niov; i++)
		sum += (uint32_t)iov[i].iov_len;
	FUZZ_MUST(sum == len);
	if (f.full)
		return TW_AGAIN;
	if (len >= sizeof(ref) && (type == TW_RTS || type == TW_CTS ||
				   (type == TW_EAGER && tw_hdr_flags(hdr) & TW_FLAG_SYNC))) {
		memcpy(&ref, iov[0].iov_base, sizeof(ref));
		note(ref);
	}
	return TW_OK;
}

static enum tw_err transferred(struct tw_link *link)
{
	if (f.get == TW_EPERM)
		link->can_get = false;
	return f.get;
}

static enum tw_err do_rma(struct tw_link *link, bool put, const struct iovec *iov, unsigned niov,
			  uint64_t address, const void *key, void *cookie)
{
	volatile uint8_t sum = 0;

	(void)address;
	(void)key;
	(void)cookie;
	for (unsigned i = 0; i < niov; i++) {
		if (!put)
			memset(iov[i].iov_base, 0x77, iov[i].iov_len);
		for (size_t k = 0; k < iov[i].iov_len; k++)
			sum = (uint8_t)(sum + ((const uint8_t *)iov[i].iov_base)[k]);
	}
	return transferred(link);
}

static bool do_alive(struct tw_link *link)
{
	(void)link;
	return f.up;
}

static bool do_polls(struct tw_link *link, uint64_t since)
{
	(void)link;
	(void)since;
	return !f.cold;
}

static unsigned do_progress(void *instance)
{
	enum tw_err err;

	(void)instance;
	if (!f.pending || !f.up)
		return 0;
	err = f.host->up->packet(&f.link, f.hdr, f.payload, f.len);
	if (err == TW_AGAIN)
		return 0;
	f.pending = false;
	if (err != TW_OK) {
		f.up = false;
		f.host->up->down(&f.link, TW_EPROTO);
	}
	return 1;
}

static bool do_arm(void *instance)
{
	(void)instance;
	return f.pending;
}

static const struct tw_provider provider = {
	.name = "fuzz",
	.open = do_open,
	.close = do_close,
	.reaches = do_reaches,
	.connect = do_connect,
	.disconnect = do_disconnect,
	.send = do_send,
	.rma = do_rma,
	.alive = do_alive,
	.polls = do_polls,
	.progress = do_progress,
	.arm = do_arm,
};

/* The program ------------------------------------------------------------- */

static mx_endpoint_t ep;
static struct {
	mx_request_t req; /* NULL: none */
	uint8_t *buf;
	uint32_t len;
} reqs[REQS];

static void set_up(void)
{
	setenv("TAGWIRE_SERVICE", "0", 1);
	setenv("TAGWIRE_SINGLE_THREADED", "1", 1);
	setenv("TAGWIRE_UNEXP_MAX", "256k", 1);
	mx_set_error_handler(MX_ERRORS_RETURN);
	FUZZ_MUST(mx_init() == MX_SUCCESS);
	FUZZ_MUST(mx_open_endpoint(MX_ANY_NIC, 5, 0x123, NULL, 0, &ep) == MX_SUCCESS);
}

static void poll_once(void)
{
	mx_status_t s;
	uint32_t result;

	mx_iprobe(ep, ~0ull, MX_MATCH_MASK_NONE, &s, &result);
}

static void connect_peer(void)
{
	static uint32_t session;
	struct tw_ident other = {f.host->self.nic_id, 6, ++session, 0x123, 0x123, 300}, me;

	me = f.host->self;
	f.link = (struct tw_link){
		.provider = &provider, .max_payload = MAX_PAYLOAD, .can_get = true, .by_cpu = true};
	f.up = true;
	f.full = f.cold = f.pending = false;
	tw_slots[1].ep->host.state = TW_POLLING;
	tw_slots[1].ep->rndv = TW_RNDV_AUTO;
	f.get = TW_OK;
	f.nseen = 0;
	f.host->up->poll(f.host, &f, true);
	FUZZ_MUST(f.host->up->incoming(f.host, &f.link, &other, &me) == TW_OK);
}

static void forget(unsigned i)
{
	free(reqs[i].buf);
	memset(&reqs[i], 0, sizeof(reqs[i]));
}

static void test(unsigned i)
{
	mx_status_t s;
	uint32_t result = 0;

	if (!reqs[i].req)
		return;
	FUZZ_MUST(mx_test(ep, &reqs[i].req, &s, &result) == MX_SUCCESS);
	if (!result)
		return;
	FUZZ_MUST(s.xfer_length <= reqs[i].len);
	forget(i);
}

static void cancel(unsigned i)
{
	struct tw_ep *e = tw_slots[1].ep;
	struct tw_req *r = tw_req_find(e, (uintptr_t)reqs[i].req);

	/* As mx_cancel(), which would wait for the answer. */
	if (!r || tw_take_back(e, r, TW_S_CANCELLED) != TW_BACK_DONE)
		return;
	tw_req_free(e, r);
	forget(i);
}

/* Begins a send or a receive; buffers are of exact size for the sanitizer. */
static void begin(struct input *in, bool send)
{
	uint8_t how = in_byte(in), tag = in_byte(in) % TAGS;
	uint32_t len = (how & 3) == 0 ? in_byte(in) : in_word(in) % BUF;
	mx_endpoint_addr_t to;
	mx_segment_t seg[3];
	unsigned i = 0;

	while (i < REQS && reqs[i].req)
		i++;
	if (i == REQS)
		return;
	FUZZ_MUST((reqs[i].buf = calloc(1, len + 1)) != NULL);
	reqs[i].buf = realloc(reqs[i].buf, len ? len : 1);
	reqs[i].len = len;
	/* One piece or three. */
	seg[0] = (mx_segment_t){reqs[i].buf, len / 3};
	seg[1] = (mx_segment_t){reqs[i].buf + len / 3, len / 2 - len / 3};
	seg[2] = (mx_segment_t){reqs[i].buf + len / 2, len - len / 2};
	if (!(how & 4))
		seg[0].segment_length = len;
	if (!send) {
		FUZZ_MUST(mx_irecv(ep, seg, how & 4 ? 3 : 1, how & 8 ? 0 : tag,
				   how & 8 ? 0 : MX_MATCH_MASK_NONE, NULL,
				   &reqs[i].req) == MX_SUCCESS);
		return;
	}
	if (!f.up) {
		forget(i);
		return;
	}
	memcpy(&to, &((struct tw_peer *)f.link.peer)->addr, sizeof(to));
	FUZZ_MUST((how & 8 ? mx_issend : mx_isend)(ep, seg, how & 4 ? 3 : 1, to, tag, NULL,
						   &reqs[i].req) == MX_SUCCESS);
}

/* What the peer was not told it may guess. */
static uint64_t guess(unsigned i)
{
	const struct tw_req *r = tw_req_find(tw_slots[1].ep, (uintptr_t)reqs[i].req);

	return r ? tw_ref_pack((struct tw_ref){r->obj.index, r->obj.gen}) : 0;
}

static void packet(struct input *in)
{
	uint8_t type = in_byte(in), how = in_byte(in);
	const uint32_t lens[] = {how & 128 ? 24 : 0, 16, 8};
	uint32_t len = (how & 3) < tw_countof(lens) ? lens[how & 3] : in_word(in);
	uint32_t word = how & 4 ? in_word(in) : in_byte(in);
	uint64_t match = in_byte(in) % TAGS, at = in_byte(in);

	if (how & 8)
		match = at < 128 ? f.seen[at % SEEN] : guess((unsigned)at % REQS);
	if (how & 16)
		match ^= (uint64_t)in_word(in) << 32 | in_word(in);
	len %= MAX_PAYLOAD + 1;
	/* The length that belongs to it, often. */
	if ((type & 0x1f) == TW_EAGER && !(how & 32))
		word = len;
	f.hdr = tw_hdr_make(type & 0x1f, type >> 5, (uint16_t)(how & 64 ? in_word(in) : 0), word,
			    match);
	f.len = len;
	free(f.payload);
	FUZZ_MUST((f.payload = malloc(len ? len : 1)) != NULL);
	memset(f.payload, 0x33, len);
	for (uint32_t i = 0; i < len && i < 24; i++)
		f.payload[i] = in_byte(in);
	f.pending = f.up;
	poll_once();
}

static void step(struct input *in)
{
	static const enum tw_err gets[] = {TW_OK, TW_OK, TW_EPERM, TW_EFAULT, TW_ELOST};
	uint8_t op = in_byte(in), how;

	switch (op % 12) {
	case 0:
		begin(in, false);
		break;
	case 1:
		begin(in, true);
		break;
	case 2:
		test(in_byte(in) % REQS);
		break;
	case 3:
		cancel(in_byte(in) % REQS);
		break;
	case 4:
		f.full = !f.full;
		break;
	case 5:
		f.get = gets[in_byte(in) % tw_countof(gets)];
		how = in_byte(in);
		f.cold = how & 1;
		tw_slots[1].ep->rndv = (how >> 1 & 3) % 3;
		/* As if the service thread did what follows. */
		tw_slots[1].ep->host.state = how & 8 ? TW_SERVED : TW_POLLING;
		break;
	case 6:
		poll_once();
		break;
	default:
		packet(in);
	}
}

/* The peer goes: everything that was bound to it must end now. */
static void part(void)
{
	struct tw_ep *e = tw_slots[1].ep;

	f.full = f.pending = false;
	if (f.up) {
		f.up = false;
		f.host->up->down(&f.link, TW_ELOST);
	}
	for (unsigned i = 0; i < REQS; i++) {
		cancel(i);
		test(i);
		FUZZ_MUST(!reqs[i].req);
	}
	/* What came unexpectedly and whole can still be received. */
	while (e->gauges[TW_G_UNEXPECTED]) {
		uint64_t before = e->gauges[TW_G_UNEXPECTED];
		mx_segment_t seg = {NULL, 0};
		mx_request_t req;
		mx_status_t s;
		uint32_t result = 0;

		FUZZ_MUST(mx_irecv(ep, &seg, 1, 0, 0, NULL, &req) == MX_SUCCESS);
		FUZZ_MUST(mx_test(ep, &req, &s, &result) == MX_SUCCESS && result);
		FUZZ_MUST(e->gauges[TW_G_UNEXPECTED] < before);
	}
	FUZZ_MUST(e->nactive == 0);
	FUZZ_MUST(e->gauges[TW_G_POSTED] == 0 && e->gauges[TW_G_SENDS] == 0);
	FUZZ_MUST(e->gauges[TW_G_UNEXP_BYTES] == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	if (!ep)
		set_up();
	connect_peer();
	while (in.left && f.up)
		step(&in);
	part();
	return 0;
}

/* In place of providers/registry.c. */
extern const struct tw_provider tw_provider_self;

unsigned tw_provider_list(const char *names, const struct tw_provider *out[TW_MAX_PROVIDERS])
{
	(void)names;
	out[0] = &tw_provider_self;
	out[1] = &provider;
	return 2;
}
