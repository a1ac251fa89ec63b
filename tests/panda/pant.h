/* SPDX-License-Identifier: BSD-2-Clause */
/* What the Panda tests share: platforms in processes, counters, upcalls that take notes. */
#ifndef TESTS_PANDA_PANT_H
#define TESTS_PANDA_PANT_H

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/twc.h"
#include "panda/panda_internal.h"

#define PANT_TIMEOUT TWT_TIMEOUT
#define PANT_MAX 8

/* The fixture: a job of its own, few messages on standard error. */
void pant_job(void);

/* This process as platform pid of n. */
void pant_begin(int pid, int n);
void pant_end(void);

/*
 * Starts n - 1 processes that are platforms 1 to n - 1 and run fn(pid, fd); this
 * one is platform 0. With TWT_NETNS they are on the other host.
 */
void pant_platforms(struct twt_child children[PANT_MAX], int n, int (*fn)(int pid, int fd));
/* All of them end well. */
void pant_join(struct twt_child children[PANT_MAX], int n);

/* Of this process's endpoint. */
uint64_t pant_counter(enum tw_counter which);
/* Waits until *what is at least so much; fails after a long time. */
void pant_until(atomic_int *what, int least);

/* Sends and waits, in the way of the kind. */
void pant_send(int pid, int port, const void *data, int len, pan_mp_ack_t ack);
/* Receives on a port what must be this one byte. */
void pant_receive_byte(int port, char byte);
/* Bytes of this process's heap in use; 0 with a sanitizer, which looks by itself. */
size_t pant_heap(void);
/* Receives on a port what must be a pattern of that seed and length. */
void pant_receive(int port, uint64_t seed, int len);

#endif /* TESTS_PANDA_PANT_H */
