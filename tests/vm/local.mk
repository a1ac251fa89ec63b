# SPDX-License-Identifier: BSD-2-Clause
# Runs on the test machine what is in tests/vm/t.
if ENABLE_CRITERION
if ENABLE_MX
CHECKS_TO_RUN += %D%/suite
endif
endif
