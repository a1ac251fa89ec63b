/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A look-up at a host where some of those who could answer do not: processes that are stopped, and
 * other programs at the ports. The first answer counts. No test waits as long as one of them may
 * take.
 */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/inet.h"
#include "base/settings.h"
#include "lib/twt.h"
#include "providers/net/session.h"

TestSuite(query, .timeout = TWT_TIMEOUT);

#define FOREVER_MS 3600000
#define SILENT 15 /* of those that are called at one port; the next one answers */

static struct sockaddr_storage at;
static atomic_int silent; /* so many more calls get no answer */

static void begin(void)
{
	struct sockaddr_in *in = (void *)&at;

	setenv("TAGWIRE_AUTH", "none", 1);
	setenv("TAGWIRE_PROVIDERS", "self,verbs,ofi,tcp", 1);
	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	cr_assert(tw_settings_load());
	tw_settings.connect_timeout = FOREVER_MS;
	tw_clock_init();
	*in = (struct sockaddr_in){.sin_family = AF_INET};
	/* Of this process alone, so that several tests may run. */
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK + ((uint32_t)getpid() & 0xffff) * 16);
}

static int listen_at(unsigned try)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	tw_inet_set_port(&at, tw_net_names_port(try));
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	cr_assert_eq(bind(fd, (struct sockaddr *)&at, tw_inet_len(&at)), 0);
	cr_assert_eq(listen(fd, 64), 0);
	return fd;
}

static void *answer(void *arg)
{
	int listener = *(int *)arg, fd;

	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		struct tw_net_hello h = {
			.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .method = TW_NET_NONE};
		struct tw_net_hello hers;
		struct tw_net_ctrl t;

		/* It stays open, as at a process that is stopped. */
		if (atomic_fetch_sub(&silent, 1) > 0)
			continue;
		if (twt_put(fd, &h, sizeof(h)) == 0 && twt_get(fd, &hers, sizeof(hers)) == 0 &&
		    twt_get(fd, &t, sizeof(t)) == 0 && t.type == TW_NET_QUERY) {
			t.type = TW_NET_BOARDS;
			t.boards.n = 1;
			strcpy(t.boards.host, "alpha");
			twt_put(fd, &t, sizeof(t));
		}
		close(fd);
	}
	return NULL;
}

static void answer_at(unsigned try)
{
	static int listeners[TW_NET_PORTS];
	pthread_t thread;

	listeners[try] = listen_at(try);
	cr_assert_eq(pthread_create(&thread, NULL, answer, &listeners[try]), 0);
}

/* Where n calls get no answer. A busy machine may not run the answering thread in time. */
static void look(int n)
{
	struct tw_host_boards b = {0};
	double limit = twt_now() + TWT_LONG;
	enum tw_err err;

	do {
		atomic_store(&silent, n);
		err = tw_net_query(&at, &b);
	} while (err == TW_ETIMEDOUT && twt_now() < limit);
	cr_assert_eq(err, TW_OK);
	cr_assert_eq(b.n, 1u);
	cr_assert_str_eq(b.host, "alpha");
}

/* Nobody answers at the other ports. */
Test(query, silent_ports)
{
	begin();
	for (unsigned i = 0; i < TW_NET_PORTS - 1; i++)
		listen_at(i);
	answer_at(TW_NET_PORTS - 1);
	look(0);
}

/* Several listen at one port, and the system chooses: here a stopped one, many times. */
Test(query, stopped_process)
{
	begin();
	answer_at(0);
	look(SILENT);
}

/* All are silent: it ends after the time for one. */
Test(query, nobody_answers)
{
	struct tw_host_boards b;

	begin();
	tw_settings.connect_timeout = 500;
	for (unsigned i = 0; i < TW_NET_PORTS; i++)
		listen_at(i);
	cr_assert_eq(tw_net_query(&at, &b), TW_ETIMEDOUT);
}

Test(query, nobody_listens)
{
	struct tw_host_boards b;

	begin();
	cr_assert_eq(tw_net_query(&at, &b), TW_ECLOSED);
}
