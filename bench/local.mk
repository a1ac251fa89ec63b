# SPDX-License-Identifier: BSD-2-Clause
# What the tools share; the counter labels and the table of settings are the library's own.
noinst_LTLIBRARIES += bench/libbench.la
bench_libbench_la_SOURCES = $(BENCH_LIB) src/base/counters.c src/base/settings.c
# Flags of its own, so that a file of the library gets a second object here.
bench_libbench_la_SHORTNAME = bench
bench_libbench_la_CFLAGS = $(AM_CFLAGS)
TOOL_LIBS = bench/libbench.la libtagwire.la -lpthread -lm
