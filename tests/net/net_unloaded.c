/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that talks over shared memory only has no network library in its
 * address space, whatever is installed; and no port open where none is. One that
 * talks over tcp has no libfabric, where that would find no device.
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

/* TCP ports of endpoints, which nobody shares; -1: one for any address. */
static int ports(void)
{
	int n = 0;

	for (int fd = 3; fd < 256; fd++) {
		struct sockaddr_in sa = {.sin_family = AF_UNSPEC};
		socklen_t len = sizeof(sa), one = sizeof(int);
		int listens = 0, shared = 0;

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &one) < 0 || !listens ||
		    getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &shared, &one) < 0 || shared ||
		    getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
		    (sa.sin_family != AF_INET && sa.sin_family != AF_INET6))
			continue;
		if (sa.sin_family == AF_INET && sa.sin_addr.s_addr == INADDR_ANY)
			return -1;
		n++;
	}
	return n;
}

static const char *const networks[] = {"libfabric",	"libibverbs", "librdmacm",   "tagwire_ofi",
				       "tagwire_verbs", "libpmix",    "tagwire_pmix"};

static int talk(int expected_ports, int over_tcp)
{
	char out[250000], in[250000];
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
	for (unsigned i = 0; i < sizeof(networks) / sizeof(*networks); i++)
		if (mapped(networks[i])) {
			printf("%s is mapped\n", networks[i]);
			return 1;
		}
	if (mapped("libssl") > over_tcp || mapped("libcrypto") > over_tcp) {
		puts("OpenSSL is mapped");
		return 1;
	}
	if (mapped("tagwire_tcp") != over_tcp) {
		printf("tcp is %s\n", over_tcp ? "not in use" : "mapped");
		return 1;
	}
	mx_close_endpoint(a);
	mx_close_endpoint(b);
	mx_finalize();
	return 0;
}

/* In a process of its own: modules and settings are looked for once. */
static int apart(const char *name, const char *value, int over_tcp)
{
	int status;

	if (fork() == 0) {
		setenv(name, value, 1);
		/* Each listens for introductions, and for tcp. */
		status = talk(over_tcp ? 4 : 0, over_tcp);
		fflush(NULL);
		_exit(status);
	}
	return wait(&status) < 0 || status != 0;
}

static int installed(const char *network)
{
	const char *modules = getenv("TAGWIRE_MODULES");
	char path[1024];

	snprintf(path, sizeof(path), "%s/tagwire_%s.so", modules ? modules : "", network);
	return access(path, R_OK) == 0;
}

int main(void)
{
	if (apart("TAGWIRE_MODULES", "/nonexistent", 0))
		return 1;
	if (access("/sys/class/infiniband", F_OK) == 0 || access("/sys/class/cxi", F_OK) == 0)
		puts("not looked for libfabric: it may have a device here");
	else if (installed("tcp") && apart("TAGWIRE_PROVIDERS", "ofi,tcp", 1))
		return 1;
	return talk(installed("ofi") || installed("tcp") ? 2 : 0, 0);
}
