/* SPDX-License-Identifier: BSD-2-Clause */
/* mx_info --settings. */
#ifndef BENCH_SETTINGLIST_H
#define BENCH_SETTINGLIST_H

#include "table.h"

/* Every setting: what it is, where that comes from and what it means. Ends with 1 if one is
 * invalid. */
void settinglist(enum table_format format);

#endif /* BENCH_SETTINGLIST_H */
