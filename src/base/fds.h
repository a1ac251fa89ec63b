/* SPDX-License-Identifier: BSD-2-Clause */
/* The descriptors we hold, so that a forked child can close them. */
#ifndef TW_FDS_H
#define TW_FDS_H

/* Passes the descriptor through; -1 and numbers too large are left alone. */
int tw_fd_own(int fd);
void tw_fd_close(int fd);
/* Closes all of them; only what a signal handler may do. */
void tw_fds_forked(void);

#endif /* TW_FDS_H */
