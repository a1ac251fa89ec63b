# SPDX-License-Identifier: BSD-2-Clause
# Against the shared library, which must be seen in the process's map.
tests_net_net_unloaded_LDADD = $(SUITE_LIBS)
tests_net_net_unloaded_LDFLAGS = $(RUN_IN_PLACE)
