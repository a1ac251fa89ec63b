/* SPDX-License-Identifier: BSD-2-Clause */
/* III.2 Information retrieval, IV.1 and IV.2 names, boards and NIC ids. */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/stats.h"
#include "mx/mxt.h"
#include "shmem/sealed.h"

TestSuite(mx_info, .init = mxt_job, .timeout = MXT_TIMEOUT);

/* Keys that give one number, whether they need a board or not. */
static const struct {
	mx_get_info_key_t key;
	int board;	/* the text says that it takes one */
	uint32_t least; /* the value is at least this */
} numbers[] = {
	{MX_NIC_COUNT, 0, 1},		{MX_MAX_NATIVE_ENDPOINTS, 0, 1},
	{MX_NATIVE_REQUESTS, 0, 1},	{MX_INFO_MAX_ENDPOINTS, 0, 1024},
	{MX_INFO_MAX_SEGMENTS, 0, 256}, {MX_COUNTERS_COUNT, 1, 1},
	{MX_SERIAL_NUMBER, 1, 0},	{MX_PORT_COUNT, 1, 1},
};
#define NUMBERS (sizeof(numbers) / sizeof(*numbers))

static uint32_t number(mx_get_info_key_t key, uint32_t board)
{
	uint32_t value = 0xdeadbeef;

	mxt_ok(mx_get_info(NULL, key, &board, sizeof(board), &value, sizeof(value)));
	return value;
}

Test(mx_info, numbers, .timeout = MXT_TIMEOUT)
{
	uint32_t board = 0, boards, value;
	mx_endpoint_t ep;

	mxt_up();
	boards = number(MX_NIC_COUNT, 0);
	ep = mxt_open(MX_ANY_ENDPOINT);
	for (size_t i = 0; i < NUMBERS; i++) {
		for (board = 0; board < boards; board++)
			mxt_check(number(numbers[i].key, board) >= numbers[i].least);
		board = 0;
		value = 0xdeadbeef;
		mxt_ok(mx_get_info(ep, numbers[i].key, &board, sizeof(board), &value,
				   sizeof(value)));
		mxt_eq(value, number(numbers[i].key, 0));
		if (numbers[i].board)
			continue;
		value = 0xdeadbeef;
		mxt_ok(mx_get_info(NULL, numbers[i].key, NULL, 0, &value, sizeof(value)));
		mxt_eq(value, number(numbers[i].key, 0));
	}
	mxt_eq(number(MX_INFO_MAX_ENDPOINTS, 0), MX_MAX_ENDPOINTS);
	/* As the text spells them, the value being the key. */
	mxt_eq(number((mx_get_info_key_t)MX_MAX_ENDPOINTS, 0), MX_MAX_ENDPOINTS);
	mxt_eq(number((mx_get_info_key_t)MX_MAX_SEGMENTS, 0), MX_MAX_SEGMENTS);
	mxt_eq(number((mx_get_info_key_t)MX_UNEXP_QUEUE_LENGTH_MAX, 0), MX_UNEXP_QUEUE_LENGTH_MAX);
	mxt_check(number(MX_NET_TYPE, 0) == MX_NET_MYRI || number(MX_NET_TYPE, 0) == MX_NET_ETHER);
	/* Any value is right for these, but there must be one. */
	mxt_check(number(MX_INFO_LINE_RATE, 0) != 0xdeadbeef);
	mxt_eq(number(MX_LINE_SPEED, 0),
	       number(MX_INFO_LINE_RATE, 0) < 1250 ? MX_SPEED_2G : MX_SPEED_10G);
	mxt_check(number(MX_NUMA_NODE, 0) != 0xdeadbeef);
	mxt_check(number(MX_PIO_SEND_MAX, 0) != 0xdeadbeef);
	mxt_check(number(MX_COPY_SEND_MAX, 0) != 0xdeadbeef);
	mxt_close(ep);
	mxt_down();
}

