# SPDX-License-Identifier: BSD-2-Clause
# The control plane. And how a process learns of the others of its job; the module asks a
# launcher, and is loaded when one has started the process.
if ENABLE_GROUP
libtagwire_internal_la_SOURCES += %D%/group.c %D%/group.h
endif
if ENABLE_JOB
libtagwire_internal_la_SOURCES += %D%/job.c %D%/job.h
if ENABLE_PMIX
pkglib_LTLIBRARIES += tagwire_pmix.la
endif
endif
tagwire_pmix_la_SOURCES = %D%/job.h %D%/pmix.c
tagwire_pmix_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
tagwire_pmix_la_LIBADD = $(PMIX_LIBS)
tagwire_pmix_la_LDFLAGS = $(MODULE_LDFLAGS) -export-symbols-regex '^tw_launcher_pmix$$'
