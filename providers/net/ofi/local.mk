# SPDX-License-Identifier: BSD-2-Clause
if ENABLE_OFI
pkglib_LTLIBRARIES += tagwire_ofi.la
endif
tagwire_ofi_la_SOURCES = $(%C%_FILES)
tagwire_ofi_la_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
tagwire_ofi_la_LIBADD = $(LIBFABRIC_LIBS)
tagwire_ofi_la_LDFLAGS = $(MODULE_LDFLAGS) -export-symbols-regex '^tw_driver_ofi$$'
