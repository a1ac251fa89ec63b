/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for the other end, which may have died. */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"
#include "mx_extensions.h"

#define SAY_AFTER 3 /* seconds */

static char last_message[512];
static mx_return_t last_code;

mx_return_t bench_keep_message(char *message, mx_return_t code)
{
	snprintf(last_message, sizeof last_message, "%s", message);
	last_code = code;
	return code;
}

bool bench_message_has(const char *words)
{
	return strstr(last_message, words);
}

void bench_failed(const char *call, mx_return_t rc)
{
	if (*last_message && last_code == rc)
		bench_fail("%s", last_message);
	bench_fail("%s: %s", call, mx_strerror(rc));
}

void bench_bad_status(const mx_status_t *status)
{
	char name[MX_MAX_HOSTNAME_LEN + 1] = "?";
	uint64_t nic;
	uint32_t id;

	if (mx_decompose_endpoint_addr(status->source, &nic, &id) != MX_SUCCESS)
		bench_fail("a message failed: %s", mx_strstatus(status->code));
	mx_nic_id_to_hostname(nic, name);
	bench_fail("a message from or to endpoint %u of %s failed: %s", id, name,
		   mx_strstatus(status->code));
}

/* A posted receive does not fail when its possible sender dies; connecting again does. */
static void check_peer(struct bench *b)
{
	char name[MX_MAX_HOSTNAME_LEN + 1] = "?";
	uint32_t id, session;
	mx_endpoint_addr_t again;
	mx_return_t rc;
	uint64_t nic;

	if (b->leaving)
		return;
	if (b->o.mode == BENCH_LOCAL) {
		bench_child_ended(b);
		return;
	}
	if (b->peer_id == MX_ANY_ENDPOINT)
		return;
	rc = mx_connect(b->endpoint, b->peer_nic, b->peer_id, BENCH_FILTER, 5, &again);
	if (rc == MX_TIMEOUT)
		return; /* slow is not dead; the silence is counted */
	if (rc != MX_SUCCESS) {
		mx_nic_id_to_hostname(b->peer_nic, name);
		bench_fail("the other end is gone, endpoint %u of %s: %s", b->peer_id, name,
			   mx_strerror(rc));
	}
	rc = mx_decompose_endpoint_addr2(again, &nic, &id, &session);
	if (rc == MX_SUCCESS && session != b->peer_session)
		bench_fail("the other end is gone, another program has its endpoint %u",
			   b->peer_id);
}

static bench_noreturn void fail_silent(const struct bench *b)
{
	char name[MX_MAX_HOSTNAME_LEN + 1] = "?";

	if (b->o.mode == BENCH_LOCAL) {
		int pid = (int)(b->child ? b->child : getppid());

		bench_fail("the other end, process %d, has been silent for %g seconds: 'mx_why "
			   "--pid %d' says what it does; --timeout waits longer",
			   pid, b->o.timeout, pid);
	}
	if (b->peer_id == MX_ANY_ENDPOINT)
		bench_fail("the other end, rank %d, has been silent for %g seconds: mx_why on its "
			   "host says what it does; --timeout waits longer",
			   b->lead, b->o.timeout);
	mx_nic_id_to_hostname(b->peer_nic, name);
	bench_fail("the other end, endpoint %u of %s, has been silent for %g seconds: mx_why there "
		   "says what it does; --timeout waits longer",
		   b->peer_id, name, b->o.timeout);
}

void bench_say_rank(const struct bench *b, double waited, double limit)
{
	static bool said;

	if (said || waited < SAY_AFTER)
		return;
	said = true;
	fprintf(stderr, "%s%s: waiting for rank %d, which has not connected; at most %g seconds\n",
		bench_tool, bench_role, b->lead, limit);
}

static void check_silence(struct bench *b, struct bench_spin *s)
{
	if (b->o.mode == BENCH_JOB && b->peer_id == MX_ANY_ENDPOINT)
		bench_say_rank(b, s->silent, b->o.timeout);
	/* A server waits forever for its client. */
	if (b->o.mode == BENCH_SERVER && b->peer_id == MX_ANY_ENDPOINT)
		return;
	if (s->silent >= b->o.timeout)
		fail_silent(b);
}

void bench_idle(struct bench *b, struct bench_spin *s)
{
	double now = bench_now();

	s->polls = 0;
	sched_yield(); /* whoever we wait for may need this core */
	if (s->last == 0) {
		s->last = s->checked = now;
		return;
	}
	/* After a longer gap this process was stopped; the peer was not silent. */
	s->silent += now - s->last < 1 ? now - s->last : 1;
	s->last = now;
	if (now - s->checked < BENCH_SLEEP_MS / 1e3)
		return;
	s->checked = now;
	check_peer(b);
	check_silence(b, s);
}

void bench_slept(struct bench *b, struct bench_spin *s)
{
	s->silent += BENCH_SLEEP_MS / 1e3;
	check_peer(b);
	check_silence(b, s);
}

void bench_block(struct bench *b, mx_request_t *req, mx_status_t *status)
{
	struct bench_spin spin = {.polls = 0};
	uint32_t done = 0;
	mx_return_t rc;

	for (;;) {
		rc = mx_wait(b->endpoint, req, BENCH_SLEEP_MS, status, &done);
		if (rc != MX_SUCCESS)
			bench_failed("mx_wait", rc);
		if (done)
			break;
		bench_slept(b, &spin);
	}
	if (status->code != MX_STATUS_SUCCESS)
		bench_bad_status(status);
}
