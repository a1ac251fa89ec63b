/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/jobkey.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint8_t known[TW_JOBKEY];
static bool have;

void tw_jobkey_set(const uint8_t key[TW_JOBKEY])
{
	pthread_mutex_lock(&mutex);
	memcpy(known, key, TW_JOBKEY);
	have = true;
	pthread_mutex_unlock(&mutex);
}

bool tw_jobkey_get(uint8_t key[TW_JOBKEY])
{
	bool good;

	pthread_mutex_lock(&mutex);
	good = have;
	memcpy(key, known, TW_JOBKEY);
	pthread_mutex_unlock(&mutex);
	return good;
}

void tw_jobkey_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
}
