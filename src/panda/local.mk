# SPDX-License-Identifier: BSD-2-Clause
# `-lpanda' and `pkg-config panda' are names for this library.
if ENABLE_PANDA
libtagwire_internal_la_SOURCES += $(%C%_FILES)
include_HEADERS += include/pan_mp.h include/pan_sys.h
pkgconfig_DATA += %D%/panda.pc
linkerscript_DATA += %D%/libpanda.so
man_MANS += $(MAN_PANDA)
endif
