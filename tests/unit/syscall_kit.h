/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens when the code under test calls the system. */
#ifndef SYSCALL_KIT_H
#define SYSCALL_KIT_H

#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Called before each call; true: the call fails, with errno as it is then. NULL: nothing happens.
 */
static bool (*before_syscall)(long number);

/* Reads six arguments, however many there are. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"), a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (before_syscall && before_syscall(number))
		return -1;
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#endif /* SYSCALL_KIT_H */
