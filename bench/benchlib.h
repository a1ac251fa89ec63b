/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ends of a measurement. One leads: it gives orders, measures and reports;
 * the other follows. Everything between them is MX messages, so both may be
 * anywhere; only the first address takes another way.
 */
#ifndef BENCH_BENCHLIB_H
#define BENCH_BENCHLIB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli.h"
#include "myriexpress.h"
#include "series.h"
#include "table.h"

/* Empty polls before the core is offered to others: with cores enough, and without. */
#define BENCH_POLLS 1000
#define BENCH_POLLS_SHARED 10

#define BENCH_FILTER 0x74776265u /* the tools' own: strangers are turned away */
#define BENCH_MAX_SIZE (1u << 30)

/* Command line options of all measuring tools. */
struct bench_options {
	enum { BENCH_LOCAL, BENCH_SERVER, BENCH_CLIENT, BENCH_JOB } mode;
	bool local, server; /* asked for by name */
	bool no_bind;
	bool fresh; /* what was received is sent on, where a tool can */
	const char *host;
	uint32_t endpoint; /* ours as a server, theirs as a client */
	uint32_t board;
	uint32_t unexp_max; /* MX_PARAM_UNEXP_QUEUE_MAX, 0: the library's own */
	unsigned rounds;
	double seconds; /* for one figure in one round */
	double timeout; /* seconds of silence before the other end is given up */
	enum table_format format;
};

#define BENCH_DEFAULTS                                                                             \
	{                                                                                          \
		.endpoint = MX_ANY_ENDPOINT, .board = MX_ANY_NIC, .rounds = 5, .seconds = 0.02,    \
		.timeout = 60                                                                      \
	}

/* Those above, of a struct bench_options; a tool adds its own, and the end mark. */
#define BENCH_OPTIONS(b)                                                                           \
	CLI_SET("local", &(b)->local), CLI_SET("server", &(b)->server),                            \
		CLI_TEXT("host", &(b)->host),                                                      \
		CLI_UINT("endpoint", &(b)->endpoint, 0, MX_ANY_ENDPOINT - 1),                      \
		CLI_UINT("board", &(b)->board, 0, MX_ANY_NIC - 1),                                 \
		CLI_SET("no-bind", &(b)->no_bind),                                                 \
		CLI_UINT("rounds", &(b)->rounds, 1, BENCH_MAX_ROUNDS),                             \
		CLI_MS("time", &(b)->seconds, 100000),                                             \
		CLI_REAL("timeout", &(b)->timeout, 1000000), CLI_FORMAT(&(b)->format)

#define BENCH_HELP BENCH_HELP_HERE BENCH_HELP_HOSTS BENCH_HELP_HOW
#define BENCH_HELP_HERE                                                                            \
	"Where the two ends are:\n"                                                                \
	"  --local             both here, each on a core of its own (default; but under\n"         \
	"                      a launcher, or with TAGWIRE_RANK, ranks 0 and 1 are the\n"          \
	"                      two ends)\n"                                                        \
	"  --no-bind           leave it to the system where they run\n"
#define BENCH_HELP_HOSTS                                                                           \
	"  --server            wait for a client, which then measures and reports\n"               \
	"  --host NAME:BOARD   measure to the server on that board; needs --endpoint\n"            \
	"  --endpoint ID       the server's endpoint id (server: default is any free one)\n"       \
	"  --board N           the board to use here (default any)\n"
#define BENCH_HELP_HOW                                                                             \
	"\nHow to measure and report:\n"                                                           \
	"  --rounds N          rounds over everything, reported as medians (default 5)\n"          \
	"  --time MS           time for each figure in each round (default 20)\n"                  \
	"  --timeout SECONDS   give up when the other end is silent so long (default 60)\n"        \
	"  --csv, --json       comma separated values; one JSON object a line\n"                   \
	"  -h, --help; -V, --version\n"

/* Takes all options, and checks what was given together. */
void bench_options(struct bench_options *o, int argc, char **argv, const struct cli_option *options,
		   const char *help);

/* Shared memory of two ends on one host. */
struct bench_line;

struct bench {
	struct bench_options o;
	mx_endpoint_t endpoint;
	mx_endpoint_addr_t peer;
	uint64_t peer_nic;
	uint32_t peer_id, peer_session;
	uint32_t rank; /* in a job */
	bool lead;
	bool blocking;	/* mx_wait() instead of mx_test() */
	bool leaving;	/* the other end may go now */
	unsigned polls; /* BENCH_POLLS or BENCH_POLLS_SHARED */
	pid_t child;	/* the other end, where it is ours */
	int channel;	/* to the other end of the same host: the first address */
	struct bench_line *line;
};

