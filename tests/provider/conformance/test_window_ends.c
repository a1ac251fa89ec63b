/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided access over every provider, amid its end: of the window, of its owner, of its user. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#if TW_HAVE_MX
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "provider/conformance/windows.h"

enum { ENDS = 60 };

/*
 * As soon as a window is deregistered its memory is the owner's. Goes on until the other side
 * has found a window, and none.
 */
static void ending_owner(struct win_side *s)
{
	uint64_t key = KEY;
	char seen;

	for (unsigned i = 0;
	     i < ENDS / twt_slow() + 1 || recv(s->fd, &seen, 1, MSG_DONTWAIT) <= 0; i++) {
		ok(mx_window_deregister(s->ep, KEY));
		memset(s->memory, 'o', SIZE);
		usleep(i % 3 * 300);
		for (uint32_t k = 0; k < SIZE; k++)
			twc_check(s->memory[k] == 'o');
		ok(mx_window_register(s->ep, s->memory, SIZE, RIGHTS, &key));
		usleep(i % 5 * 300);
	}
	twc_tell(s->fd);
	twc_hear(s->fd);
}

static void endings(const struct traits *t, const char *protocol)
{
	static const uint32_t lens[] = {8, 5000, SIZE, 100000, 0};
	char *memory = malloc(SIZE), over = 0;
	bool done = false, denied = false, told = false;
	struct win_side s;

	twc_check(memory);
	memset(memory, 'p', SIZE);
	win_begin(&s, t, protocol, ending_owner);
	for (unsigned i = 0; recv(s.fd, &over, 1, MSG_DONTWAIT) <= 0; i++) {
		mx_request_t r[5];

		for (unsigned k = 0; k < 5; k++)
			r[k] = (i + k) % 4 ? win_put(&s, memory, lens[k], KEY, SIZE - lens[k])
					   : win_get(&s, memory, lens[k], KEY, 0);
		for (unsigned k = 0; k < 5; k++) {
			mx_status_code_t code = win_finish(&s, r[k]);

			done |= code == MX_STATUS_SUCCESS;
			denied |= code != MX_STATUS_SUCCESS;
			if (code != MX_STATUS_SUCCESS)
				twc_eq(code, MX_STATUS_BAD_RDMAWIN);
		}
		memset(memory, 'p', SIZE);
		if (done && denied && !told)
			twc_tell(s.fd);
		told = done && denied;
	}
	win_succeeds(&s, win_put(&s, memory, SIZE, KEY, 0));
	twc_tell(s.fd);
	win_end(&s);
	free(memory);
}

BOTH(endings, OTHERS)

/* All that was begun ends when the owner is gone, however it goes. */
static void gone(const struct traits *t, const char *protocol, void (*owner)(struct win_side *s))
{
	char *memory = malloc(SIZE);
	mx_status_code_t code;
	mx_request_t r[50], flush;
	struct win_side s;

	twc_check(memory);
	win_begin(&s, t, protocol, owner);
	win_succeeds(&s, win_get(&s, memory, SIZE, KEY, 0));
	if (!owner)
		twc_eq(kill(s.child.pid, SIGKILL), 0);
	else
		twc_tell(s.fd);
	for (double until = twt_now() + TWT_LONG;;) {
		twc_check(twt_now() < until);
		for (unsigned i = 0; i < 50; i++)
			r[i] = win_put(&s, memory, i % 10 ? 100 : SIZE, i % 7 ? KEY : i, 0);
		ok(mx_flush(s.ep, s.peer, 0, &s, &flush));
		code = win_finish(&s, flush);
		for (unsigned i = 0; i < 50; i++)
			win_finish(&s, r[i]);
		if (code != MX_STATUS_SUCCESS)
			break;
	}
	twc_check(code == MX_STATUS_ENDPOINT_UNREACHABLE || code == MX_STATUS_ENDPOINT_CLOSED);
	win_ends(&s, win_get(&s, memory, 8, KEY, 0), code);
	twc_eq(twt_join(&s.child, TWT_LONG), owner ? 0 : 1000 + SIGKILL);
	ok(mx_close_endpoint(s.ep));
	ok(mx_finalize());
	free(memory);
}

static void closing_owner(struct win_side *s)
{
	twc_hear(s->fd);
	usleep(2000);
}

static void owner_dies(const struct traits *t, const char *protocol)
{
	gone(t, protocol, NULL);
}

static void owner_closes(const struct traits *t, const char *protocol)
{
	gone(t, protocol, closing_owner);
}

BOTH(owner_dies, OTHERS)
BOTH(owner_closes, OTHERS)

/* A peer that dies holds up no deregistration. */
static int using_side(void *arg, int fd)
{
	struct win_side *s = arg;
	char *memory = malloc(SIZE);

	s->fd = fd;
	win_meet(s);
	twc_hear(fd);
	twc_check(memory);
	win_succeeds(s, win_get(s, memory, SIZE, KEY, 0));
	twc_tell(fd);
	for (;;)
		win_finish(s, win_put(s, memory, SIZE, KEY, 0));
}

static void user_dies(const struct traits *t, const char *protocol)
{
	struct win_side s = {0};

	win_set_up(t, protocol);
	twt_spawn(&s.child, using_side, &s);
	s.fd = s.child.fd;
	win_meet(&s);
	win_make_window(&s, RIGHTS);
	twc_tell(s.fd);
	twc_hear(s.fd);
	usleep(1000);
	twc_eq(kill(s.child.pid, SIGKILL), 0);
	ok(mx_window_deregister(s.ep, KEY));
	memset(s.memory, 'o', SIZE);
	usleep(1000);
	for (uint32_t k = 0; k < SIZE; k++)
		twc_check(s.memory[k] == 'o');
	twc_eq(twt_join(&s.child, TWT_LONG), 1000 + SIGKILL);
	ok(mx_close_endpoint(s.ep));
	ok(mx_finalize());
	free(s.memory);
}

BOTH(user_dies, OTHERS)

#endif /* TW_HAVE_MX */
