# SPDX-License-Identifier: BSD-2-Clause
if ENABLE_CRITERION
if ENABLE_MX
check_PROGRAMS += %D%/mx_suite
endif
endif
tests_mx_mx_suite_SOURCES = $(%C%_FILES)
tests_mx_mx_suite_LDADD = $(SUITE_LIBS)
tests_mx_mx_suite_LDFLAGS = $(RUN_IN_PLACE)
