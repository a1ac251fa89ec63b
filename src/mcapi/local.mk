# SPDX-License-Identifier: BSD-2-Clause
# `-lmcapi' and `pkg-config mcapi' are names for this library.
if ENABLE_MCAPI
libtagwire_internal_la_SOURCES += $(%C%_FILES)
include_HEADERS += include/mcapi.h
pkgconfig_DATA += %D%/mcapi.pc
linkerscript_DATA += %D%/libmcapi.so
man_MANS += $(MAN_MCAPI)
endif
