# SPDX-License-Identifier: BSD-2-Clause
if ENABLE_CRITERION
if ENABLE_FI
check_PROGRAMS += %D%/fi_suite
endif
endif
tests_fi_fi_suite_SOURCES = $(%C%_FILES)
tests_fi_fi_suite_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
tests_fi_fi_suite_LDADD = tests/lib/libtwt.la $(LIBFABRIC_LIBS) $(CRITERION_LIBS) -lpthread
tests_fi_fi_suite_LDFLAGS = $(RUN_IN_PLACE)
