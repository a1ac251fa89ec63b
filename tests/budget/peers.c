/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polls of an endpoint with so many peers that are silent, for tests/lint/idle, which
 * counts their instructions. Through the shm provider alone: the engine looks at one ring of
 * them with each poll.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/settings.h"
#include "provider/fake.h"

#define CALM 20000 /* polls after which no peer is active any more */
#define COUNTED 1024

extern const struct tw_provider tw_provider_shm;

static struct fake center, other;

static tw_noinline void counted_polls(void)
{
	for (int i = 0; i < COUNTED; i++)
		center.ops->progress(center.instance);
}

static void must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "peers: %s\n", what);
	exit(1);
}

int main(int argc, char **argv)
{
	unsigned n = argc == 2 ? (unsigned)atoi(argv[1]) : 0;
	struct rlimit files;

	must(n > 0 && n <= FAKE_PEERS, "usage: peers NUMBER");
	must(getrlimit(RLIMIT_NOFILE, &files) == 0, "getrlimit");
	files.rlim_cur = files.rlim_max;
	must(setrlimit(RLIMIT_NOFILE, &files) == 0, "setrlimit");
	must(tw_settings_load(), "the settings");
	tw_clock_init();
	must(fake_open(&center, &tw_provider_shm, 1) == TW_OK, "open");
	must(fake_open(&other, &tw_provider_shm, 2) == TW_OK, "open");
	for (unsigned i = 0; i < n; i++) {
		struct fake_peer *p = fake_connect(&other, FAKE_BOARD, 1, center.host.self.filter);

		while (p->state == FAKE_NEW) {
			fake_pump(&center);
			fake_pump(&other);
		}
		must(p->state == FAKE_UP, "connect");
	}
	for (int i = 0; i < CALM; i++)
		center.ops->progress(center.instance);
	counted_polls();
	fake_close(&other);
	fake_close(&center);
	return 0;
}
