/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What mx_info --protocols prints is what happens: messages of each length at which a row begins or
 * ends go as the row says. Counters, the packets and the place in the ring tell how they went.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine.h"
#include "lib/check.h"
#include "lib/twt.h"
#include "mx_extensions.h"

#define FILTER 1
#define MOST_ROWS 8
#define MOST_TABLES 8
#define BEYOND 1000000u /* of the last row, which has no end */
#define TIMES 3		/* as the first message of a length may go another way in the engine */

struct row {
	uint64_t from, to; /* UINT64_MAX: no end */
	char protocol[16];
};

/* Of a provider, at board 0. */
struct table {
	char provider[8];
	struct row rows[MOST_ROWS];
	unsigned n;
};

static struct table tables[MOST_TABLES];
static unsigned ntables;

/* Reading the table ---------------------------------------------------------------- */

static struct table *table_of(const char *provider)
{
	for (unsigned i = 0; i < ntables; i++)
		if (strcmp(tables[i].provider, provider) == 0)
			return &tables[i];
	check(ntables < MOST_TABLES);
	tables[ntables] = (struct table){.n = 0};
	snprintf(tables[ntables].provider, sizeof(tables[0].provider), "%s", provider);
	return &tables[ntables++];
}

static void read_row(const char *line)
{
	struct row row = {.to = UINT64_MAX};
	struct table *t;
	char provider[8];
	unsigned board;
	int at = 0;

	check(sscanf(line,
		     "{\"kind\":\"protocol\",\"board\":%u,\"provider\":\"%7[^\"]\",\"from_bytes\":"
		     "%" SCNu64 ",\"to_bytes\":%n",
		     &board, provider, &row.from, &at) == 3 &&
	      at > 0);
	if (strncmp(line + at, "null", 4) != 0)
		check(sscanf(line + at, "%" SCNu64, &row.to) == 1);
	line = strstr(line, "\"protocol\":\"");
	check(line && sscanf(line, "\"protocol\":\"%15[^\"]", row.protocol) == 1);
	if (board != 0)
		return;
	t = table_of(provider);
	check(t->n < MOST_ROWS);
	/* Without a gap. */
	check(row.from == (t->n ? t->rows[t->n - 1].to + 1 : 0));
	t->rows[t->n++] = row;
}

static void read_tables(void)
{
	const char *build = getenv("builddir");
	char command[4096], line[1024];
	FILE *f;

	ntables = 0;
	snprintf(command, sizeof(command), "'%s/bench/mx_info' --protocols --json",
		 build ? build : ".");
	f = popen(command, "r");
	check(f != NULL);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "\"kind\":\"protocol\""))
			read_row(line);
	check(pclose(f) == 0);
	for (unsigned i = 0; i < ntables; i++)
		check(tables[i].rows[tables[i].n - 1].to == UINT64_MAX);
}

/* What happens ----------------------------------------------------------------------- */

static struct tw_provider counting;
static const struct tw_provider *counted;
static unsigned packets; /* of messages that are not announced */

static enum tw_err count_send(struct tw_link *link, enum tw_send_class cls, struct tw_hdr hdr,
			      const struct iovec *iov, unsigned niov, uint32_t len)
{
	enum tw_err err = counted->send(link, cls, hdr, iov, niov, len);

	packets += err == TW_OK && (tw_hdr_type(hdr) == TW_EAGER || tw_hdr_type(hdr) == TW_FRAG);
	return err;
}

struct side {
	mx_endpoint_t ep;
	mx_endpoint_addr_t peer;
	uint64_t before[TW_NCOUNTERS];
};
static struct side sender, receiver; /* of self: one endpoint */
static uint8_t *data, *here;

static struct tw_ep *lock(const struct side *s)
{
	struct tw_ep *ep = tw_enter((uint64_t)(uintptr_t)s->ep);

	check(ep != NULL);
	tw_txqs_count(ep);
	return ep;
}

/* The sender's peer, under its lock. */
static struct tw_peer *peer_of(struct tw_ep *ep)
{
	if (sender.ep == receiver.ep)
		return ep->self;
	for (uint32_t i = 0; i < ep->npeers; i++)
		if (ep->peers[i] != ep->self && ep->peers[i]->state == TW_PEER_UP)
			return ep->peers[i];
	return NULL;
}

static void begin_counting(struct side *s)
{
	struct tw_ep *ep = lock(s);

	memcpy(s->before, ep->counters, sizeof(s->before));
	tw_leave(ep);
}

static uint64_t counted_by(const struct side *s, enum tw_counter c)
{
	struct tw_ep *ep = lock(s);
	uint64_t n = ep->counters[c] - s->before[c];

	tw_leave(ep);
	return n;
}

/* Position in the byte area of the ring that the sender writes; 0: it has none. */
static uint32_t bytes_used(void)
{
	struct tw_ep *ep = lock(&sender);
	const struct tw_ring_tx *txq = peer_of(ep)->link->txq;
	uint32_t at = txq ? txq->bhead : 0;

	tw_leave(ep);
	return at;
}

static bool is_complete(mx_endpoint_t ep, mx_request_t *r)
{
	mx_status_t status;
	uint32_t result;

	check(mx_test(ep, r, &status, &result) == MX_SUCCESS);
	check(!result || status.code == MX_STATUS_SUCCESS);
	return result;
}

static void send_one(uint32_t len)
{
	mx_segment_t from = {data, len}, to = {here, len};
	double end = twt_now() + TWT_LONG;
	bool sent = false, come = false;
	mx_request_t s, r;

	check(mx_irecv(receiver.ep, &to, 1, len, MX_MATCH_MASK_NONE, NULL, &r) == MX_SUCCESS);
	check(mx_isend(sender.ep, &from, 1, sender.peer, len, NULL, &s) == MX_SUCCESS);
	while (!sent || !come) {
		sent = sent || is_complete(sender.ep, &s);
		come = come || is_complete(receiver.ep, &r);
		check(twt_now() < end);
	}
}

