/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided access between two processes over every provider: the owner has made its window
 * and does something else, the other accesses it. Over `self' it is one endpoint.
 */
#ifndef TW_TEST_WINDOWS_H
#define TW_TEST_WINDOWS_H

#include "lib/twc.h"
#include "mx_extensions.h"
#include "provider/pair.h"

#define KEY 0x1122334455667788ull
#define SIZE (3u << 20)
#define RIGHTS (MX_WINDOW_READ | MX_WINDOW_WRITE)
#define LONG_MS (1000u * (uint32_t)TWT_LONG)
#define FILTER 7

#define ok(call) twc_eq(call, MX_SUCCESS)

/* One of the two processes; peer is the other. */
struct win_side {
	mx_endpoint_t ep;
	mx_endpoint_addr_t peer;
	struct twt_child child;
	int fd;
	char *memory; /* of the owner, SIZE bytes */
	const char *providers, *protocol;
	void (*owner)(struct win_side *s);
};

void win_set_up(const struct traits *t, const char *protocol);
void win_open_endpoint(struct win_side *s);
void win_meet(struct win_side *s);
void win_make_window(struct win_side *s, uint32_t rights);
void win_begin(struct win_side *s, const struct traits *t, const char *protocol,
	       void (*owner)(struct win_side *s));
void win_end(struct win_side *s);
mx_request_t win_put(struct win_side *s, const void *from, uint32_t len, uint64_t key,
		     uint64_t offset);
mx_request_t win_get(struct win_side *s, void *to, uint32_t len, uint64_t key, uint64_t offset);
mx_status_code_t win_finish(struct win_side *s, mx_request_t r);

#define win_ends(s, r, want) twc_eq(win_finish(s, r), want)
#define win_succeeds(s, r) win_ends(s, r, MX_STATUS_SUCCESS)

/* Once as the provider moves data, once served. */
#define BOTH(test, traits)                                                                         \
	CONFORMANCE(window_##test, traits)                                                         \
	{                                                                                          \
		test(t, "auto");                                                                   \
	}                                                                                          \
	CONFORMANCE(window_##test##_served, traits)                                                \
	{                                                                                          \
		test(t, "copy");                                                                   \
	}

#endif /* TW_TEST_WINDOWS_H */
