/* SPDX-License-Identifier: BSD-2-Clause */
/* A network of the worst kind, to try the session layer on. */
#ifndef LOSSY_H
#define LOSSY_H

#include "providers/net/session.h"

#define LOSSY_LOSES 100	  /* one packet in so many */
#define LOSSY_BREAKS 5000 /* one send in so many breaks its path */

extern const struct tw_driver lossy;

#endif /* LOSSY_H */
