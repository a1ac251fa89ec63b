# SPDX-License-Identifier: BSD-2-Clause
tests_fuzz_fuzz_tcp_SOURCES += $(providers_net_tcp_FILES)
EXTRA_DIST += %D%/corpus
