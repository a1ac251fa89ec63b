/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a launcher starts: each process is the MCAPI and the MRAPI node of its rank. A message
 * goes around all of them, and a mutex of the first one is a mutex for all. Arguments are the
 * host names of the ranks.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/must.h"

enum { PORT = 1, DOMAIN = 1, ID = 7 };

static unsigned n;
static mcapi_endpoint_t mine, next;

static void begin(void)
{
	mrapi_parameters_t parameters = 0;
	mcapi_version_t version;
	mrapi_info_t info;

	MR(mrapi_initialize(DOMAIN, rank, &parameters, &info, &status));
	MC(mcapi_initialize(rank, &version, &status));
	MC(mine = mcapi_create_endpoint(PORT, &status));
	MC(next = mcapi_get_endpoint((rank + 1) % n, PORT, &status));
}

static void give(unsigned turn)
{
	MC(mcapi_msg_send(mine, next, &turn, sizeof(turn), 0, &status));
}

static void take(unsigned turn)
{
	unsigned got;
	size_t size;

	MC(mcapi_msg_recv(mine, &got, sizeof(got), &size, &status));
	check(size == sizeof(got) && got == turn);
}

static void first(void)
{
	mrapi_mutex_hndl_t m;
	mrapi_key_t key;

	MR(m = mrapi_mutex_create(ID, NULL, &status));
	MR(mrapi_mutex_lock(m, &key, MRAPI_INFINITE, &status));
	give(0);
	take(0);
	MR(mrapi_mutex_unlock(m, &key, &status));
	for (unsigned turn = 1; turn < 3; turn++) {
		give(turn);
		take(turn);
	}
}

static void other(void)
{
	mrapi_mutex_hndl_t m;
	mrapi_boolean_t got;
	mrapi_key_t key;

	take(0);
	MR(m = mrapi_mutex_get(ID, &status));
	MR(got = mrapi_mutex_trylock(m, &key, &status));
	check(!got);
	give(0);
	take(1);
	MR(mrapi_mutex_lock(m, &key, MRAPI_INFINITE, &status));
	MR(mrapi_mutex_unlock(m, &key, &status));
	give(1);
	/* All have had it. */
	take(2);
	give(2);
}

int main(int argc, char **argv)
{
	char host[256] = "";

	n = (unsigned)argc - 1;
	rank = (unsigned)atoi(getenv("PMIX_RANK"));
	check(rank < n);
	check(gethostname(host, sizeof(host) - 1) == 0 && strcmp(host, argv[1 + rank]) == 0);
	begin();
	if (rank)
		other();
	else
		first();
	MC(mcapi_finalize(&status));
	MR(mrapi_finalize(&status));
	return 0;
}
