/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of messages. A received one lies behind the engine's struct tw_unexp_msg; so does
 * memory of pan_malloc(), and pan_free() frees both.
 */
#include <stdlib.h>

#include "panda/panda_internal.h"

static void *resize(struct tw_unexp_msg *u, size_t size)
{
	if (size > SIZE_MAX - sizeof(*u))
		return NULL;
	u = realloc(u, sizeof(*u) + size);
	return u ? u->data : NULL;
}

void *pan_malloc(size_t size)
{
	return resize(NULL, size);
}

void *pan_realloc(void *ptr, size_t size)
{
	return resize(ptr ? tw_container(ptr, struct tw_unexp_msg, data) : NULL, size);
}

void pan_free(void *ptr)
{
	if (ptr)
		free(tw_container(ptr, struct tw_unexp_msg, data));
}
