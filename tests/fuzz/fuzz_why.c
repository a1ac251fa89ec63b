/* SPDX-License-Identifier: BSD-2-Clause */
/* Facts of another host, as mx_why --together gets them: refused, or explained. */
#include <stdbool.h>

#include "bench/cli.h"
#include "bench/why/why.h"
#include "base/compiler.h"
#include "fuzz/fuzz.h"

const unsigned fuzz_inputs = 30000;

const char bench_tool[] = "fuzz_why";

#define JOB 7u
#define HERE (0x0a000001ull << 16)
#define THERE (0x0a000002ull << 16)

/* One of each that another one points to, or whose count comes before it. */
static struct why_unexp unexp[] = {{.id = 1, .from = HERE | 1, .match = 2, .len = 3}};
static char cause[] = "it is not open", advice[] = "start it";
static struct why_peer peers[] = {
	{.where = HERE | 1, .state = TW_PEER_UP, .credits = 3, .granted = 4, .queued = true},
	{.where = HERE | 2, .state = TW_PEER_NONE, .why = 1, .cause = cause, .advice = advice}};
static uint64_t platforms[] = {THERE | 1, HERE | 1};
static struct why_ep eps[] = {{.interface = "mx",
			       .job = JOB,
			       .where = THERE | 1,
			       .unexp = unexp,
			       .nunexp = tw_countof(unexp),
			       .peers = peers,
			       .npeers = tw_countof(peers),
			       .platforms = platforms,
			       .nplatforms = tw_countof(platforms)}};
static struct why_wait waits[] = {
	{.kind = WHY_RECV, .id = 1, .match = 5, .mask = ~0ull, .len = 6, .state = WHY_IS_POSTED},
	{.kind = WHY_ASKED, .to = HERE | 1, .state = WHY_IS_ASKED},
	{.kind = WHY_GET, .own = 1u << 16, .other = 2u << 16 | 5, .to = HERE | 1},
	{.kind = WHY_RANKS, .call = "mx_job_exchange", .nranks = 2, .ranks = {1, 2}}};
static struct why_wait locks[] = {
	{.kind = WHY_MUTEX,
	 .own = 9,
	 .nholders = 2,
	 .holders = {{.pid = 3, .node = 4}, {.node = 5, .where = HERE | 1}}}};
static struct why_wait foreign[] = {
	{.kind = WHY_SEM, .own = 8, .to = HERE | 1, .nholders = 1, .holders = {{.pid = 3}}}};
static struct why_proc procs[] = {{.pid = 3,
				   .program = "solve",
				   .rank = "1",
				   .mood = WHY_BLOCKED,
				   .since = 1.5,
				   .eps = eps,
				   .neps = tw_countof(eps),
				   .waits = waits,
				   .nwaits = tw_countof(waits),
				   .node = {4},
				   .nnodes = 1},
				  {.pid = 4,
				   .program = "solve",
				   .mood = WHY_BLOCKED,
				   .waits = locks,
				   .nwaits = tw_countof(locks),
				   .foreign = foreign,
				   .nforeign = tw_countof(foreign)}};
static struct why_open opens[] = {{.pid = 3, .where = THERE | 1, .job = JOB, .program = "solve"}};
static struct why_host host = {.name = "beta", .view = 11, .nics = {THERE >> 16}, .nnics = 1};

static struct why_facts good(void)
{
	return (struct why_facts){.procs = procs,
				  .n = tw_countof(procs),
				  .opens = opens,
				  .nopens = tw_countof(opens),
				  .hosts = &host,
				  .nhosts = 1};
}

/* What mx_why does with them, beside those of its own host, which have a process that waits. */
static void explain(struct why_facts *other)
{
	static char sentences[3][WHY_TEXT];
	struct why_facts f = {.n = 0}, own;
	struct why_facts both = good();
	struct why_graph g;
	char text[WHY_TEXT];
	uint8_t *bytes;
	size_t len;

	bytes = why_flatten(&both, &len);
	FUZZ_MUST(why_unflatten(&own, bytes, len));
	free(bytes);
	f.hosts = why_room(NULL, 0, sizeof *f.hosts);
	f.hosts[0] = (struct why_host){.name = "alpha"};
	f.nhosts = 1;
	why_add_host(&f, &own);
	why_add_host(&f, other);
	FUZZ_MUST(f.nhosts == 3);
	why_graph(&g, &f);
	why_verdict(&g, sentences);
	for (unsigned i = 0; i < f.n; i++) {
		why_name(&f, (int)i, text);
		for (unsigned k = 0; k < f.procs[i].neps; k++)
			why_where_text(&f, &f.procs[i].eps[k], HERE | 1, text);
		for (unsigned k = 0; k < f.procs[i].nwaits; k++) {
			why_ranks(&f.procs[i].waits[k], text);
			FUZZ_MUST(why_kind_text(f.procs[i].waits[k].kind) &&
				  why_state_text(f.procs[i].waits[k].state));
		}
	}
	free(g.actors);
	why_free(&f);
}

/* The same bytes again, once they are what is written. */
static void try(const uint8_t *data, size_t size, bool wanted)
{
	struct why_facts f, again;
	uint8_t *one, *two;
	size_t len, len2;

	if (!why_unflatten(&f, data, size)) {
		FUZZ_MUST(!wanted);
		return;
	}
	one = why_flatten(&f, &len);
	FUZZ_MUST(why_unflatten(&again, one, len));
	two = why_flatten(&again, &len2);
	FUZZ_MUST(len == len2 && memcmp(one, two, len) == 0);
	FUZZ_MUST(!wanted || (len == size && memcmp(one, data, len) == 0));
	free(one);
	free(two);
	why_free(&again);
	explain(&f);
}

/* Cut short anywhere, and with a count too large, or another great number, anywhere. */
static void try_all(const uint8_t *whole, size_t len, uint8_t *bytes)
{
	struct why_facts f;

	for (size_t n = 0; n < len; n++) {
		memcpy(bytes, whole, n);
		FUZZ_MUST(!why_unflatten(&f, bytes, n));
	}
	for (size_t at = 0; at < len; at++)
		for (unsigned size = 1; size <= 8 && at + size <= len; size *= 2) {
			memcpy(bytes, whole, len);
			memset(bytes + at, 0xff, size);
			try(bytes, len, false);
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool tried;
	struct why_facts f = good();
	struct input in = {data, size};
	size_t len;
	uint8_t *whole = why_flatten(&f, &len), *bytes = malloc(len);

	FUZZ_MUST(bytes);
	try(whole, len, true);
	if (!tried)
		try_all(whole, len, bytes);
	tried = true;
	memcpy(bytes, whole, len);
	while (in.left) {
		uint32_t at = in_word(&in) % (uint32_t)len, n = in_byte(&in) % 8;

		for (; n && at < len; n--)
			bytes[at++] = in_byte(&in);
	}
	try(bytes, len, false);
	try(data, size, false);
	free(bytes);
	free(whole);
	return 0;
}
