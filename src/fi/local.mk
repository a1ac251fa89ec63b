# SPDX-License-Identifier: BSD-2-Clause
# A provider of libfabric, which loads it from a folder of its own. It has the whole engine.
if ENABLE_FI
fi_LTLIBRARIES = libtagwire-fi.la
man_MANS += $(MAN_FI)
endif
fidir = $(libdir)/libfabric
libtagwire_fi_la_SOURCES = $(%C%_FILES)
libtagwire_fi_la_CFLAGS = $(libtagwire_internal_la_CFLAGS) $(LIBFABRIC_CFLAGS)
libtagwire_fi_la_LIBADD = libtagwire_internal.la $(LIBFABRIC_LIBS)
# libfabric unloads providers when a program exits, while threads of ours may run still.
libtagwire_fi_la_LDFLAGS = $(MODULE_LDFLAGS) -Wl,-z,nodelete $(SECTION_LDFLAGS) $(SIZE_LDFLAGS) \
	-export-symbols-regex '^fi_prov_ini$$'

# Another libfabric than that of the same prefix has to be told.
if ENABLE_FI
INSTALL_HOOKS += fi-installed
fi-installed:
	@test "`$(PKG_CONFIG) --variable=libdir libfabric`" = '$(libdir)' || \
		echo 'libfabric finds the provider with FI_PROVIDER_PATH=$(fidir)'
endif
