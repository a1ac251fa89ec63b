# SPDX-License-Identifier: BSD-2-Clause
# Those of an interface come with it.
man_MANS += $(MAN_GENERAL)
EXTRA_DIST += $(MAN_FI) $(MAN_GENERAL) $(MAN_MCAPI) $(MAN_MRAPI) $(MAN_MX) $(MAN_PANDA)
