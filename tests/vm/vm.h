/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs on the test machine share. What goes wrong ends the program. */
#ifndef VM_H
#define VM_H

#include <stdint.h>
#include <sys/types.h>

/* What the devices at both ends of the wire have counted: a file of hw_counters. */
uint64_t vm_devices(const char *what);
/* The letter that /proc has for it. */
char vm_state(pid_t pid);
/* Stops it, and comes back when it does nothing any more. */
void vm_stop(pid_t pid);

#endif /* VM_H */