Test(mx_info, max_segments_is_true, .timeout = MXT_TIMEOUT)
{
	uint32_t n, old;
	mx_segment_t *list;
	mx_request_t req;
	mx_endpoint_t ep;
	char c;

	mxt_up();
	n = number(MX_INFO_MAX_SEGMENTS, 0);
	ep = mxt_open(MX_ANY_ENDPOINT);
	list = calloc(n + 1, sizeof(*list));
	for (uint32_t i = 0; i <= n; i++)
		list[i] = (mx_segment_t){&c, 0};
	mxt_rc(MX_BAD_SEG_CNT, mx_irecv(ep, list, n + 1, 1, MXT_ALL, NULL, &req));
	mxt_ok(mx_irecv(ep, list, n, 1, MXT_ALL, NULL, &req));
	mxt_ok(mx_cancel(ep, &req, &old));
	mxt_eq(old, 1);
	free(list);
	mxt_close(ep);
	mxt_down();
}

Test(mx_info, nic_ids, .timeout = MXT_TIMEOUT)
{
	uint32_t count;
	uint64_t *ids;

	mxt_up();
	count = number(MX_NIC_COUNT, 0);
	ids = malloc((count + 1) * sizeof(*ids));
	memset(ids, 0xff, (count + 1) * sizeof(*ids));
	mxt_ok(mx_get_info(NULL, MX_NIC_IDS, NULL, 0, ids, (count + 1) * 8));
	for (uint32_t i = 0; i < count; i++) {
		uint64_t nic = 0;

		mxt_check(ids[i] != 0);
		for (uint32_t j = 0; j < i; j++)
			mxt_check(ids[i] != ids[j]);
		mxt_ok(mx_board_number_to_nic_id(i, &nic));
		mxt_eq(nic, ids[i]);
	}
	mxt_eq(ids[count], 0);
	mxt_rc(MX_BAD_INFO_LENGTH, mx_get_info(NULL, MX_NIC_IDS, NULL, 0, ids, count * 8));
	mxt_rc(MX_BAD_INFO_LENGTH, mx_get_info(NULL, MX_NIC_IDS, NULL, 0, ids, 0));
	free(ids);
	mxt_down();
}

static int is_text(const char *s, size_t room)
{
	size_t n = strnlen(s, room);

	for (size_t i = 0; i < n; i++)
		if (!isprint((unsigned char)s[i]))
			return 0;
	return n > 0 && n < room;
}

Test(mx_info, product_and_part, .timeout = MXT_TIMEOUT)
{
	static const mx_get_info_key_t keys[] = {MX_PRODUCT_CODE, MX_PART_NUMBER};
	uint32_t board = 0;

	mxt_up();
	for (int i = 0; i < 2; i++) {
		char text[MX_MAX_STR_LEN];

		memset(text, 0xff, sizeof(text));
		mxt_ok(mx_get_info(NULL, keys[i], &board, sizeof(board), text, sizeof(text)));
		mxt_check(is_text(text, sizeof(text)));
		mxt_rc(MX_BAD_INFO_LENGTH,
		       mx_get_info(NULL, keys[i], &board, sizeof(board), text, 0));
	}
	mxt_down();
}

Test(mx_info, counter_labels, .timeout = MXT_TIMEOUT)
{
	uint32_t board = 0, count, size;
	char(*labels)[MX_MAX_STR_LEN];

	mxt_up();
	count = number(MX_COUNTERS_COUNT, 0);
	size = count * MX_MAX_STR_LEN;
	labels = malloc(size);
	memset(labels, 0xff, size);
	mxt_ok(mx_get_info(NULL, MX_COUNTERS_LABELS, &board, sizeof(board), labels, size));
	for (uint32_t i = 0; i < count; i++) {
		mxt_check(is_text(labels[i], MX_MAX_STR_LEN));
		for (uint32_t j = 0; j < i; j++)
			mxt_check(strcmp(labels[i], labels[j]) != 0);
	}
	mxt_rc(MX_BAD_INFO_LENGTH,
	       mx_get_info(NULL, MX_COUNTERS_LABELS, &board, sizeof(board), labels, size - 1));
	free(labels);
	mxt_down();
}

