/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that talks over shared memory only has no network library in its
 * address space, whatever is installed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/twt.h"
#include "mx_extensions.h"

static int mapped(const char *name)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[1024];
	int found = 0;

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, name) != NULL;
	if (f)
		fclose(f);
	return found;
}

int main(void)
{
	static const char *const none[] = {"libfabric", "libibverbs", "librdmacm", "tagwire_ofi",
					   "tagwire_verbs", "libpmix", "tagwire_pmix"};
	char out[100000], in[100000];
	mx_endpoint_t a, b;
	mx_endpoint_addr_t to;
	mx_segment_t from = {out, sizeof(out)}, into = {in, sizeof(in)};
	mx_request_t s, r;
	mx_status_t st;
	uint64_t nic;
	uint32_t id, result;

	twt_fill(out, sizeof(out), 1);
	if (mx_init() || mx_job_info(&id, &result) || id != 0 || result != 1) {
		puts("without a launcher there is a job");
		return 1;
	}
	if ( mx_open_endpoint(0, MX_ANY_ENDPOINT, 1, NULL, 0, &a) ||
	    mx_open_endpoint(0, MX_ANY_ENDPOINT, 1, NULL, 0, &b) || mx_get_endpoint_addr(b, &to) ||
	    mx_decompose_endpoint_addr(to, &nic, &id) || mx_connect(a, nic, id, 1, 10, &to) ||
	    mx_irecv(b, &into, 1, 1, ~0ull, NULL, &r) || mx_isend(a, &from, 1, to, 1, NULL, &s) ||
	    mx_wait(b, &r, 10000, &st, &result) || mx_wait(a, &s, 10000, &st, &result) ||
	    twt_check(in, sizeof(in), 1) != sizeof(in)) {
		puts("the message did not get through");
		return 1;
	}
	if (!mapped("libtagwire")) {
		puts("cannot tell what is mapped");
		return 1;
	}
	for (unsigned i = 0; i < sizeof(none) / sizeof(*none); i++)
		if (mapped(none[i])) {
			printf("%s is mapped\n", none[i]);
			return 1;
		}
	mx_close_endpoint(a);
	mx_close_endpoint(b);
	mx_finalize();
	return 0;
}
