/* SPDX-License-Identifier: BSD-2-Clause */
#include "benchlib.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "line.h"
#include "mx_extensions.h"
#include "other.h"

#define MAGIC 0x7477626e63680002ull
#define CONNECT_SECONDS 8 /* a client may be started before its server */
#define ALL MX_MATCH_MASK_NONE

/* The first message each way: are both the same tool? */
struct hello {
	uint64_t magic; /* fails too where the byte order differs */
	char tool[24];
};

struct address {
	uint64_t nic_id;
	uint32_t endpoint_id;
	uint32_t pad;
};

bool bench_child_ended(struct bench *b)
{
	int status;

	if (!bench_other_ended(&status, WNOHANG))
		return false;
	b->child = 0;
	if (WIFSIGNALED(status))
		bench_fail("the other end was ended by signal %d", WTERMSIG(status));
	if (!b->leaving || WEXITSTATUS(status))
		bench_fail("the other end has ended, exit code %d", WEXITSTATUS(status));
	return true;
}

/* Forks the other end; before mx_init(), which no child may inherit. */
static void split(struct bench *b)
{
	bool bind = !b->o.no_bind;
	int pair[2];

	bench_line_here(b);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		bench_fail("socketpair: %s", strerror(errno));
	b->child = bench_fork(&bind);
	if (!b->o.no_bind && !bind)
		b->polls = BENCH_POLLS_SHARED;
	b->lead = b->child > 0;
	b->channel = pair[b->lead];
	close(pair[!b->lead]);
}

/* Which end this is of a job. */
static void find_role(struct bench *b)
{
	static char role[24];
	uint32_t size;
	mx_return_t rc = mx_job_info(&b->rank, &size);

	if (rc != MX_SUCCESS)
		bench_failed("mx_job_info", rc);
	if (size < 2)
		bench_fail("a job of one process; --local starts the other end by itself");
	b->lead = b->rank == 0;
	snprintf(role, sizeof role, " (rank %" PRIu32 ")", b->rank);
	bench_role = b->lead ? "" : role;
	/* Without a launcher that knows it, the endpoint id follows from the rank. */
	if (getenv("TAGWIRE_RANK"))
		b->o.endpoint = b->rank;
}

static void open_endpoint(struct bench *b)
{
	mx_param_t param = {.key = MX_PARAM_UNEXP_QUEUE_MAX};
	bool client = b->o.mode == BENCH_CLIENT;
	mx_return_t rc;

	mx_set_error_handler(bench_keep_message);
	rc = mx_init();
	if (rc != MX_SUCCESS)
		bench_failed("mx_init", rc);
	if (b->o.mode == BENCH_JOB)
		find_role(b);
	param.val.unexp_queue_max = b->o.unexp_max;
	rc = mx_open_endpoint(b->o.board, client ? MX_ANY_ENDPOINT : b->o.endpoint, BENCH_FILTER,
			      b->o.unexp_max ? &param : NULL, b->o.unexp_max ? 1 : 0, &b->endpoint);
	if (rc != MX_SUCCESS)
		bench_failed("mx_open_endpoint", rc);
}

/* A client may be started before its server. */
static void say_waiting(const struct bench *b, uint32_t id, uint32_t limit)
{
	if (b->o.mode == BENCH_CLIENT)
		fprintf(stderr,
			"%s: endpoint %u of %s is not open yet; waiting %u seconds for "
			"'%s --server --endpoint %u' there\n",
			bench_tool, id, b->o.host, limit, bench_tool, id);
}

static void own_address(const struct bench *b, struct address *a)
{
	mx_endpoint_addr_t mine;
	mx_return_t rc = mx_get_endpoint_addr(b->endpoint, &mine);

	if (rc == MX_SUCCESS)
		rc = mx_decompose_endpoint_addr(mine, &a->nic_id, &a->endpoint_id);
	if (rc != MX_SUCCESS)
		bench_failed("mx_get_endpoint_addr", rc);
}