/* Whether the last message went so. in_bytes: it used the byte area of a ring. */
static bool went(const char *protocol, bool ring, bool in_bytes)
{
	uint64_t eager = counted_by(&sender, TW_C_SEND_EAGER);
	uint64_t announced = counted_by(&sender, TW_C_SEND_RNDV);
	uint64_t get = counted_by(&receiver, TW_C_RNDV_GET);
	uint64_t copy = counted_by(&receiver, TW_C_RNDV_COPY);

	if (eager + announced != 1 || get + copy != announced)
		return false;
	if (strcmp(protocol, "get or copy") == 0)
		return announced;
	if (announced)
		return strcmp(protocol, get ? "get" : "copy") == 0;
	/* The fast path of the engine makes one packet, without the provider. */
	if (packets > 1)
		return strcmp(protocol, "packets") == 0;
	return strcmp(protocol, ring && !in_bytes ? "slot" : "packet") == 0;
}

static const char *expected(const struct table *t, uint32_t len)
{
	unsigned i = 0;

	while (len > t->rows[i].to)
		i++;
	return t->rows[i].protocol;
}

static void try_length(const struct table *t, uint32_t len)
{
	const char *protocol = expected(t, len);
	uint32_t at;

	for (int i = 0; i < TIMES; i++) {
		begin_counting(&sender);
		begin_counting(&receiver);
		packets = 0;
		at = bytes_used();
		send_one(len);
		if (went(protocol, strcmp(t->provider, "shm") == 0, bytes_used() != at))
			continue;
		fprintf(stderr,
			"%s: %s: %u bytes go otherwise than by %s: eager %" PRIu64
			", announced %" PRIu64 ", get %" PRIu64 ", copy %" PRIu64
			", packets %u, bytes of the ring %u\n",
			what, t->provider, len, protocol, counted_by(&sender, TW_C_SEND_EAGER),
			counted_by(&sender, TW_C_SEND_RNDV), counted_by(&receiver, TW_C_RNDV_GET),
			counted_by(&receiver, TW_C_RNDV_COPY), packets, bytes_used() - at);
		_exit(1);
	}
}

static mx_endpoint_t open_one(void)
{
	mx_endpoint_t ep;

	check(mx_open_endpoint(0, MX_ANY_ENDPOINT, FILTER, NULL, 0, &ep) == MX_SUCCESS);
	return ep;
}

static void open_sides(bool self)
{
	mx_endpoint_addr_t to;
	struct tw_peer *p;
	struct tw_ep *ep;
	uint64_t nic;
	uint32_t id;

	check(mx_init() == MX_SUCCESS);
	sender.ep = open_one();
	receiver.ep = self ? sender.ep : open_one();
	check(mx_get_endpoint_addr(receiver.ep, &to) == MX_SUCCESS);
	check(mx_decompose_endpoint_addr(to, &nic, &id) == MX_SUCCESS);
	check(mx_connect(sender.ep, nic, id, FILTER, 1000u * (unsigned)TWT_LONG, &sender.peer) ==
	      MX_SUCCESS);
	ep = lock(&sender);
	p = peer_of(ep);
	check(p != NULL);
	counted = p->link->provider;
	counting = *counted;
	counting.send = count_send;
	p->link->provider = &counting;
	tw_leave(ep);
}

static int try_table(void *arg, int fd)
{
	const struct table *t = arg;
	char providers[32];
	bool self = strcmp(t->provider, "self") == 0;

	(void)fd;
	snprintf(providers, sizeof(providers), "self%s%s", self ? "" : ",",
		 self ? "" : t->provider);
	setenv("TAGWIRE_PROVIDERS", providers, 1);
	data = calloc(1, 2 * BEYOND);
	here = calloc(1, 2 * BEYOND);
	check(data && here);
	open_sides(self);
	for (unsigned i = 0; i < t->n; i++) {
		const struct row *row = &t->rows[i];
		bool last = row->to == UINT64_MAX;

		try_length(t, (uint32_t)row->from);
		try_length(t, last ? (uint32_t)row->from + BEYOND : (uint32_t)row->to);
	}
	printf("%s %s: %u protocols\n", what, t->provider, t->n);
	fflush(stdout);
	return 0;
}

static void try_setting(const char *name, const char *value)
{
	struct twt_child child;
	static char text[64];

	snprintf(text, sizeof(text), "%s=%s", name, value);
	what = text;
	setenv(name, value, 1);
	read_tables();
	check(ntables > 0);
	for (unsigned i = 0; i < ntables; i++) {
		twt_spawn_here(&child, try_table, &tables[i]);
		check(twt_join(&child, 3 * TWT_LONG) == 0);
	}
	unsetenv(name);
}

int main(void)
{
	char job[32];

	snprintf(job, sizeof(job), "protocols-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	setenv("TAGWIRE_AUTH", "none", 1);
	/* Else each endpoint of ofi_rxm begins with 64 MB of buffers. */
	setenv("FI_OFI_RXM_MSG_RX_SIZE", "64", 0);
	try_setting("TAGWIRE_RNDV", "auto");
	try_setting("TAGWIRE_RNDV", "get");
	try_setting("TAGWIRE_RNDV", "copy");
	try_setting("TAGWIRE_EAGER_MAX", "100");
	try_setting("TAGWIRE_EAGER_MAX", "5000");
	try_setting("TAGWIRE_RING_BYTES", "65536");
	try_setting("TAGWIRE_OFI", "tcp;ofi_rxm");
	return 0;
}
