/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is known of other hosts: those of the hosts file stay, of the others the oldest is
 * forgotten.
 */
#include <criterion/criterion.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/twt.h"
#include "naming/hosts.h"
#include "naming/naming.h"

#define MANY 10000

static struct tw_known host(uint64_t nic_id)
{
	return (struct tw_known){.nic_id = nic_id, .address = {.ss_family = AF_INET6}};
}

/* Writes a hosts file, and reads it. */
static enum tw_err load(const char *text, size_t len)
{
	char path[] = "/tmp/tagwire-hosts-XXXXXX";
	int fd = mkstemp(path);
	enum tw_err err;

	cr_assert_eq(write(fd, text, len), (ssize_t)len);
	close(fd);
	err = tw_hosts_load(path);
	unlink(path);
	return err;
}

Test(hosts, oldest_is_forgotten, .timeout = TWT_TIMEOUT)
{
	static const char text[] = "alpha 10.1.2.3\nbeta 10.1.2.4\n";
	struct tw_known k;

	cr_assert_eq(load(text, sizeof(text) - 1), TW_OK);
	for (uint64_t i = 1; i <= MANY; i++) {
		k = host(i);
		cr_assert_eq(tw_hosts_add(&k), TW_OK, "%d", (int)i);
		cr_assert(tw_hosts_find_nic(i, &k));
	}
	cr_assert(tw_hosts_find_nic(MANY - 1000, &k));
	cr_assert_not(tw_hosts_find_nic(1, &k), "nothing is forgotten");
	cr_assert(tw_hosts_find("alpha", 0, &k) && k.fixed);
	cr_assert(tw_hosts_find("beta", 0, &k) && k.fixed);
}

/* Neither the hosts file nor another host gives a name that is more than a part of a line. */
Test(hosts, name_with_commands, .timeout = TWT_TIMEOUT)
{
	static const char text[] = "al\033[2Jpha 10.1.2.3\n";
	uint32_t board;
	char name[256];

	cr_assert_eq(load(text, sizeof(text) - 1), TW_EPROTO);
	cr_assert_not(tw_name_parse("alpha\nbeta", name, &board));
	cr_assert_not(tw_name_parse("alpha\177", name, &board));
	cr_assert(tw_name_parse("\303\244lpha", name, &board));
}

/* A comment of any length is of one line: the end of a comment names no host. */
Test(hosts, long_line, .timeout = TWT_TIMEOUT)
{
	static char text[100000];
	struct tw_known k;
	int n = 0;

	for (unsigned length = 1000; length < 1040; length++) {
		n += sprintf(text + n, "# %0*d gamma%u 10.9.9.9\n", (int)length, 0, length);
		n += sprintf(text + n, "#%0*dgamma%u 10.9.9.9\n", (int)length, 0, length);
	}
	n += sprintf(text + n, "delta 10.1.2.5 # %02000d", 0);
	cr_assert_eq(load(text, (size_t)n), TW_OK);
	cr_assert(tw_hosts_find("delta", 0, &k));
	cr_assert_eq(k.fixed, true);
	cr_assert_eq(tw_hosts_load(""), TW_OK);
}

/* A line is at most that long, and has no NUL. */
Test(hosts, no_lines, .timeout = TWT_TIMEOUT)
{
	char text[1100];
	struct tw_known k;

	for (int length = 1020; length < 1030; length++) {
		int n = snprintf(text, sizeof(text), "alpha %*s\n", length - 6, "10.1.2.3");

		cr_assert_eq(load(text, (size_t)n), length < 1024 ? TW_OK : TW_EPROTO, "%d",
			     length);
		cr_assert_eq(tw_hosts_find("alpha", 0, &k), length < 1024);
	}
	cr_assert_eq(load("alpha 10.1.2.3\0\n", 16), TW_EPROTO);
	cr_assert_eq(load("alpha 10.1.2.3 # \0\n", 19), TW_OK);
	cr_assert_eq(tw_hosts_load(""), TW_OK);
}

/* An address is kept once its host has proved itself. */
Test(hosts, unproved, .timeout = TWT_TIMEOUT)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = {{{0xfd, 0x77, 1}}}};
	struct sockaddr_storage sa = {0};
	struct tw_known k;
	uint64_t nic;

	if (!TW_USES_NAMES)
		cr_skip_test("built without names of other hosts");
	memcpy(&sa, &in6, sizeof(in6));
	cr_assert_eq(tw_hosts_load(""), TW_OK);
	nic = tw_nic_of(&sa);
	cr_assert(tw_naming_found(nic, &sa, false));
	cr_assert_not(tw_hosts_find_nic(nic, &k));
	cr_assert_not(tw_naming_found(nic + 1, &sa, true));
	cr_assert_not(tw_hosts_find_nic(nic + 1, &k));
	cr_assert(tw_naming_found(nic, &sa, true));
	cr_assert(tw_hosts_find_nic(nic, &k));
}

static _Atomic(bool) over;

static void *looks(void *unused)
{
	struct tw_known k;

	while (!atomic_load(&over))
		tw_hosts_find("alpha", 0, &k);
	return unused;
}

/* An endpoint of before, which was left behind, may look for a host while the file is read. */
Test(hosts, read_beside_a_look, .timeout = TWT_TIMEOUT)
{
	pthread_t thread;
	struct tw_known k;

	/* What is freed is unmapped. */
	mallopt(M_MMAP_THRESHOLD, 65536);
	cr_assert_eq(pthread_create(&thread, NULL, looks, NULL), 0);
	for (int i = 0; i < 5; i++) {
		for (uint64_t nic = 1; nic <= 1000; nic++) {
			k = host(nic);
			cr_assert_eq(tw_hosts_add(&k), TW_OK);
		}
		cr_assert_eq(tw_hosts_load(""), TW_OK);
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
}
