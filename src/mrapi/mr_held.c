/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The words that a thread has locked with mrapi_atomic_lock(): only it may release
 * them (MRAPI 4.8.18), and the word itself is too small to name a holder.
 */
#include <stdlib.h>

#include "mrapi/mr.h"

static _Thread_local struct held {
	const void **word;
	size_t n, room;
} held;

static pthread_key_t thread_end;
static bool have_key;

static void forget_all(void *unused)
{
	(void)unused;
	free(held.word);
	memset(&held, 0, sizeof(held));
}

static void prepare(void)
{
	have_key = pthread_key_create(&thread_end, forget_all) == 0;
}

bool tw_mr_held_room(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	size_t room = held.room ? 2 * held.room : 16;
	const void **word;

	if (held.n < held.room)
		return true;
	pthread_once(&once, prepare);
	if (!have_key || pthread_setspecific(thread_end, &held) != 0)
		return false;
	word = realloc(held.word, room * sizeof(*word));
	if (!word)
		return false;
	held.word = word;
	held.room = room;
	return true;
}

/* The last one first: locks nest. */
static size_t find(const void *word)
{
	size_t i = held.n;

	while (i > 0 && held.word[i - 1] != word)
		i--;
	return i;
}

bool tw_mr_held(const void *word)
{
	return find(word) > 0;
}

void tw_mr_held_add(const void *word)
{
	/* It may be there: somebody else may have set the word to 0. */
	if (!tw_mr_held(word))
		held.word[held.n++] = word;
}

void tw_mr_held_del(const void *word)
{
	size_t i = find(word);

	if (i > 0)
		held.word[i - 1] = held.word[--held.n];
}

void tw_mr_held_forked(void)
{
	forget_all(NULL);
}
