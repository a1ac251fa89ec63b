# SPDX-License-Identifier: BSD-2-Clause
# What test programs share. Flags of its own, so that some programs have a file of it as
# an object of theirs.
check_LTLIBRARIES += tests/lib/libtwt.la
tests_lib_libtwt_la_SOURCES = $(TEST_LIB)
tests_lib_libtwt_la_SHORTNAME = twt
tests_lib_libtwt_la_CFLAGS = $(AM_CFLAGS)
EXTRA_tests_lib_libtwt_la_DEPENDENCIES = $(srcdir)/files.am
