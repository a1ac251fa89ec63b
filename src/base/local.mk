# SPDX-License-Identifier: BSD-2-Clause
libtagwire_internal_la_SOURCES += $(%C%_FILES)

# One page is made from the table of settings, so that the two cannot disagree.
man_MANS += man/man7/tagwire-settings.7
CLEANFILES += man/man7/tagwire-settings.7
man/man7/tagwire-settings.7: %D%/settings.def man/settings-page
	$(AM_V_GEN)$(MKDIR_P) man/man7 && \
	$(SHELL) $(srcdir)/man/settings-page $(srcdir)/%D%/settings.def >$@.tmp && \
	mv $@.tmp $@
