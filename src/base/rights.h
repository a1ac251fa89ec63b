/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TW_RIGHTS_H
#define TW_RIGHTS_H

/* The rights of another side to registered memory. */
enum tw_mem_rights { TW_MEM_READ = 1, TW_MEM_WRITE = 2, TW_MEM_BOTH = TW_MEM_READ | TW_MEM_WRITE };

#endif /* TW_RIGHTS_H */
