# SPDX-License-Identifier: BSD-2-Clause
if ENABLE_MUNGE
pkglib_LTLIBRARIES += tagwire_munge.la
endif
tagwire_munge_la_SOURCES = $(%C%_FILES)
tagwire_munge_la_CFLAGS = $(AM_CFLAGS) $(MUNGE_CFLAGS)
tagwire_munge_la_LDFLAGS = $(MODULE_LDFLAGS) -export-symbols-regex '^tw_net_munge$$'
tagwire_munge_la_LIBADD = $(MUNGE_LIBS)
