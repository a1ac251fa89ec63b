# SPDX-License-Identifier: BSD-2-Clause
tests_launch_launched_LDADD = $(SUITE_LIBS)

# What it defines is there for modules, too.
tests_launch_own_words_LDADD = libtagwire.la
tests_launch_own_words_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
