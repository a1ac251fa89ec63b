# SPDX-License-Identifier: BSD-2-Clause
if ENABLE_CRITERION
if ENABLE_MRAPI
check_PROGRAMS += %D%/mrapi_suite %D%/basic_suite
endif
endif
tests_mrapi_mrapi_suite_SOURCES = $(%C%_FILES)
tests_mrapi_mrapi_suite_LDADD = $(SUITE_LIBS)
tests_mrapi_mrapi_suite_LDFLAGS = $(RUN_IN_PLACE)

# The library's own, beside the suite that is written from the specification.
tests_mrapi_basic_suite_SOURCES = $(%C%_basic_FILES)
tests_mrapi_basic_suite_LDADD = $(SUITE_LIBS)
tests_mrapi_basic_suite_LDFLAGS = $(RUN_IN_PLACE)