/* What is counted is left open, but messages must show. */
Test(mx_info, counters_count, .timeout = MXT_TIMEOUT)
{
	uint32_t board = 0, count, size, *before, *after;
	struct mxt_pair p;

	mxt_up();
	count = number(MX_COUNTERS_COUNT, 0);
	size = count * 4;
	before = malloc(size);
	after = malloc(size);
	mxt_pair(&p);
	mxt_ok(mx_get_info(NULL, MX_COUNTERS_VALUES, &board, sizeof(board), before, size));
	for (int i = 0; i < 100; i++) {
		mx_request_t r = mxt_irecv(p.b, NULL, 0, 1);
		mx_request_t s = mxt_isend(p.a, NULL, 0, p.ab, 1);

		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	}
	mxt_ok(mx_get_info(NULL, MX_COUNTERS_VALUES, &board, sizeof(board), after, size));
	mxt_check(memcmp(before, after, size) != 0);
	mxt_rc(MX_BAD_INFO_LENGTH,
	       mx_get_info(NULL, MX_COUNTERS_VALUES, &board, sizeof(board), after, size - 1));
	free(before);
	free(after);
	mxt_pair_end(&p);
	mxt_down();
}

static const mx_get_info_key_t of_board[] = {
	MX_COUNTERS_COUNT, MX_COUNTERS_LABELS, MX_COUNTERS_VALUES, MX_PRODUCT_CODE,
	MX_PART_NUMBER,	   MX_SERIAL_NUMBER,   MX_PORT_COUNT,
};

/* The engine relies on the numbers that tools read: no other process can write them. */
Test(mx_info, counters_are_for_reading, .timeout = MXT_TIMEOUT)
{
	char path[40], text[80] = "";
	mx_endpoint_t ep;
	int fd = -1;

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	for (int i = 0; i < 100 && !strstr(text, TW_STATS_NAME); i++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		n = readlink(path, text, sizeof(text) - 1);
		text[n < 0 ? 0 : n] = 0;
	}
	mxt_check(strstr(text, TW_STATS_NAME));
	fd = open(path, O_RDWR);
	if (fd >= 0 && (fcntl(fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE)) {
		mxt_check(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
			  MAP_FAILED);
		mxt_check(pwrite(fd, text, 1, 0) < 0);
	} else if (fd >= 0) {
		close(fd);
		cr_skip_test("the kernel has no seal for this (Linux 5.1)");
	}
	close(fd);
	mxt_close(ep);
	mxt_down();
}

Test(mx_info, wrong_board, .timeout = MXT_TIMEOUT)
{
	static char room[64 * 1024];
	uint32_t bad, no_board;
	mx_return_t rc;

	mxt_up();
	bad = number(MX_NIC_COUNT, 0);
	no_board = MX_ANY_NIC;
	for (size_t i = 0; i < sizeof(of_board) / sizeof(*of_board); i++) {
		mxt_rc(MX_BAD_INFO_VAL,
		       mx_get_info(NULL, of_board[i], NULL, 0, room, sizeof(room)));
		mxt_rc(MX_BAD_INFO_VAL,
		       mx_get_info(NULL, of_board[i], NULL, 4, room, sizeof(room)));
		/* A board that is not wholly there is none. */
		rc = mx_get_info(NULL, of_board[i], &(uint32_t){0}, 1, room, sizeof(room));
		mxt_check(rc == MX_BAD_INFO_VAL || rc == MX_BAD_INFO_LENGTH);
		mxt_rc(MX_BOARD_UNKNOWN,
		       mx_get_info(NULL, of_board[i], &bad, sizeof(bad), room, sizeof(room)));
		mxt_rc(MX_BOARD_UNKNOWN, mx_get_info(NULL, of_board[i], &no_board, sizeof(no_board),
						     room, sizeof(room)));
	}
	mxt_down();
}

Test(mx_info, wrong_arguments, .timeout = MXT_TIMEOUT)
{
	static const int keys[] = {0, 17, 999, 1003, -1, 0x7fffffff};
	uint32_t board = 0, value = 5;
	mx_endpoint_t ep;

	mxt_up();
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		mxt_rc(MX_BAD_INFO_KEY, mx_get_info(NULL, (mx_get_info_key_t)keys[i], &board,
						    sizeof(board), &value, sizeof(value)));
	for (size_t i = 0; i < NUMBERS; i++) {
		mxt_rc(MX_BAD_INFO_VAL,
		       mx_get_info(NULL, numbers[i].key, &board, sizeof(board), NULL, 4));
		for (uint32_t len = 0; len < 4; len++)
			mxt_rc(MX_BAD_INFO_LENGTH, mx_get_info(NULL, numbers[i].key, &board,
							       sizeof(board), &value, len));
	}
	ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_close(ep);
	mxt_rc(MX_BAD_ENDPOINT, mx_get_info(ep, MX_NIC_COUNT, NULL, 0, &value, sizeof(value)));
	mxt_down();
}

/* A larger buffer than needed is fine, and what is beyond the value is kept. */
Test(mx_info, room_to_spare, .timeout = MXT_TIMEOUT)
{
	uint32_t value[4] = {9, 9, 9, 9};

	mxt_up();
	mxt_ok(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, value, sizeof(value)));
	mxt_eq(value[0], number(MX_NIC_COUNT, 0));
	mxt_eq(value[1], 9);
	mxt_down();
}