static void connect_peer(struct bench *b, uint64_t nic, uint32_t id)
{
	uint32_t limit = (uint32_t)ceil(fmin(b->o.timeout, CONNECT_SECONDS));
	double end = bench_now() + limit;
	struct address own;
	bool said = false;
	mx_return_t rc;

	own_address(b, &own);
	if (own.nic_id == nic && own.endpoint_id == id && b->o.mode == BENCH_CLIENT)
		bench_fail("endpoint %u is this end's own: start '%s --server --endpoint %u' first",
			   id, bench_tool, id);
	if (own.nic_id == nic && own.endpoint_id == id)
		bench_fail("both ends have the address of endpoint %u: TAGWIRE_PROVIDERS must have "
			   "a provider that reaches other processes",
			   id);
	for (;;) {
		rc = mx_connect(b->endpoint, nic, id, BENCH_FILTER, limit, &b->peer);
		if (rc != MX_CONNECTION_FAILED || bench_now() > end)
			break;
		if (b->o.mode == BENCH_JOB)
			bench_say_rank(b, limit - (end - bench_now()), limit);
		else if (!said)
			say_waiting(b, id, limit);
		said = true;
		usleep(200000);
	}
	/* One code for another filter and another key; the library has said which. */
	if (rc == MX_BAD_CONNECTION_KEY && b->o.mode == BENCH_CLIENT && bench_message_has("filter"))
		bench_fail("endpoint %u of %s belongs to another program, not to '%s --server'", id,
			   b->o.host, bench_tool);
	if (rc != MX_SUCCESS)
		bench_failed("mx_connect", rc);
	b->peer_nic = nic;
	b->peer_id = id;
	rc = mx_decompose_endpoint_addr2(b->peer, &nic, &id, &b->peer_session);
	if (rc != MX_SUCCESS)
		bench_failed("mx_decompose_endpoint_addr2", rc);
}

static void exchange(struct bench *b)
{
	mx_return_t rc = mx_job_exchange(b->endpoint);

	if (rc != MX_SUCCESS)
		bench_failed("mx_job_exchange", rc);
}

/* Sends the own address to the other end: through the socket, or by the user. */
static void announce(struct bench *b)
{
	char name[MX_MAX_HOSTNAME_LEN + 1] = "?";
	struct address a = {.pad = 0};

	if (b->o.mode == BENCH_JOB) {
		exchange(b);
		return;
	}
	own_address(b, &a);
	if (b->o.mode == BENCH_LOCAL) {
		if (send(b->channel, &a, sizeof a, MSG_NOSIGNAL) != sizeof a)
			bench_child_ended(b);
		return;
	}
	mx_nic_id_to_hostname(a.nic_id, name);
	printf("%s --host %s --endpoint %u\n", bench_tool, name, a.endpoint_id);
	bench_output_end();
}

static void find_server(struct bench *b, struct address *a)
{
	mx_return_t rc;

	if (b->o.mode == BENCH_JOB) {
		exchange(b);
		rc = mx_job_peer(0, &a->nic_id, &a->endpoint_id);
		if (rc != MX_SUCCESS)
			bench_failed("mx_job_peer", rc);
		return;
	}

	if (b->o.mode == BENCH_LOCAL) {
		if (recv(b->channel, a, sizeof *a, MSG_WAITALL) != sizeof *a)
			exit(1); /* the leading end has said why */
		return;
	}
	rc = mx_hostname_to_nic_id((char *)(uintptr_t)b->o.host, &a->nic_id);
	if (rc != MX_SUCCESS)
		bench_failed("mx_hostname_to_nic_id", rc);
	a->endpoint_id = b->o.endpoint;
}

/* Why the other end is no partner, or NULL. */
static const char *hello_refused(const struct hello *h, const mx_status_t *status)
{
	static char text[64];

	if (status->xfer_length != sizeof *h || h->magic != MAGIC)
		return "the other end is another version";
	if (strncmp(h->tool, bench_tool, sizeof h->tool) == 0)
		return NULL;
	snprintf(text, sizeof text, "the other end is %.*s; both must be one tool",
		 (int)strnlen(h->tool, sizeof h->tool), h->tool);
	table_printable(text);
	return text;
}

static void say_hello(struct bench *b)
{
	struct hello h = {.magic = MAGIC};
	mx_status_t status;
	mx_request_t req;

	strncpy(h.tool, bench_tool, sizeof h.tool - 1);
	bench_isend(b, &h, sizeof h, BENCH_MATCH(BENCH_KIND_HELLO, 0), &req);
	bench_finish(b, &req, &status);
}

