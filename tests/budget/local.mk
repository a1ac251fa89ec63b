# SPDX-License-Identifier: BSD-2-Clause
# What users' programs run.
tests_budget_budget_LDADD = $(SUITE_LIBS)
tests_budget_budget_LDFLAGS = $(RUN_IN_PLACE)
tests_budget_budget_fi_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
tests_budget_budget_fi_LDADD = $(LIBFABRIC_LIBS)
