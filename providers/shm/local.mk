# SPDX-License-Identifier: BSD-2-Clause
if ENABLE_SHM
libtagwire_internal_la_SOURCES += $(%C%_FILES)
endif
