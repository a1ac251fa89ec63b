/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 6.3, use case 2: node 2 has little memory and asks node 1 for more,
 * piece by piece; node 1 makes each piece remotely accessible and sends its id.
 */
#include <stdlib.h>

#include "examples/mrapi_common.h"
#include "lib/twt.h"

#define QUIT 0
#define MORE_MEMORY_PLEASE 1
#define AGREED_ACCESS_TYPE MRAPI_RMEM_ATYPE_DEFAULT
#define MAX 16

static void tell(int fd, int message)
{
	if (twt_put(fd, &message, sizeof(message)) < 0)
		exit(1);
}

/* Spills a pattern to each piece and fetches all of them back. */
static int node2(void *arg, int fd)
{
	static char local[10000 + 1000 * MAX];
	mrapi_rmem_hndl_t handles[MAX];

	(void)arg;
	become(2);
	for (int i = 0; i < MAX; i++) {
		mrapi_uint32_t bytes = 10000 + 1000 * (mrapi_uint32_t)i;
		mrapi_rmem_id_t id;

		tell(fd, MORE_MEMORY_PLEASE);
		tell(fd, (int)bytes);
		if (twt_get(fd, &id, sizeof(id)) < 0)
			return 1;
		handles[i] = mrapi_rmem_get(id, AGREED_ACCESS_TYPE, &status);
		CHECK;
		mrapi_rmem_attach(handles[i], AGREED_ACCESS_TYPE, &status);
		CHECK;
		twt_fill(local, bytes, (uint64_t)i);
		mrapi_rmem_write(handles[i], 0, local, 0, bytes, 1, 0, 0, &status);
		CHECK;
	}
	for (int i = 0; i < MAX; i++) {
		mrapi_uint32_t bytes = 10000 + 1000 * (mrapi_uint32_t)i;

		mrapi_rmem_read(handles[i], 0, local, sizeof(local), 0, bytes, 1, 0, 0, &status);
		CHECK;
		if (twt_check(local, bytes, (uint64_t)i) != bytes)
			return 1;
		mrapi_rmem_detach(handles[i], &status);
		CHECK;
	}
	tell(fd, QUIT);
	return 0;
}

int main(void)
{
	struct {
		char *pointer;
		mrapi_rmem_hndl_t handle;
	} buffers[MAX];
	struct twt_child child;
	int message, bytes, next = 0;

	twt_spawn(&child, node2, NULL);
	become(1);
	while (twt_get(child.fd, &message, sizeof(message)) == 0 && message != QUIT) {
		mrapi_rmem_id_t id;

		if (message != MORE_MEMORY_PLEASE || next == MAX ||
		    twt_get(child.fd, &bytes, sizeof(bytes)) < 0)
			return 1;
		buffers[next].pointer = malloc((size_t)bytes);
		buffers[next].handle = mrapi_rmem_create(MRAPI_RMEM_ID_ANY, buffers[next].pointer,
							 AGREED_ACCESS_TYPE, NULL,
							 (mrapi_uint_t)bytes, &status);
		CHECK;
		mrapi_rmem_get_attribute(buffers[next].handle, MRAPI_OBJECT_ID, &id, sizeof(id),
					 &status);
		CHECK;
		tell(child.fd, (int)id);
		next++;
	}
	for (int i = 0; i < next; i++) {
		mrapi_rmem_delete(buffers[i].handle, &status);
		CHECK;
		free(buffers[i].pointer);
	}
	if (twt_join(&child, TWT_LONG) != 0 || next != MAX)
		return 1;
	mrapi_finalize(&status);
	CHECK;
	return 0;
}
