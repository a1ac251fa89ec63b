/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Probes for perf, bpftrace and gdb (USDT): one nop in the code, and a note in the file that says
 * where the arguments are. Without <sys/sdt.h> (systemtap-sdt-dev) there are none.
 */
#ifndef TW_PROBE_H
#define TW_PROBE_H

#include "config.h"

#if TW_HAVE_SDT
#include <sys/sdt.h>

#define TW_PROBE(name, peer, match, len, object)                                                   \
	STAP_PROBE4(tagwire, name, peer, match, len, object)
#else
#define TW_PROBE(name, peer, match, len, object)                                                   \
	((void)(peer), (void)(match), (void)(len), (void)(object))
#endif

#endif /* TW_PROBE_H */
