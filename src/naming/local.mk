# SPDX-License-Identifier: BSD-2-Clause
libtagwire_internal_la_SOURCES += $(%C%_FILES)
