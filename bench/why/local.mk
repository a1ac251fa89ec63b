# SPDX-License-Identifier: BSD-2-Clause
# What mx_why consists of beside its main file.
if ENABLE_MX
bench_mx_why_SOURCES = bench/mx_why.c $(bench_why_FILES)
endif
EXTRA_DIST += $(bench_why_FILES)
