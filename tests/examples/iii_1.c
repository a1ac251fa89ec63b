/* SPDX-License-Identifier: BSD-2-Clause */
/* Example III.1: initialization of the MX library. */
#include <stdio.h>

#include "myriexpress.h"

int main(void)
{
	mx_return_t return_code;

	/* Initialize the MX library */
	return_code = mx_init();
	if (return_code != MX_SUCCESS) {
		fprintf(stderr, "mx_init: %s\n", mx_strerror(return_code));
		return 1;
	}

	/* do work here ... */

	/* Finalize the MX library */
	return_code = mx_finalize();
	if (return_code != MX_SUCCESS) {
		fprintf(stderr, "mx_finalize: %s\n", mx_strerror(return_code));
		return 1;
	}
	return 0;
}