Test(mx_info, boards, .timeout = MXT_TIMEOUT)
{
	uint32_t count, board;
	uint64_t nic = 77;

	mxt_up();
	count = number(MX_NIC_COUNT, 0);
	for (uint32_t i = 0; i < count; i++) {
		mx_endpoint_t ep = NULL;

		board = 77;
		mxt_ok(mx_board_number_to_nic_id(i, &nic));
		mxt_ok(mx_nic_id_to_board_number(nic, &board));
		mxt_eq(board, i);
		mxt_ok(mx_open_endpoint(i, MX_ANY_ENDPOINT, MXT_KEY, NULL, 0, &ep));
		mxt_eq(mxt_name(ep).nic, nic);
		mxt_close(ep);
	}
	nic = 77;
	board = 77;
	mxt_rc(MX_BOARD_UNKNOWN, mx_board_number_to_nic_id(count, &nic));
	mxt_rc(MX_BOARD_UNKNOWN, mx_board_number_to_nic_id(MX_ANY_NIC, &nic));
	mxt_rc(MX_BOARD_UNKNOWN, mx_nic_id_to_board_number(MXT_NO_NIC, &board));
	mxt_rc(MX_BOARD_UNKNOWN, mx_nic_id_to_board_number(0, &board));
	mxt_eq(nic, 77);
	mxt_eq(board, 77);
	mxt_rc(MX_FAILURE, mx_board_number_to_nic_id(0, NULL));
	mxt_ok(mx_board_number_to_nic_id(0, &nic));
	mxt_rc(MX_FAILURE, mx_nic_id_to_board_number(nic, NULL));
	mxt_down();
}

Test(mx_info, names, .timeout = MXT_TIMEOUT)
{
	char host[256] = "", want[300], name[MX_MAX_HOSTNAME_LEN];
	uint32_t count;
	uint64_t nic, found;

	mxt_eq(gethostname(host, sizeof(host) - 1), 0);
	mxt_up();
	count = number(MX_NIC_COUNT, 0);
	for (uint32_t i = 0; i < count; i++) {
		mxt_ok(mx_board_number_to_nic_id(i, &nic));
		memset(name, 0xff, sizeof(name));
		mxt_ok(mx_nic_id_to_hostname(nic, name));
		mxt_check(is_text(name, sizeof(name)));
		snprintf(want, sizeof(want), "%s:%u", host, i);
		cr_assert_str_eq(name, want);
		found = 0;
		mxt_ok(mx_hostname_to_nic_id(name, &found));
		mxt_eq(found, nic);
	}
	mxt_ok(mx_board_number_to_nic_id(0, &nic));
	found = 0;
	mxt_ok(mx_hostname_to_nic_id(host, &found));
	mxt_eq(found, nic);
	mxt_down();
}

