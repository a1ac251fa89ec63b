/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The types that the Multicore Association's interfaces share (MRAPI 3.12):
 * mrapi.h and mcapi.h give them names of their own.
 */
#ifndef MCA_H
#define MCA_H

#include <stddef.h>
#include <stdint.h>

#include "tagwire.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int mca_int_t;
typedef int8_t mca_int8_t;
typedef int16_t mca_int16_t;
typedef int32_t mca_int32_t;
typedef int64_t mca_int64_t;
typedef unsigned int mca_uint_t;
typedef uint8_t mca_uint8_t;
typedef uint16_t mca_uint16_t;
typedef uint32_t mca_uint32_t;
typedef uint64_t mca_uint64_t;
typedef size_t mca_size_t;
typedef unsigned char mca_boolean_t;

typedef mca_uint_t mca_domain_t;
typedef mca_uint_t mca_node_t;
typedef mca_int_t mca_status_t;
typedef mca_uint_t mca_timeout_t;   /* milliseconds */
typedef mca_uint64_t mca_request_t; /* a non-blocking operation */

#define MCA_FALSE 0
#define MCA_TRUE 1
#define MCA_NULL 0
#define MCA_INFINITE (~0U)

#ifdef __cplusplus
}
#endif

#endif /* MCA_H */
