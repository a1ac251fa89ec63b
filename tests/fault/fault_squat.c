/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Another user takes every name by which processes of this one find each other, as far as names
 * are anybody's, and answers nobody there. Endpoints open and connect all the same, and processes
 * join their MRAPI job.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/check.h"
#include "lib/twr.h"
#include "lib/twt.h"
#include "mx_extensions.h"

#define NOBODY 65534
#define ID 7
#define FILTER 5
#define NAMES 64
#define CALLERS 4 /* more than there is room for */

static struct names {
	struct {
		int type;
		char name[108];
	} of[NAMES];
	int n;
} names;

static char job[40];

/* The abstract names of this job that somebody has. */
static void collect(void)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[256], at[108];
	unsigned type;

	check(f != NULL);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %*s %*s %*s %x %*s %*s @%107s", &type, at) != 2 ||
		    !strstr(at, job) || names.n == NAMES)
			continue;
		names.of[names.n].type = (int)type;
		snprintf(names.of[names.n++].name, 108, "%s", at);
	}
	fclose(f);
}

/* The name, and those that a process uses which finds it taken. */
static void squat(int type, char *name)
{
	size_t len = strlen(name);
	bool numbered = len > 2 && name[len - 2] == '.';

	for (int i = 0; i < (numbered ? 8 : 1); i++) {
		struct sockaddr_un sa = {.sun_family = AF_UNIX};
		socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
		int fd = socket(AF_UNIX, type | SOCK_NONBLOCK, 0);

		if (numbered)
			name[len - 1] = (char)('0' + i);
		memcpy(sa.sun_path + 1, name, len);
		check(bind(fd, (struct sockaddr *)&sa, size) == 0);
		if (type == SOCK_DGRAM)
			continue;
		check(listen(fd, 0) == 0);
		for (int k = 0; k < CALLERS; k++) {
			fd = socket(AF_UNIX, type | SOCK_NONBLOCK, 0);
			(void)!connect(fd, (struct sockaddr *)&sa, size);
		}
	}
}

static int squatter(void *arg, int fd)
{
	char c = 0;

	(void)arg;
	what = "squatter";
	check(setresuid(NOBODY, NOBODY, NOBODY) == 0);
	for (int i = 0; i < names.n; i++)
		squat(names.of[i].type, names.of[i].name);
	check(twt_put(fd, &c, 1) == 0);
	return twt_get(fd, &c, 1) == 0 ? 1 : 0;
}

static mx_endpoint_t open_endpoint(uint32_t id)
{
	mx_endpoint_t ep;

	check(mx_open_endpoint(0, id, FILTER, NULL, 0, &ep) == MX_SUCCESS);
	return ep;
}

/* Has an endpoint and a node, until it is told to end. */
static int host(void *arg, int fd)
{
	mrapi_info_t info;
	mx_endpoint_t ep;
	char c = 0;

	(void)arg;
	what = "host";
	check(mx_init() == MX_SUCCESS);
	ep = open_endpoint(ID);
	OK(mrapi_initialize(1, 1, NULL, &info, &st));
	OK(mrapi_mutex_create(3, NULL, &st));
	check(twt_put(fd, &c, 1) == 0);
	twt_get(fd, &c, 1);
	OK(mrapi_finalize(&st));
	mx_close_endpoint(ep);
	mx_finalize();
	return 0;
}

static int guest(void *arg, int fd)
{
	mx_endpoint_addr_t self, to;
	mrapi_info_t info;
	mx_endpoint_t ep;
	mx_return_t r;
	uint64_t nic;
	uint32_t id;

	(void)arg;
	(void)fd;
	what = "guest";
	mx_set_error_handler(MX_ERRORS_RETURN);
	check(mx_init() == MX_SUCCESS);
	ep = open_endpoint(ID + 1);
	check(mx_get_endpoint_addr(ep, &self) == MX_SUCCESS);
	check(mx_decompose_endpoint_addr(self, &nic, &id) == MX_SUCCESS);
	r = mx_connect(ep, nic, ID, FILTER, (uint32_t)TWT_LONG, &to);
	printf("connect: %s\n", mx_strerror(r));
	check(r == MX_SUCCESS);
	OK(mrapi_initialize(1, 2, NULL, &info, &st));
	OK(mrapi_mutex_get(3, &st));
	OK(mrapi_finalize(&st));
	mx_close_endpoint(ep);
	mx_finalize();
	return 0;
}

static void start(struct twt_child *child)
{
	char c;

	twt_spawn_here(child, host, NULL);
	check(twt_get(child->fd, &c, 1) == 0);
}

static void end(struct twt_child *child)
{
	shutdown(child->fd, SHUT_RDWR);
	check(twt_join(child, TWT_LONG) == 0);
}

int main(void)
{
	struct twt_child one, two, other;
	char c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (geteuid() != 0) {
		puts("only root can become another user");
		return 77;
	}
	/* Names without a job could be anybody's. */
	snprintf(job, sizeof(job), "squat-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	setenv("TAGWIRE_PROVIDERS", "self,shm,tcp", 1);
	start(&one);
	collect();
	end(&one);
	check(names.n >= 2);
	twt_spawn_here(&other, squatter, NULL);
	check(twt_get(other.fd, &c, 1) == 0);
	start(&one);
	twt_spawn_here(&two, guest, NULL);
	check(twt_join(&two, TWT_LONG) == 0);
	end(&one);
	end(&other);
	return 0;
}
