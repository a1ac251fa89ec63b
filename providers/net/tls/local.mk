# SPDX-License-Identifier: BSD-2-Clause
if ENABLE_TLS
pkglib_LTLIBRARIES += tagwire_tls.la
endif
tagwire_tls_la_SOURCES = $(%C%_FILES)
tagwire_tls_la_CFLAGS = $(AM_CFLAGS) $(OPENSSL_CFLAGS)
tagwire_tls_la_LDFLAGS = $(MODULE_LDFLAGS) -export-symbols-regex '^tw_net_tls$$'
tagwire_tls_la_LIBADD = $(OPENSSL_LIBS)
