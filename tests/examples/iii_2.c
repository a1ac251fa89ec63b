/* SPDX-License-Identifier: BSD-2-Clause */
/* Example III.2: allocation and release of an MX endpoint. */
#include <stdio.h>

#include "myriexpress.h"

static int failed(const char *what, mx_return_t rc)
{
	if (rc != MX_SUCCESS)
		fprintf(stderr, "%s: %s\n", what, mx_strerror(rc));
	return rc != MX_SUCCESS;
}

int main(void)
{
	mx_return_t rc;
	mx_endpoint_t endpoint;
	uint32_t filter;

	/* Initialize the MX library */
	rc = mx_init();
	if (failed("mx_init", rc))
		return 1;

	/* open an MX endpoint */
	filter = 0xcafebabe; /* app specific unique value */
	rc = mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, filter, 0, 0, &endpoint);
	if (failed("mx_open_endpoint", rc))
		return 1;

	/* do work here ... */

	/* close the MX endpoint */
	rc = mx_close_endpoint(endpoint);
	if (failed("mx_close_endpoint", rc))
		return 1;

	/* Finalize the MX library */
	rc = mx_finalize();
	return failed("mx_finalize", rc);
}
