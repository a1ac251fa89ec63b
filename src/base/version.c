/* SPDX-License-Identifier: BSD-2-Clause */
#include "tagwire.h"

const char *tagwire_version(void)
{
	return TAGWIRE_VERSION;
}
