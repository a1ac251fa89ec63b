# SPDX-License-Identifier: BSD-2-Clause
# tests/checks/litmus compiles these.
EXTRA_DIST += $(%C%_FILES)
