# SPDX-License-Identifier: BSD-2-Clause
# `-lmyriexpress' and `pkg-config myriexpress' are names for this library.
if ENABLE_MX
libtagwire_internal_la_SOURCES += $(%C%_FILES)
include_HEADERS += include/mx_extensions.h include/myriexpress.h
pkgconfig_DATA += %D%/myriexpress.pc
linkerscript_DATA += %D%/libmyriexpress.so
man_MANS += $(MAN_MX)
endif
