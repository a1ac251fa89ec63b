/* SPDX-License-Identifier: BSD-2-Clause */
/* Completed requests become events. */
#ifndef TW_FI_DRAIN_H
#define TW_FI_DRAIN_H

#include "fi/fi.h"

/* Makes progress, and events of what has ended. */
void tw_fi_progress(struct tw_fi_ep *e);
/*
 * The same for a program that reads a queue, of which this is the only endpoint. True: the first
 * event, a message from that source, is here instead of in the queue. event, from: or NULL.
 */
bool tw_fi_read(struct tw_fi_ep *e, const struct tw_fi_cq *cq, struct fi_cq_tagged_entry *event,
		fi_addr_t *from);
/* Makes events of what has ended; the endpoint is entered. */
void tw_fi_drain(struct tw_fi_ep *e, struct tw_ep *ep);
void tw_fi_background(struct tw_ep *ep);
int tw_fi_error_of(enum tw_status status);

#endif /* TW_FI_DRAIN_H */
