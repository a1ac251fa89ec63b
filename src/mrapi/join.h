/* SPDX-License-Identifier: BSD-2-Clause */
/* How a process becomes a member: names, the segment, a slot in it. */
#ifndef TW_MRAPI_JOIN_H
#define TW_MRAPI_JOIN_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#define TW_MRAPI_REPLY_MS 5000 /* time limit of a member's reply */

/* ---- names.c: results are 0 or an error */
/* Whether the error means that no member of the job has the name. */
bool tw_mrapi_nobody(int err);
/* Whether the error passes: the member is dying, leaving or slow. */
bool tw_mrapi_passing(int err);
/* A listening socket of that name; -1 with errno. */
int tw_mrapi_listen(const char *suffix, uint32_t number);
/* Connects the socket, or a new one for -1. After an error it is closed, or usable again. */
int tw_mrapi_dial(int *fd, const char *suffix, uint32_t number);
/* The same with a new socket, which is closed on an error. */
int tw_mrapi_dial_once(int *fd, const char *suffix, uint32_t number);

/* ---- segment.c */
/* Maps the job's segment, from any member that replies, or makes one: 0 or an error. */
int tw_mrapi_find_segment(void);

#endif /* TW_MRAPI_JOIN_H */
