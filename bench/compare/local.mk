# SPDX-License-Identifier: BSD-2-Clause
# mx_compare: one driver of Tagwire, one without any library. Drivers of other libraries
# are compiled where they are used, so their sources are installed.
COMPARE_FILES = \
	%D%/launch.h \
	%D%/line.h \
	%D%/main.py \
	%D%/mpi_rows.h \
	%D%/overlap.h \
	%D%/patterns.h \
	%D%/peer.h \
	%D%/peer_mpi.h \
	%D%/peer_ofi.h \
	%D%/peer_ucx.h \
	%D%/peers.py \
	%D%/plan.py \
	%D%/plots.py \
	%D%/report.py \
	%D%/results.py \
	%D%/work.c \
	%D%/work.h
comparedir = $(pkgdatadir)/compare

if ENABLE_MX
bin_SCRIPTS += bench/mx_compare
pkglibexec_PROGRAMS += %D%/compare-mx %D%/compare-bare
compare_DATA = $(COMPARE_FILES)
endif
EXTRA_DIST += $(%C%_FILES)
CLEANFILES += bench/mx_compare

bench_compare_compare_mx_SOURCES = %D%/peer_mx.h %D%/work.c
bench_compare_compare_mx_CPPFLAGS = $(AM_CPPFLAGS) -DPEER='"peer_mx.h"'
bench_compare_compare_mx_LDADD = libtagwire.la
bench_compare_compare_bare_SOURCES = %D%/peer_bare.h %D%/bare.c
bench_compare_compare_bare_CPPFLAGS = $(AM_CPPFLAGS) -DPEER='"peer_bare.h"'
bench_compare_compare_bare_LDADD =

bench/mx_compare: bench/mx_compare.in Makefile
	$(AM_V_GEN)$(MKDIR_P) bench && \
	sed -e 's,[@]abs_srcdir[@],$(abs_srcdir),' -e 's,[@]abs_builddir[@],$(abs_builddir),' \
		-e 's,[@]pkgdatadir[@],$(pkgdatadir),' -e 's,[@]pkglibexecdir[@],$(pkglibexecdir),' \
		-e 's,[@]PACKAGE_VERSION[@],$(PACKAGE_VERSION),' \
		$(srcdir)/bench/mx_compare.in >$@.tmp && chmod +x $@.tmp && mv $@.tmp $@
