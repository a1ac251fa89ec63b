# SPDX-License-Identifier: BSD-2-Clause
# The suite, and once more over a provider whose packets meet faults: tests/fault/faulty.c.
if ENABLE_CRITERION
if ENABLE_FI
check_PROGRAMS += %D%/fi_suite %D%/fi_suite_faulty
check_LTLIBRARIES += %D%/libtagwire-fi.la
endif
endif
tests_fi_fi_suite_SOURCES = $(%C%_FILES)
tests_fi_fi_suite_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
tests_fi_fi_suite_LDADD = tests/lib/libtwt.la $(LIBFABRIC_LIBS) $(CRITERION_LIBS) -lpthread
tests_fi_fi_suite_LDFLAGS = $(RUN_IN_PLACE)

tests_fi_fi_suite_faulty_SOURCES = $(%C%_FILES)
tests_fi_fi_suite_faulty_CPPFLAGS = $(AM_CPPFLAGS) -DFIT_PROVIDER='"$(abs_builddir)/%D%/.libs"'
tests_fi_fi_suite_faulty_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
tests_fi_fi_suite_faulty_LDADD = $(tests_fi_fi_suite_LDADD)
tests_fi_fi_suite_faulty_LDFLAGS = $(RUN_IN_PLACE)
EXTRA_tests_fi_fi_suite_faulty_DEPENDENCIES = %D%/libtagwire-fi.la

# Not installed. It has another registry in front of the engine's.
tests_fi_libtagwire_fi_la_SOURCES = $(src_fi_FILES) tests/fault/faulty.c tests/fault/faulty.h \
	tests/lib/twt.c
tests_fi_libtagwire_fi_la_CFLAGS = $(libtagwire_fi_la_CFLAGS)
tests_fi_libtagwire_fi_la_LIBADD = $(libtagwire_fi_la_LIBADD)
tests_fi_libtagwire_fi_la_LDFLAGS = $(libtagwire_fi_la_LDFLAGS) -rpath /nowhere -Wl,-z,muldefs
