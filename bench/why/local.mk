# SPDX-License-Identifier: BSD-2-Clause
# What mx_why, and mx_endpoint_info, consist of beside their main files.
if ENABLE_MX
bench_mx_endpoint_info_SOURCES = bench/mx_endpoint_info.c $(bench_why_FILES)
bench_mx_why_SOURCES = bench/mx_why.c $(bench_why_FILES)
endif
EXTRA_DIST += $(bench_why_FILES)
