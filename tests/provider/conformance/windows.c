/* SPDX-License-Identifier: BSD-2-Clause */
/* The two sides of the tests of one-sided access. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#if TW_HAVE_MX
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider/conformance/windows.h"

void win_set_up(const struct traits *t, const char *protocol)
{
	char names[64];

	if (!*t->name || !strcmp(t->name, "lossy"))
		cr_skip_test("nothing that mx_init() finds by name");
	twc_job();
	snprintf(names, sizeof(names), "self,%s", t->name);
	setenv("TAGWIRE_PROVIDERS", names, 1);
	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	setenv("TAGWIRE_RNDV", protocol, 1);
	mx_set_error_handler(MX_ERRORS_RETURN);
}

void win_open_endpoint(struct win_side *s)
{
	ok(mx_init());
	ok(mx_open_endpoint(twt_board, MX_ANY_ENDPOINT, FILTER, NULL, 0, &s->ep));
}

void win_meet(struct win_side *s)
{
	struct {
		uint64_t nic;
		uint32_t id;
	} me = {0, 0}, other;
	mx_endpoint_addr_t addr;

	win_open_endpoint(s);
	ok(mx_get_endpoint_addr(s->ep, &addr));
	ok(mx_decompose_endpoint_addr(addr, &me.nic, &me.id));
	twc_eq(twt_put(s->fd, &me, sizeof(me)), 0);
	twc_eq(twt_get(s->fd, &other, sizeof(other)), 0);
	ok(mx_connect(s->ep, other.nic, other.id, FILTER, TWT_LONG, &s->peer));
	twc_tell(s->fd);
	twc_hear(s->fd);
}

void win_make_window(struct win_side *s, uint32_t rights)
{
	uint64_t key = KEY;

	s->memory = malloc(SIZE);
	twc_check(s->memory);
	twt_fill(s->memory, SIZE, 1);
	ok(mx_window_register(s->ep, s->memory, SIZE, rights, &key));
	twc_eq(key, KEY);
}

static int far_side(void *arg, int fd)
{
	struct win_side *s = arg;

	s->fd = fd;
	win_meet(s);
	win_make_window(s, RIGHTS);
	twc_tell(fd);
	if (s->owner)
		s->owner(s);
	else
		twc_hear(fd); /* it computes, or sleeps: it makes no call */
	ok(mx_close_endpoint(s->ep));
	ok(mx_finalize());
	return 0;
}

/* The side that accesses; s->peer is the owner. */
void win_begin(struct win_side *s, const struct traits *t, const char *protocol,
	       void (*owner)(struct win_side *s))
{
	win_set_up(t, protocol);
	memset(s, 0, sizeof(*s));
	s->owner = owner;
	if (!(t->can & OTHERS)) {
		win_open_endpoint(s);
		ok(mx_get_endpoint_addr(s->ep, &s->peer));
		win_make_window(s, RIGHTS);
		return;
	}
	twt_spawn(&s->child, far_side, s);
	s->fd = s->child.fd;
	win_meet(s);
	twc_hear(s->fd);
}

void win_end(struct win_side *s)
{
	if (s->fd && !s->owner)
		twc_tell(s->fd);
	if (s->fd)
		twc_eq(twt_join(&s->child, TWT_LONG), 0);
	ok(mx_close_endpoint(s->ep));
	ok(mx_finalize());
	free(s->memory);
}

mx_request_t win_put(struct win_side *s, const void *from, uint32_t len, uint64_t key,
		     uint64_t offset)
{
	mx_segment_t seg = {(void *)(uintptr_t)from, len};
	mx_request_t r;

	ok(mx_put(s->ep, &seg, 1, s->peer, key, offset, 1, s, &r));
	return r;
}

mx_request_t win_get(struct win_side *s, void *to, uint32_t len, uint64_t key, uint64_t offset)
{
	mx_segment_t seg = {to, len};
	mx_request_t r;

	ok(mx_get(s->ep, &seg, 1, s->peer, key, offset, 2, s, &r));
	return r;
}

mx_status_code_t win_finish(struct win_side *s, mx_request_t r)
{
	uint32_t result = 0;
	mx_status_t st;

	ok(mx_wait(s->ep, &r, LONG_MS, &st, &result));
	twc_check(result);
	twc_check(st.context == s);
	if (st.code == MX_STATUS_SUCCESS)
		twc_eq(st.xfer_length, st.msg_length);
	return st.code;
}

#endif /* TW_HAVE_MX */
