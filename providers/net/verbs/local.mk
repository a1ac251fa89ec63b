# SPDX-License-Identifier: BSD-2-Clause
if ENABLE_VERBS
pkglib_LTLIBRARIES += tagwire_verbs.la
endif
tagwire_verbs_la_SOURCES = $(%C%_FILES)
tagwire_verbs_la_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tagwire_verbs_la_LIBADD = $(VERBS_LIBS)
tagwire_verbs_la_LDFLAGS = $(MODULE_LDFLAGS) -export-symbols-regex '^tw_driver_verbs$$'
