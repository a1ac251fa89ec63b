/* SPDX-License-Identifier: BSD-2-Clause */
/* What the fuzzers of the net provider begin with: an endpoint that listens, with a key. */
#ifndef FUZZ_NET_H
#define FUZZ_NET_H

#include <unistd.h>

#include "base/settings.h"
#include "fuzz/fuzz.h"
#include "provider/fake.h"
#include "providers/net/session.h"

static inline struct tw_net_ep *fuzz_net_open(struct fake *engine)
{
	static const char key[TW_NET_KEY] = "of a file";
	char job[40], file[] = "/tmp/fuzz-net-XXXXXX";
	int fd = mkstemp(file);

	snprintf(job, sizeof(job), "fuzz-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	setenv("TAGWIRE_PROVIDERS", "self,tcp", 1);
	setenv("TAGWIRE_AUTH", "key", 1);
	setenv("TAGWIRE_KEY", file, 1);
	setenv("TAGWIRE_LOG", "0", 1);
	FUZZ_MUST(write(fd, key, sizeof(key)) == sizeof(key));
	close(fd);
	FUZZ_MUST(tw_settings_load());
	tw_clock_init();
	FUZZ_MUST(fake_open(engine, &tw_provider_net, 1) == TW_OK);
	/* It reads the file. */
	FUZZ_MUST(tw_net_auth() != NULL);
	unlink(file);
	return engine->instance;
}

#endif /* FUZZ_NET_H */
