/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Words that a thread has locked with mrapi_atomic_lock(): only that thread may release
 * them (MRAPI 4.8.18), and a word is too small to name its owner.
 */
#include <stdlib.h>

#include "mrapi/mrapi_internal.h"

static _Thread_local struct owned {
	const void **word;
	size_t n, room;
} owned;

bool tw_mrapi_owned_reserve(void)
{
	size_t room = owned.room ? 2 * owned.room : 16;
	const void **word;

	if (owned.n < owned.room)
		return true;
	if (!tw_mrapi_thread_ends())
		return false;
	word = realloc(owned.word, room * sizeof(*word));
	if (!word)
		return false;
	owned.word = word;
	owned.room = room;
	return true;
}

/* The last one first: locks nest. */
static size_t find(const void *word)
{
	size_t i = owned.n;

	while (i > 0 && owned.word[i - 1] != word)
		i--;
	return i;
}

bool tw_mrapi_owned(const void *word)
{
	return find(word) > 0;
}

void tw_mrapi_owned_add(const void *word)
{
	/* It may be listed already, if another thread has set the word to 0. */
	if (!tw_mrapi_owned(word))
		owned.word[owned.n++] = word;
}

void tw_mrapi_owned_del(const void *word)
{
	size_t i = find(word);

	if (i > 0)
		owned.word[i - 1] = owned.word[--owned.n];
}

void tw_mrapi_owned_end(void)
{
	free(owned.word);
	memset(&owned, 0, sizeof(owned));
}
