/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tools read of an endpoint: its page, with anything in it. */
#include <sys/mman.h>
#include <unistd.h>

#include "bench/cli.h"
#include "bench/statscan.h"
#include "fuzz/fuzz.h"

const unsigned fuzz_inputs = 30000;

const char bench_tool[] = "fuzz_stats";

static struct tw_stats good(void)
{
	struct tw_stats s = {.magic = TW_STATS_MAGIC,
			     .size = sizeof(s),
			     .pid = (uint32_t)getpid(),
			     .endpoint_id = 3,
			     .npeers = 2,
			     .ncounters = TW_NCOUNTERS,
			     .program = "fuzz"};

	memset(s.peers[0].provider, 'x', sizeof(s.peers[0].provider));
	return s;
}

static void look(const struct scan *found)
{
	for (unsigned i = 0; i < found->n; i++) {
		const struct scan_entry *e = found->entries[i];
		uint64_t sum = 0;

		FUZZ_MUST(strlen(e->program) < sizeof(e->program));
		FUZZ_MUST(strlen(e->interface) < sizeof(e->interface));
		for (unsigned k = 0; k < e->stats.npeers; k++) {
			FUZZ_MUST(strlen(e->providers[k]) < sizeof(e->providers[k]));
			sum += e->stats.peers[k].msgs_sent;
		}
		for (unsigned k = 0; k < e->stats.ncounters; k++)
			sum += e->stats.counters[k];
		FUZZ_MUST(sum + 1 != sum);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tw_stats s = good();
	struct input in = {data, size};
	size_t len = sizeof(s);
	struct scan found;
	int fd = memfd_create(TW_STATS_NAME, MFD_CLOEXEC);

	FUZZ_MUST(fd >= 0);
	if (in_byte(&in) % 4 == 0)
		len = in_word(&in) % (2 * sizeof(s));
	while (in.left) {
		uint32_t at = in_word(&in) % sizeof(s), n = in_byte(&in) % 16;

		if (at % 2)
			at %= 128; /* what is not an array lies in front */
		for (; n && at < sizeof(s); n--)
			((uint8_t *)&s)[at++] = in_byte(&in);
	}
	FUZZ_MUST(write(fd, &s, len < sizeof(s) ? len : sizeof(s)) >= 0);
	if (len > sizeof(s))
		FUZZ_MUST(ftruncate(fd, (off_t)len) == 0);
	FUZZ_MUST(scan_endpoints(&found, getpid(), SCAN_ANY) == 0);
	look(&found);
	scan_free(&found);
	close(fd);
	return 0;
}