/* The server. */
static void accept_peer(struct bench *b)
{
	uint32_t id = 0;
	uint64_t nic = 0;
	mx_status_t status;
	mx_request_t req;
	const char *refused;
	struct hello h;

	bench_irecv(b, &h, sizeof h, BENCH_MATCH(BENCH_KIND_HELLO, 0), ALL, &req);
	announce(b);
	for (;;) {
		bench_block(b, &req, &status);
		mx_decompose_endpoint_addr(status.source, &nic, &id);
		connect_peer(b, nic, id);
		refused = hello_refused(&h, &status);
		if (refused && b->o.mode == BENCH_SERVER)
			bench_irecv(b, &h, sizeof h, BENCH_MATCH(BENCH_KIND_HELLO, 0), ALL, &req);
		say_hello(b);
		if (!refused)
			return;
		if (b->o.mode != BENCH_SERVER)
			bench_fail("%s", refused);
		fprintf(stderr, "%s: %s\n", bench_tool, refused);
	}
}

/* The client. */
static void reach_peer(struct bench *b)
{
	struct address a;
	const char *refused;
	mx_status_t status;
	mx_request_t req;
	struct hello h;

	find_server(b, &a);
	connect_peer(b, a.nic_id, a.endpoint_id);
	bench_irecv(b, &h, sizeof h, BENCH_MATCH(BENCH_KIND_HELLO, 0), ALL, &req);
	say_hello(b);
	bench_block(b, &req, &status);
	refused = hello_refused(&h, &status);
	if (refused)
		bench_fail("%s", refused);
}

static void close_endpoint(struct bench *b)
{
	mx_close_endpoint(b->endpoint);
	mx_finalize();
}

void bench_start(struct bench *b, const struct bench_options *o)
{
	memset(b, 0, sizeof *b);
	b->o = *o;
	b->lead = o->mode == BENCH_CLIENT;
	b->peer_id = MX_ANY_ENDPOINT;
	b->channel = -1;
	b->polls = BENCH_POLLS;
	if (o->mode == BENCH_LOCAL)
		split(b);
	open_endpoint(b);
	if (b->rank > 1) {
		exchange(b);
		close_endpoint(b);
		exit(0);
	}
	if (o->mode == BENCH_SERVER || (o->mode != BENCH_CLIENT && b->lead))
		accept_peer(b);
	else
		reach_peer(b);
	if (b->channel >= 0)
		close(b->channel);
	if (b->lead)
		bench_line_share(b);
}

void bench_lead(struct bench *b, struct bench_order *order)
{
	mx_request_t sent, ready;
	mx_status_t status;

	order->blocking = b->blocking;
	bench_irecv(b, NULL, 0, BENCH_MATCH(BENCH_KIND_READY, 0), ALL, &ready);
	bench_isend(b, order, sizeof *order, BENCH_MATCH(BENCH_KIND_ORDER, 0), &sent);
	bench_finish(b, &sent, &status);
	bench_finish(b, &ready, &status);
}

/* The other end has nothing left to do; do not wait for a stuck one. */
static void reap(struct bench *b)
{
	double end = bench_now() + 5;

	while (b->child && !bench_child_ended(b)) {
		if (bench_now() > end)
			bench_fail("the other end did not end");
		usleep(1000);
	}
}

void bench_stop(struct bench *b)
{
	struct bench_order order = {.op = BENCH_OP_END};
	double end = bench_now() + 5;
	mx_segment_t seg = {&order, sizeof order};
	uint32_t done = 0;
	mx_status_t status;
	mx_request_t req;
	mx_return_t rc;

	/* Synchronous: it must have arrived before the close. Its status does not matter. */
	b->leaving = true;
	rc = mx_issend(b->endpoint, &seg, 1, b->peer, BENCH_MATCH(BENCH_KIND_ORDER, 0), NULL, &req);
	while (rc == MX_SUCCESS && !done && bench_now() < end)
		rc = mx_wait(b->endpoint, &req, BENCH_SLEEP_MS, &status, &done);
	close_endpoint(b);
	reap(b);
}

bool bench_follow(struct bench *b, struct bench_order *order)
{
	mx_status_t status;
	mx_request_t req;

	for (;;) {
		bench_irecv(b, order, sizeof *order, BENCH_MATCH(BENCH_KIND_ORDER, 0), ALL, &req);
		bench_finish(b, &req, &status);
		if (status.xfer_length != sizeof *order)
			bench_fail("the other end gave an order of another version");
		b->blocking = order->blocking;
		if (order->op == BENCH_OP_END)
			break;
		if (!bench_line_ordered(b, order))
			return true;
	}
	close_endpoint(b);
	return false;
}

void bench_ready(struct bench *b)
{
	mx_status_t status;
	mx_request_t req;

	bench_isend(b, NULL, 0, BENCH_MATCH(BENCH_KIND_READY, 0), &req);
	bench_finish(b, &req, &status);
}
