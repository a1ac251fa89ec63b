/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program with few descriptors left connects to another host, or is called from there. It
 * connects, or is told what is short; no call waits for a descriptor that nobody gives it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/check.h"
#include "lib/twt.h"
#include "mx_extensions.h"

#define FILTER 0x5eceff17u
#define MOST 12 /* free descriptors, with which a connection is made */
#define LIMIT 200

struct place {
	uint64_t nic;
	uint32_t id;
};

/* Leaves so many. */
static void use_up(int leave)
{
	struct rlimit limit = {LIMIT, LIMIT};
	int free[LIMIT], n = 0;

	check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	while (n < LIMIT && (free[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	while (leave-- > 0)
		close(free[--n]);
}

static mx_endpoint_t open_endpoint(void)
{
	mx_endpoint_t ep;

	mx_set_error_handler(MX_ERRORS_RETURN);
	check(mx_init() == MX_SUCCESS);
	check(mx_open_endpoint(0, MX_ANY_ENDPOINT, FILTER, NULL, 0, &ep) == MX_SUCCESS);
	return ep;
}

static int host(void *arg, int fd)
{
	int leave = *(int *)arg;
	mx_endpoint_t ep = open_endpoint();
	mx_endpoint_addr_t self;
	struct place at;
	char c;

	check(mx_get_endpoint_addr(ep, &self) == MX_SUCCESS);
	check(mx_decompose_endpoint_addr(self, &at.nic, &at.id) == MX_SUCCESS);
	if (leave >= 0)
		use_up(leave);
	check(twt_put(fd, &at, sizeof(at)) == 0);
	twt_get(fd, &c, 1);
	mx_close_endpoint(ep);
	return 0;
}

/* 1 if it has connected, 0 if it was told why it has not. */
static int guest(void *arg, int fd)
{
	int leave = *(int *)arg, err = memfd_create("stderr", 0), said = 0;
	mx_endpoint_addr_t to;
	static char text[4096];
	struct place at;
	mx_endpoint_t ep;
	mx_return_t rc;

	check(twt_get(fd, &at, sizeof(at)) == 0);
	ep = open_endpoint();
	check(dup2(err, STDERR_FILENO) >= 0);
	if (leave >= 0)
		use_up(leave);
	rc = mx_connect(ep, at.nic, at.id, FILTER, (uint32_t)TWT_LONG, &to);
	check(pread(err, text, sizeof(text) - 1, 0) >= 0);
	said = strstr(text, "descriptor") || strstr(text, strerror(EMFILE));
	/* The other side says on its standard error what is short there. */
	if (rc == MX_TIMEOUT ||
	    (rc != MX_SUCCESS && leave >= 0 && (rc != MX_NO_RESOURCES || !said))) {
		printf("%s\n%s", mx_strerror(rc), text);
		return 9;
	}
	mx_close_endpoint(ep);
	return rc == MX_SUCCESS;
}

/* What the guest says, with so many free there and here; -1: as many as are wanted. */
static int meet(int there, int here)
{
	struct twt_child one, two;
	struct place at;
	int how;

	twt_spawn_here(&one, host, &there);
	twt_spawn_here(&two, guest, &here);
	check(twt_get(one.fd, &at, sizeof(at)) == 0);
	check(twt_put(two.fd, &at, sizeof(at)) == 0);
	how = twt_join(&two, 2 * TWT_LONG);
	shutdown(one.fd, SHUT_RDWR);
	check(twt_join(&one, TWT_LONG) == 0);
	printf("%d free there, %d here: %s\n", there, here,
	       how == 1	  ? "connected"
	       : how == 0 ? "told"
			  : "wrong");
	check(how == 0 || how == 1);
	return how;
}

int main(void)
{
	char folder[] = "/tmp/tagwire-descriptors-XXXXXX", path[60];
	int fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	check(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/key", folder);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	check(write(fd, "0123456789012345678901234567890123456789", 40) == 40);
	setenv("TAGWIRE_KEY", path, 1);
	setenv("TAGWIRE_PROVIDERS", "self,tcp", 1);
	for (int n = 1; n <= MOST; n++)
		check(meet(-1, n) == 1 || n < MOST);
	/* Without any the host is as one that does not answer. */
	for (int n = 1; n <= MOST; n++)
		check(meet(n, -1) == 1 || n < MOST);
	unlink(path);
	rmdir(folder);
	return 0;
}
