/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An MRAPI node is killed and begins again as another process, many times, while another node
 * uses its remote memory and waits for locks that it holds. Both are on this host; tests/net/again
 * puts them on two.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/twr.h"
#include "lib/twt.h"

#define SOON_MS (10000 * (int)twt_patience()) /* a hang, not a delay */
#define SIZE 300000u

enum { ID = 5, SURVIVOR = 0, VICTIM = 4, LIVES = 30 };

static struct twt_child victim;
static double noticed[30];

static int live(void *arg, int fd)
{
	uint32_t number = (uint32_t)(uintptr_t)arg;
	static uint32_t memory[SIZE / 4];
	mrapi_mutex_hndl_t mutex;
	mrapi_sem_hndl_t sem;
	mrapi_key_t key;

	twr_who = "life";
	twr_number = number;
	twr_node(VICTIM);
	OK(mutex = mrapi_mutex_get(ID, &st));
	OK(sem = mrapi_sem_get(ID, &st));
	OK(mrapi_mutex_lock(mutex, &key, SOON_MS, &st));
	OK(mrapi_sem_lock(sem, SOON_MS, &st));
	for (unsigned i = 0; i < SIZE / 4; i++)
		memory[i] = number;
	OK(mrapi_rmem_create(ID, memory, MRAPI_RMEM_DEFAULT, NULL, SIZE, &st));
	HOLDS(twt_put(fd, "r", 1) == 0);
	pause();
	return 1;
}

static void begin(uint32_t number)
{
	char word;

	twt_spawn(&victim, live, (void *)(uintptr_t)number);
	HOLDS(twt_get(victim.fd, &word, 1) == 0);
}

/* Reads until it dies: whatever was read is whole. */
static void read_until_it_dies(mrapi_rmem_hndl_t rmem, uint32_t number)
{
	static uint32_t in[SIZE / 4];
	mrapi_status_t st;
	double killed = 0;

	for (unsigned n = 0;; n++) {
		if (n == 3 + number % 7) {
			kill(victim.pid, SIGKILL);
			killed = twt_now();
		}
		mrapi_rmem_read(rmem, 0, in, SIZE, 0, SIZE, 1, 0, 0, &st);
		if (st != MRAPI_SUCCESS)
			break;
		HOLDS(in[0] == number && memcmp(in, in + 1, SIZE - 4) == 0);
		HOLDS(!killed || twt_now() - killed < SOON_MS / 1000);
	}
	if (st != MRAPI_ERR_RMEM_INVALID)
		FAIL("reading memory of a dead node", st);
	noticed[number] = twt_now() - killed;
}

static void one_life(mrapi_mutex_hndl_t mutex, mrapi_sem_hndl_t sem, uint32_t number)
{
	mrapi_rmem_hndl_t rmem;
	mrapi_key_t key;

	begin(number);
	OK(rmem = mrapi_rmem_get(ID, MRAPI_RMEM_DEFAULT, &st));
	OK(mrapi_rmem_attach(rmem, &st));
	read_until_it_dies(rmem, number);
	OK(mrapi_mutex_lock(mutex, &key, SOON_MS, &st));
	OK(mrapi_mutex_unlock(mutex, &key, &st));
	OK(mrapi_sem_lock(sem, SOON_MS, &st));
	OK(mrapi_sem_unlock(sem, &st));
	HOLDS(twt_join(&victim, TWT_LONG) == 1000 + SIGKILL);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	mrapi_mutex_hndl_t mutex;
	mrapi_sem_hndl_t sem;

	twr_node(SURVIVOR);
	OK(mutex = mrapi_mutex_create(ID, NULL, &st));
	OK(sem = mrapi_sem_create(ID, NULL, 1, &st));
	for (uint32_t i = 0; i < LIVES; i++)
		one_life(mutex, sem, i);
	qsort(noticed, LIVES, sizeof(*noticed), by_value);
	printf("%d lives; the death is noticed after %.1f ms (median), at most %.1f\n", LIVES,
	       1e3 * noticed[LIVES / 2], 1e3 * noticed[LIVES - 1]);
	OK(mrapi_finalize(&st));
	return 0;
}
