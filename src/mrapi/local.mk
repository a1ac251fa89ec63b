# SPDX-License-Identifier: BSD-2-Clause
# `-lmrapi' and `pkg-config mrapi' are names for this library.
if ENABLE_MRAPI
libtagwire_internal_la_SOURCES += $(%C%_FILES)
libtagwire_internal_la_LIBADD += $(HWLOC_LIBS)
include_HEADERS += include/mca.h include/mrapi.h
pkgconfig_DATA += %D%/mrapi.pc
linkerscript_DATA += %D%/libmrapi.so
man_MANS += $(MAN_MRAPI)
endif
