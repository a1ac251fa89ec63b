/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI: two nodes add to a counter in shared memory, under a mutex. Each adds one and waits
 * until the other has done so.
 *	cc counter.c -o counter $(pkg-config --cflags --libs mrapi)
 *	./counter 1 & ./counter 0
 * Both run on one host: shared memory is of a host, also where TAGWIRE_NODES names several.
 */
#include <mrapi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { DOMAIN = 0, MUTEX = 7, MEMORY = 8, NODES = 2 };

/* Adds to the counter, and returns what it is then. */
static long add(mrapi_mutex_hndl_t mutex, long *counter, long n)
{
	mrapi_status_t status;
	mrapi_key_t key;
	long sum;

	mrapi_mutex_lock(mutex, &key, MRAPI_INFINITE, &status);
	sum = *counter += n;
	mrapi_mutex_unlock(mutex, &key, &status);
	return sum;
}

int main(int argc, char **argv)
{
	mrapi_node_t node = argc > 1 ? (mrapi_node_t)atoi(argv[1]) : 0;
	mrapi_parameters_t parameters = 0;
	mrapi_shmem_hndl_t memory;
	mrapi_mutex_hndl_t mutex;
	mrapi_status_t status;
	mrapi_info_t info;
	long *counter;

	mrapi_initialize(DOMAIN, node, &parameters, &info, &status);
	if (status != MRAPI_SUCCESS)
		return 1; /* standard error says why */
	/* The node that comes second finds what the first has made. */
	mutex = mrapi_mutex_create(MUTEX, NULL, &status);
	if (status == MRAPI_EXISTS)
		mutex = mrapi_mutex_get(MUTEX, &status);
	memory = mrapi_shmem_create(MEMORY, sizeof(*counter), NULL, 0, NULL, &status);
	if (status == MRAPI_EXISTS)
		memory = mrapi_shmem_get(MEMORY, &status);
	counter = mrapi_shmem_attach(memory, &status);
	if (!counter) {
		char text[MRAPI_MAX_STATUS_SIZE];

		fprintf(stderr, "%s\n", mrapi_display_status(status, text, sizeof(text)));
		return 1;
	}
	add(mutex, counter, 1);
	while (add(mutex, counter, 0) < NODES)
		sched_yield();
	printf("node %u: the counter is %ld\n", node, *counter);
	mrapi_finalize(&status);
	return 0;
}
