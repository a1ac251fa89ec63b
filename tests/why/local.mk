# SPDX-License-Identifier: BSD-2-Clause
# Programs that hang; mx_why explains them.
tests_why_why_fi_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
tests_why_why_fi_LDADD = tests/lib/libtwt.la $(LIBFABRIC_LIBS) -lpthread
tests_why_why_fi_LDFLAGS = $(RUN_IN_PLACE)
