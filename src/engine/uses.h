/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of the engine that this build needs. Where one is 0 the compiler leaves out the
 * code that only it needs.
 */
#ifndef TW_USES_H
#define TW_USES_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#define TW_USES_NET TW_HAVE_NET			   /* memory keys, remote peers, addresses */
#define TW_USES_HANDLER TW_HAVE_MX		   /* the user's handler of unexpected messages */
#define TW_USES_SYNC TW_HAVE_MX			   /* sends that end when they are matched */
#define TW_USES_PIECES (TW_HAVE_MX || TW_USES_NET) /* requests with several segments */
#define TW_USES_WINDOWS (TW_HAVE_MX || TW_USES_NET) /* one-sided access */

#endif /* TW_USES_H */
