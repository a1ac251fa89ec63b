/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order model: what one receiver saw, against every order in which the
 * messages can have arrived.
 *
 * Messages of one sender arrive in order; those of several senders interleave
 * as they like. The earliest posted receive that matches takes a message, and
 * a receive takes the earliest message that matches. So a receive R that was
 * posted before the one that took message M, and that M matches too, must have
 * been taken before M arrived, or cancelled before. Such facts, together with
 * the order of the receiver's own calls, must not form a circle; if they do
 * not, some order of arrival explains everything that was seen.
 */
#ifndef ORDER_H
#define ORDER_H

#include <stdint.h>

struct order;

struct order *order_new(void);
void order_free(struct order *o);
/* Forgets everything. */
void order_reset(struct order *o);

/* The next message of this sender; returns its number, counted from 0. */
int order_message(struct order *o, int sender, uint64_t match);
/* Calls of the receiver, in the order made. post returns the receive's number. */
int order_post(struct order *o, uint64_t key, uint64_t mask);
void order_cancelled(struct order *o, int recv);
/* The receive was seen to be taken: it could not be cancelled. */
void order_taken(struct order *o, int recv);
/* The receive was seen complete with this message. */
void order_done(struct order *o, int recv, int msg);
/* A probe found this message, or none (-1). */
void order_probe(struct order *o, uint64_t key, uint64_t mask, int msg);

/* How many calls so far. */
int order_calls(const struct order *o);
/* Which receive took the message; -1 when none yet. */
int order_taker(const struct order *o, int msg);
/*
 * Once every message is received and every receive done or cancelled: NULL, or
 * what cannot be explained.
 */
const char *order_check(struct order *o);

#endif /* ORDER_H */
