# SPDX-License-Identifier: BSD-2-Clause
if ENABLE_CRITERION
if ENABLE_MCAPI
check_PROGRAMS += %D%/mcapi_suite %D%/basic_suite
endif
endif
tests_mcapi_mcapi_suite_SOURCES = $(%C%_FILES)
tests_mcapi_mcapi_suite_LDADD = $(SUITE_LIBS)
tests_mcapi_mcapi_suite_LDFLAGS = $(RUN_IN_PLACE)

# The library's own, beside the suite that is written from the specification.
tests_mcapi_basic_suite_SOURCES = $(%C%_basic_FILES)
tests_mcapi_basic_suite_LDADD = $(SUITE_LIBS)
tests_mcapi_basic_suite_LDFLAGS = $(RUN_IN_PLACE)