Test(mx_info, wrong_names, .timeout = MXT_TIMEOUT)
{
	char host[256] = "", name[700], untouched[MX_MAX_HOSTNAME_LEN] = "untouched";
	static const char *const tails[] = {":99999", ":", ":x", ":-1", ":0x", ":4294967296"};
	uint64_t nic, found = 77;

	mxt_eq(gethostname(host, sizeof(host) - 1), 0);
	mxt_up();
	mxt_ok(mx_board_number_to_nic_id(0, &nic));
	for (size_t i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
		snprintf(name, sizeof(name), "%s%s", host, tails[i]);
		mxt_rc(MX_HOST_NOT_FOUND, mx_hostname_to_nic_id(name, &found));
	}
	snprintf(name, sizeof(name), "no-such-host-%d", (int)getpid());
	mxt_rc(MX_HOST_NOT_FOUND, mx_hostname_to_nic_id(name, &found));
	strcat(name, ":0");
	mxt_rc(MX_HOST_NOT_FOUND, mx_hostname_to_nic_id(name, &found));
	mxt_rc(MX_HOST_NOT_FOUND, mx_hostname_to_nic_id((char[]){""}, &found));
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	mxt_rc(MX_HOST_NOT_FOUND, mx_hostname_to_nic_id(name, &found));
	mxt_eq(found, 77);
	mxt_rc(MX_HOST_NOT_FOUND, mx_nic_id_to_hostname(MXT_NO_NIC, untouched));
	mxt_rc(MX_HOST_NOT_FOUND, mx_nic_id_to_hostname(0, untouched));
	cr_assert_str_eq(untouched, "untouched");
	mxt_rc(MX_BAD_HOSTNAME_ARGS, mx_hostname_to_nic_id(NULL, &found));
	mxt_rc(MX_BAD_HOSTNAME_ARGS, mx_hostname_to_nic_id(host, NULL));
	mxt_rc(MX_BAD_HOSTNAME_ARGS, mx_nic_id_to_hostname(nic, NULL));
	mxt_down();
}

static int tell_nic(void *arg, int fd)
{
	uint64_t nic;

	(void)arg;
	mxt_up();
	mxt_ok(mx_board_number_to_nic_id(0, &nic));
	mxt_eq(twt_put(fd, &nic, sizeof(nic)), 0);
	mxt_down();
	return 0;
}

/* A NIC has one id, whoever asks. */
Test(mx_info, same_nic_in_every_process, .timeout = MXT_TIMEOUT)
{
	uint64_t mine = 0, theirs = 0;
	struct twt_child c;

	mxt_same_host();
	twt_spawn(&c, tell_nic, NULL);
	mxt_eq(twt_get(c.fd, &theirs, sizeof(theirs)), 0);
	mxt_eq(twt_join(&c, MXT_CHILD), 0);
	mxt_up();
	mxt_ok(mx_board_number_to_nic_id(0, &mine));
	mxt_eq(theirs, mine);
	mxt_down();
}

/* A hosts file gives names to boards of other hosts, both ways. */
Test(mx_info, peers_file, .timeout = MXT_TIMEOUT)
{
	static const char *const names[] = {"alpha", "alpha:0", "alpha:1", "six"};
	char path[] = "/tmp/mx-peers-XXXXXX", back[MX_MAX_HOSTNAME_LEN];
	uint64_t nic[4], none;
	FILE *f = fdopen(mkstemp(path), "w");

	fputs("# comment\n\nalpha 192.0.2.77 # board 0\nalpha:1\t192.0.2.78\nsix 2001:db8::9\n", f);
	fclose(f);
	setenv("TAGWIRE_PEERS", path, 1);
	mxt_up();
	for (int i = 0; i < 4; i++)
		mxt_ok(mx_hostname_to_nic_id((char *)(uintptr_t)names[i], &nic[i]));
	mxt_eq(nic[0], 0x0274c000024d);
	mxt_eq(nic[1], nic[0]);
	mxt_eq(nic[2], 0x0274c000024e);
	mxt_eq(nic[3] >> 40, 0x0a); /* a hash of the address */
	mxt_rc(MX_HOST_NOT_FOUND, mx_hostname_to_nic_id((char *)(uintptr_t) "alpha:2", &none));
	mxt_ok(mx_nic_id_to_hostname(nic[2], back));
	mxt_eq(strcmp(back, "alpha:1"), 0);
	mxt_ok(mx_nic_id_to_hostname(nic[3], back));
	mxt_eq(strcmp(back, "six:0"), 0);
	mxt_down();
	/* One that cannot be understood is said to be so. */
	f = fopen(path, "w");
	fputs("alpha\n", f);
	fclose(f);
	mx_set_error_handler(MX_ERRORS_RETURN);
	mxt_rc(MX_FAILURE, mx_init());
	unlink(path);
	mxt_rc(MX_FAILURE, mx_init());
	unsetenv("TAGWIRE_PEERS");
	mxt_up();
	mxt_down();
}
