/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that talks over shared memory only has no network library in its
 * address space, whatever is installed; and no port open where none is.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* TCP ports that this process listens on; -1: one for any address. */
static int ports(void)
{
	int n = 0;

	for (int fd = 3; fd < 256; fd++) {
		struct sockaddr_in sa = {.sin_family = AF_UNSPEC};
		socklen_t len = sizeof(sa), one = sizeof(int);
		int listens = 0;

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &one) < 0 || !listens ||
		    getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
		    (sa.sin_family != AF_INET && sa.sin_family != AF_INET6))
			continue;
		if (sa.sin_family == AF_INET && sa.sin_addr.s_addr == INADDR_ANY)
			return -1;
		n++;
	}
	return n;
}

static int talk(int expected_ports)
{
	static const char *const none[] = {"libfabric",	  "libibverbs",	 "librdmacm",
					   "tagwire_ofi", "tagwire_tcp", "tagwire_verbs",
					   "libpmix",	  "tagwire_pmix"};
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
	if (mx_open_endpoint(0, MX_ANY_ENDPOINT, 1, NULL, 0, &a) ||
	    mx_open_endpoint(0, MX_ANY_ENDPOINT, 1, NULL, 0, &b) || mx_get_endpoint_addr(b, &to) ||
	    mx_decompose_endpoint_addr(to, &nic, &id) || mx_connect(a, nic, id, 1, 10, &to) ||
	    mx_irecv(b, &into, 1, 1, ~0ull, NULL, &r) || mx_isend(a, &from, 1, to, 1, NULL, &s) ||
	    mx_wait(b, &r, 10000, &st, &result) || mx_wait(a, &s, 10000, &st, &result) ||
	    twt_check(in, sizeof(in), 1) != sizeof(in)) {
		puts("the message did not get through");
		return 1;
	}
	if (ports() != expected_ports) {
		printf("%d ports of two endpoints, not %d\n", ports(), expected_ports);
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

int main(void)
{
	const char *modules = getenv("TAGWIRE_MODULES");
	static const char *const networks[] = {"ofi", "tcp", NULL};
	char path[1024];
	int status, any = 0;

	/* Without a module, in a process of its own: modules are looked for once. */
	if (fork() == 0) {
		setenv("TAGWIRE_MODULES", "/nonexistent", 1);
		status = talk(0);
		fflush(NULL);
		_exit(status);
	}
	if (wait(&status) < 0 || status != 0)
		return 1;
	for (int i = 0; networks[i]; i++) {
		snprintf(path, sizeof(path), "%s/tagwire_%s.so", modules ? modules : "",
			 networks[i]);
		any |= access(path, R_OK) == 0;
	}
	return talk(any ? 2 : 0);
}
