# SPDX-License-Identifier: BSD-2-Clause
if ENABLE_TCP
pkglib_LTLIBRARIES += tagwire_tcp.la
endif
tagwire_tcp_la_SOURCES = $(%C%_FILES)
tagwire_tcp_la_CFLAGS = $(AM_CFLAGS)
tagwire_tcp_la_LDFLAGS = $(MODULE_LDFLAGS) -export-symbols-regex '^tw_driver_tcp$$'
