# SPDX-License-Identifier: BSD-2-Clause
# Every provider runs the same suite, and once more behind one that injects faults.
if ENABLE_CRITERION
check_PROGRAMS += %D%/test_conformance %D%/test_conformance_faulty
endif
tests_provider_test_conformance_SOURCES = $(%C%_conformance_FILES)
tests_provider_test_conformance_faulty_SOURCES = $(%C%_conformance_FILES) %D%/pair.c tests/fault/faulty.c
# A test that fills a ring wants to know when it is full.
tests_provider_test_conformance_faulty_CPPFLAGS = $(AM_CPPFLAGS) -DFAULTY_AGAIN=0 -DTWT_FAULTY
