/* SPDX-License-Identifier: BSD-2-Clause */
/* The library's descriptors, recorded so that a forked child can close them. */
#ifndef TW_FDS_H
#define TW_FDS_H

#include <stdbool.h>

/*
 * Records a descriptor and returns it. Ignores numbers that are too large. For -1 it says if errno
 * is that no descriptor is left. errno stays.
 */
int tw_fd_own(int fd);
/* False: the program has closed it, and the number is free or of another file now. */
bool tw_fd_ours(int fd);
void tw_fd_close(int fd);
/* Closes all of them. Async-signal-safe. */
void tw_fds_forked(void);

#endif /* TW_FDS_H */
