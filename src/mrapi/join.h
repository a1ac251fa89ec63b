/* SPDX-License-Identifier: BSD-2-Clause */
/* How a process becomes a member: names, the segment behind them, a slot in it. */
#ifndef TW_MRAPI_JOIN_H
#define TW_MRAPI_JOIN_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#define TW_MRAPI_ANSWER_MS 5000 /* a member that was asked answers within */

/* ---- names.c: results are 0 or an error */
/* Another user has the name, so that nobody of the job has. */
#define TW_MRAPI_FOREIGN EADDRNOTAVAIL
/* Whether an error says that nobody of the job has the name. */
bool tw_mrapi_nobody(int err);
/* Whether it comes of somebody who dies, leaves or is slow; others are not over soon. */
bool tw_mrapi_passing(int err);
/* A listening socket of that name; -1 with errno. */
int tw_mrapi_listen(const char *suffix, uint32_t number);
/* Connects the socket, or a new one for -1. On an error it is closed, or can be used again. */
int tw_mrapi_dial(int *fd, const char *suffix, uint32_t number);
/* The same with a new one, which is closed on an error. */
int tw_mrapi_dial_once(int *fd, const char *suffix, uint32_t number);

/* ---- segment.c */
/* Maps the segment of the job, from whichever member answers, or a new one: 0 or an error. */
int tw_mrapi_find_segment(void);

#endif /* TW_MRAPI_JOIN_H */
