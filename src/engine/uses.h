/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the interfaces and networks that are built ask of the engine. Where one is 0
 * the compiler leaves out what only that needs.
 */
#ifndef TW_USES_H
#define TW_USES_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#define TW_USES_NET TW_HAVE_NET	   /* keys of memory, far peers, addresses */
#define TW_USES_HANDLER TW_HAVE_MX /* a handler of the user's looks at what arrives */
#define TW_USES_SYNC TW_HAVE_MX	   /* sends that end when they are matched */
#define TW_USES_PIECES (TW_HAVE_MX || TW_USES_NET) /* requests of several pieces of memory */
#define TW_USES_TELL TW_HAVE_PANDA /* takers that tell each other, and hold messages */
#define TW_USES_NAMES (TW_HAVE_MX || TW_USES_NET) /* the peers file */

#endif /* TW_USES_H */
