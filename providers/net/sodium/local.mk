# SPDX-License-Identifier: BSD-2-Clause
if ENABLE_SODIUM
pkglib_LTLIBRARIES += tagwire_sodium.la
endif
tagwire_sodium_la_SOURCES = $(%C%_FILES)
tagwire_sodium_la_CFLAGS = $(AM_CFLAGS) $(SODIUM_CFLAGS)
tagwire_sodium_la_LDFLAGS = $(MODULE_LDFLAGS) -export-symbols-regex '^tw_net_crypto_sodium$$'
tagwire_sodium_la_LIBADD = $(SODIUM_LIBS)
