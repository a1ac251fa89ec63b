/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is known of other hosts: those of the hosts file stay, of the others the oldest is
 * forgotten.
 */
#include <criterion/criterion.h>
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

Test(hosts, oldest_is_forgotten, .timeout = TWT_TIMEOUT)
{
	char path[] = "/tmp/tagwire-hosts-XXXXXX";
	int fd = mkstemp(path);
	struct tw_known k;

	cr_assert(dprintf(fd, "alpha 10.1.2.3\nbeta 10.1.2.4\n") > 0);
	close(fd);
	cr_assert_eq(tw_hosts_load(path), TW_OK);
	unlink(path);
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

/* A line of any length is one line: the end of a comment names no host. */
Test(hosts, long_line, .timeout = TWT_TIMEOUT)
{
	char path[] = "/tmp/tagwire-hosts-XXXXXX";
	int fd = mkstemp(path);
	struct tw_known k;

	for (unsigned length = 1000; length < 1040; length++) {
		cr_assert(dprintf(fd, "# %0*d gamma%u 10.9.9.9\n", (int)length, 0, length) > 0);
		cr_assert(dprintf(fd, "#%0*dgamma%u 10.9.9.9\n", (int)length, 0, length) > 0);
	}
	cr_assert(dprintf(fd, "delta 10.1.2.5 # %02000d", 0) > 0);
	close(fd);
	cr_assert_eq(tw_hosts_load(path), TW_OK);
	unlink(path);
	cr_assert(tw_hosts_find("delta", 0, &k));
	cr_assert_eq(k.fixed, true);
	cr_assert_eq(tw_hosts_load(""), TW_OK);
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

/* What is behind the end of what is read is a comment, or an error; and so is a NUL. */
Test(hosts, long_lines, .timeout = TWT_TIMEOUT)
{
	static char text[5000];
	static const char nul[] = "alpha 10.1.2.3\0\nbeta 10.1.2.4\n";
	struct tw_known k;

	memset(text, ' ', sizeof(text));
	memcpy(text, "alpha 10.1.2.3 #", 16);
	memcpy(text + sizeof(text) - 15, "\nbeta 10.1.2.4", 14);
	cr_assert_eq(load(text, sizeof(text)), TW_OK);
	cr_assert(tw_hosts_find("alpha", 0, &k) && tw_hosts_find("beta", 0, &k));
	text[15] = ' ';
	cr_assert_eq(load(text, sizeof(text)), TW_EPROTO);
	cr_assert_eq(load(nul, sizeof(nul) - 1), TW_EPROTO);
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
