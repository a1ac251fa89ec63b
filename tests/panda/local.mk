# SPDX-License-Identifier: BSD-2-Clause
if ENABLE_CRITERION
if ENABLE_PANDA
check_PROGRAMS += %D%/panda_suite
endif
endif
# With the internals: it reads counters.
tests_panda_panda_suite_SOURCES = $(%C%_FILES)
