# SPDX-License-Identifier: BSD-2-Clause
# tests/checks/install compiles these.
EXTRA_DIST += $(%C%_FILES)
