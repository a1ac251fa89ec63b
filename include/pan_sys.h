/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Panda: start and end, platforms, memory of messages, polling: the
 * surroundings of the message passing module (pan_mp.h). panda(7) is the overview; each
 * function has a page in section 3 of the manual. All of it is thread safe.
 */
#ifndef PAN_SYS_H
#define PAN_SYS_H

#include <stddef.h>

#include "tagwire.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Joins the job: the launcher's, that of the environment, or one of this process
 * alone (tagwire-launch(7)). Takes its own arguments out of the command line:
 * --panda-rank R/N. Both pointers may be NULL.
 */
void pan_init(int *argc, char **argv);
/* With a launcher: waits until all platforms have called it. */
void pan_start(void);
/* Leaves the job. */
void pan_end(void);

/* The number of this process, 0 to pan_nr_platforms() - 1; -1 outside of a job. */
int pan_my_pid(void);
/* How many processes there are; 0 outside of a job. */
int pan_nr_platforms(void);

/* Receives packets that have arrived and makes the upcalls that are due. */
void pan_poll(void);

/* Memory of messages, received ones too. */
void *pan_malloc(size_t size);
void *pan_realloc(void *ptr, size_t size);
void pan_free(void *ptr);

#ifdef __cplusplus
}
#endif

#endif /* PAN_SYS_H */
