/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The differences between releases of libfabric. The same shared object runs on 1.17 and on 2.x,
 * whichever it was built against: the functions that 2.x has in a newer version are bound to the
 * oldest one of both, whose structures are what 1.17 has. So nothing assigns a whole
 * struct fi_domain_attr, which 2.x has made longer.
 */
#ifndef TW_LIBFABRIC_H
#define TW_LIBFABRIC_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

__asm__(".symver fi_getinfo, fi_getinfo@FABRIC_1.3");
__asm__(".symver fi_dupinfo, fi_dupinfo@FABRIC_1.3");
__asm__(".symver fi_freeinfo, fi_freeinfo@FABRIC_1.3");

/* 2.x has no names for these, or deprecates them. Clients still ask for them. */
#define TW_LIBFABRIC_PROV_SPECIFIC (1u << 31) /* FI_PROV_SPECIFIC: a provider's own value */
#define TW_LIBFABRIC_MR_BASIC (1 << 0)	   /* FI_MR_BASIC */
#define TW_LIBFABRIC_MR_SCALABLE (1 << 1)	   /* FI_MR_SCALABLE */
#define TW_LIBFABRIC_REG_MR (1ull << 59)	   /* FI_REG_MR, of a domain's event queue */
#define TW_LIBFABRIC_UNIFIED 3			   /* FI_PROGRESS_CONTROL_UNIFIED, of 2.x */
/* New in 2.0, where 1.x had other bits: FI_TAGGED_DIRECTED_RECV and FI_EXACT_DIRECTED_RECV. */
#define TW_LIBFABRIC_DIRECTED_2 (1ull << 45 | 1ull << 48)

#endif