/* Match information: a kind in the top byte, the rest is the tool's own. */
#define BENCH_MATCH(kind, rest) ((uint64_t)(kind) << 56 | (uint64_t)(rest))
enum { BENCH_KIND_HELLO = 1, BENCH_KIND_ORDER, BENCH_KIND_READY, BENCH_KIND_TOOL };

/* An order of the leading end. */
enum { BENCH_OP_END, BENCH_OP_SHARE, BENCH_OP_LINE, BENCH_OP_TOOL };
struct bench_order {
	uint32_t op;
	uint32_t blocking; /* filled in by bench_lead() */
	uint64_t arg[6];
};

/*
 * Starts both ends and connects them. A local run forks: both ends return, with
 * different lead. In a job ranks 0 and 1 are the ends; other ranks exit here with 0.
 * From here on every failure ends the program.
 */
void bench_start(struct bench *b, const struct bench_options *o);
/* The leading end: gives an order and returns when the other is ready. */
void bench_lead(struct bench *b, struct bench_order *order);
/* The leading end: the other end may go. Closes everything. */
void bench_stop(struct bench *b);
/* The following end: waits for the next order; false when there are no more. */
bool bench_follow(struct bench *b, struct bench_order *order);
/* The following end: says that it is ready for what was ordered. */
void bench_ready(struct bench *b);

/* Waiting for an event that may never come: call it after each poll without one. */
struct bench_spin {
	unsigned polls;
	double last, checked, silent;
};
void bench_idle(struct bench *b, struct bench_spin *s);
static inline void bench_spin(struct bench *b, struct bench_spin *s)
{
	if (__builtin_expect(++s->polls >= b->polls, 0))
		bench_idle(b, s);
}

/* The same after each bounded sleep of BENCH_SLEEP_MS. */
#define BENCH_SLEEP_MS 500
void bench_slept(struct bench *b, struct bench_spin *s);

/* In a job: says for which rank this one has waited for long, once. */
void bench_say_rank(const struct bench *b, double waited, double limit);

/* Whether our forked end is gone; ends the program if it should not be. */
bool bench_child_ended(struct bench *b);

/* An error handler: keeps what the library says of the last failure for bench_failed(). */
mx_return_t bench_keep_message(char *message, mx_return_t code);
bool bench_message_has(const char *words);
void bench_failed(const char *call, mx_return_t rc) bench_noreturn;
void bench_bad_status(const mx_status_t *status) bench_noreturn;

static inline void bench_isend(struct bench *b, void *buf, uint32_t len, uint64_t match,
			       mx_request_t *req)
{
	mx_segment_t seg = {buf, len};
	mx_return_t rc = mx_isend(b->endpoint, &seg, 1, b->peer, match, NULL, req);

	if (__builtin_expect(rc != MX_SUCCESS, 0))
		bench_failed("mx_isend", rc);
}

static inline void bench_irecv(struct bench *b, void *buf, uint32_t len, uint64_t match,
			       uint64_t mask, mx_request_t *req)
{
	mx_segment_t seg = {buf, len};
	mx_return_t rc = mx_irecv(b->endpoint, &seg, 1, match & mask, mask, NULL, req);

	if (__builtin_expect(rc != MX_SUCCESS, 0))
		bench_failed("mx_irecv", rc);
}

/* Polls a request; true when it has completed without error. */
static inline bool bench_test(struct bench *b, mx_request_t *req, mx_status_t *status)
{
	uint32_t done = 0;
	mx_return_t rc = mx_test(b->endpoint, req, status, &done);

	if (__builtin_expect(rc != MX_SUCCESS, 0))
		bench_failed("mx_test", rc);
	if (!done)
		return false;
	if (__builtin_expect(status->code != MX_STATUS_SUCCESS, 0))
		bench_bad_status(status);
	return true;
}

void bench_block(struct bench *b, mx_request_t *req, mx_status_t *status);

/* Completes a request, by polling unless blocking. */
static inline void bench_finish(struct bench *b, mx_request_t *req, mx_status_t *status)
{
	struct bench_spin spin = {.polls = 0};

	if (b->blocking) {
		bench_block(b, req, status);
		return;
	}
	while (!bench_test(b, req, status))
		bench_spin(b, &spin);
}

#endif /* BENCH_BENCHLIB_H */
