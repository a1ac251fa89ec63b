/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The proof that two hosts belong together, with all that an attacker on the wire can do
 * to it: hear, keep, change, repeat, send back, mix.
 * Needs: NET.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/jobkey.h"
#include "base/module.h"
#include "base/settings.h"
#include "lib/twt.h"
#include "providers/net/session.h"

static struct end {
	struct tw_net_link link;
	int wire; /* what its socket is connected to */
} caller, listener, other;

static void open_end(struct end *e, enum tw_net_state state)
{
	int fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	memset(e, 0, sizeof(*e));
	e->link.state = state;
	e->link.sock = fds[0];
	e->wire = fds[1];
}

static char folder[] = "/tmp/tagwire-key-XXXXXX", file[64];

/* A file with this many bytes and this mode, which TAGWIRE_KEY names. */
static void make_file(unsigned bytes, mode_t mode)
{
	FILE *f = fopen(file, "w");

	cr_assert(f != NULL);
	for (unsigned i = 0; i < bytes; i++)
		fputc('a' + (int)(i % 26), f);
	fclose(f);
	cr_assert_eq(chmod(file, mode), 0);
}

static void begin(void)
{
	char why[100];

	cr_assert(mkdtemp(folder) != NULL);
	snprintf(file, sizeof(file), "%s/key", folder);
	setenv("TAGWIRE_KEY", file, 1);
	setenv("HOME", folder, 1);
	cr_assert_eq(tw_settings_load(why, sizeof(why)), 0, "%s", why);
	if (!tw_module_installed("sodium"))
		cr_skip_test("built without libsodium");
}

static void end(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(key, .init = begin, .fini = end, .timeout = TWT_TIMEOUT);

Test(key, good)
{
	make_file(32, 0600);
	cr_assert(tw_net_auth() && tw_net_auth()->crypto);
}

Test(key, read_only)
{
	make_file(4096, 0400);
	cr_assert(tw_net_auth());
}

Test(key, missing)
{
	cr_assert_null(tw_net_auth());
}

Test(key, others_can_read)
{
	make_file(64, 0640);
	cr_assert_null(tw_net_auth());
}

Test(key, others_can_write)
{
	make_file(64, 0602);
	cr_assert_null(tw_net_auth());
}

Test(key, too_short)
{
	make_file(31, 0600);
	cr_assert_null(tw_net_auth());
}

Test(key, too_long)
{
	make_file(4097, 0600);
	cr_assert_null(tw_net_auth());
}

Test(key, a_folder)
{
	cr_assert_eq(mkdir(file, 0700), 0);
	cr_assert_null(tw_net_auth());
}

Test(key, no_such_way)
{
	make_file(64, 0600);
	strcpy(tw_settings.auth, "nine");
	cr_assert_null(tw_net_auth());
}

Test(key, none)
{
	strcpy(tw_settings.auth, "none");
	cr_assert(tw_net_auth() && !tw_net_auth()->crypto);
}

/* Many processes make the user's own file at the same time: all have the same key. */
Test(key, made_once)
{
	uint8_t key[2][TW_NET_KEY];
	struct stat st;
	int fds[2];

	*tw_settings.key = 0;
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	for (int i = 0; i < 16; i++)
		if (fork() == 0)
			_exit(!tw_net_auth() || write(fds[1], tw_net_auth()->key[TW_NET_KEY_USER],
						      TW_NET_KEY) != TW_NET_KEY);
	for (int i = 0; i < 16; i++) {
		int status;

		cr_assert(wait(&status) > 0);
		cr_assert_eq(status, 0);
		cr_assert_eq(twt_get(fds[0], key[i > 0], TW_NET_KEY), 0);
		cr_assert_arr_eq(key[i > 0], key[0], TW_NET_KEY);
	}
	cr_assert(tw_net_auth());
	cr_assert_arr_eq(tw_net_auth()->key[TW_NET_KEY_USER], key[0], TW_NET_KEY);
	cr_assert_eq(stat(tw_net_key_text(), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0600);
	cr_assert_eq(st.st_size, 2 * TW_NET_KEY + 1);
}

static const uint8_t job_key[TW_JOBKEY] = "the key of a launcher, 32 bytes";

/* The user's own file counts beside it, but need not exist. */
Test(key, of_a_launcher)
{
	*tw_settings.key = 0;
	setenv("HOME", "/dev/null", 1);
	tw_jobkey_set(job_key);
	cr_assert(tw_net_auth() && tw_net_auth()->has[TW_NET_KEY_JOB]);
	cr_assert_arr_eq(tw_net_auth()->key[TW_NET_KEY_JOB], job_key, TW_NET_KEY);
	cr_assert(!tw_net_auth()->has[TW_NET_KEY_USER]);
	cr_assert(strstr(tw_net_key_text(), "the launcher's") != NULL);
}

Test(key, of_a_launcher_later)
{
	const struct tw_net_auth *before;

	*tw_settings.key = 0;
	before = tw_net_auth();
	cr_assert(before && !before->has[TW_NET_KEY_JOB]);
	tw_jobkey_set(job_key);
	cr_assert(tw_net_auth()->has[TW_NET_KEY_JOB] && tw_net_auth()->has[TW_NET_KEY_USER]);
	cr_assert(!before->has[TW_NET_KEY_JOB]);
}

Test(key, what_the_user_names_wins)
{
	make_file(64, 0600);
	tw_jobkey_set(job_key);
	cr_assert(tw_net_auth() && !tw_net_auth()->has[TW_NET_KEY_JOB]);
}

/* The proof -------------------------------------------------------------------- */

static void meet(void)
{
	begin();
	make_file(64, 0600);
	cr_assert(tw_net_auth());
	open_end(&caller, TW_NET_NEW);
	open_end(&listener, TW_NET_HALF_OPEN);
	open_end(&other, TW_NET_HALF_OPEN);
}

TestSuite(proof, .init = meet, .fini = end, .timeout = TWT_TIMEOUT);

/* What an end has said. */
static struct tw_net_hello heard(struct end *e)
{
	struct tw_net_hello h;

	cr_assert_eq(twt_get(e->wire, &h, sizeof(h)), 0);
	return h;
}

static void greet(struct end *to)
{
	struct tw_net_hello h;

	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	h = heard(&caller);
	cr_assert_eq(tw_net_hello_take(&to->link, &h, NULL), TW_OK);
	h = heard(to);
	cr_assert_eq(tw_net_hello_take(&caller.link, &h, NULL), TW_OK);
}

static const struct tw_net_ctrl message = {.magic = TW_NET_MAGIC, .session = 5};

static bool takes(struct end *e, const struct tw_net_sealed *s)
{
	struct tw_net_ctrl t;

	return tw_net_unseal(&e->link, s, &t) && memcmp(&t, &message, sizeof(t)) == 0;
}

Test(proof, both_ways)
{
	struct tw_net_sealed s;

	greet(&listener);
	for (int i = 0; i < 100; i++) {
		tw_net_seal(&caller.link, &message, &s);
		cr_assert(takes(&listener, &s));
		tw_net_seal(&listener.link, &message, &s);
		cr_assert(takes(&caller, &s));
	}
	/* Nothing of it can be read. */
	cr_assert_null(memmem(&s, sizeof(s), &message.magic, sizeof(message.magic)));
}

Test(proof, every_bit_counts)
{
	struct tw_net_sealed s, bad;
	struct tw_net_link before;

	greet(&listener);
	tw_net_seal(&caller.link, &message, &s);
	before = listener.link;
	for (unsigned bit = 0; bit < 8 * sizeof(s); bit++) {
		bad = s;
		((uint8_t *)&bad)[bit / 8] ^= (uint8_t)(1 << bit % 8);
		listener.link = before;
		cr_assert(!takes(&listener, &bad), "bit %u", bit);
	}
	listener.link = before;
	cr_assert(takes(&listener, &s));
}

Test(proof, repeated)
{
	struct tw_net_sealed s;

	greet(&listener);
	tw_net_seal(&caller.link, &message, &s);
	cr_assert(takes(&listener, &s));
	cr_assert(!takes(&listener, &s));
}

Test(proof, in_another_order)
{
	struct tw_net_sealed first, second;

	greet(&listener);
	tw_net_seal(&caller.link, &message, &first);
	tw_net_seal(&caller.link, &message, &second);
	cr_assert(!takes(&listener, &second));
}

Test(proof, sent_back)
{
	struct tw_net_sealed s;

	greet(&listener);
	tw_net_seal(&listener.link, &message, &s);
	cr_assert(!takes(&listener, &s));
}

/* A caller's words of then, said again to a listener of now. */
Test(proof, replayed)
{
	struct tw_net_hello h, reply;
	struct tw_net_sealed s;

	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	h = heard(&caller);
	cr_assert_eq(tw_net_hello_take(&listener.link, &h, NULL), TW_OK);
	reply = heard(&listener);
	cr_assert_eq(tw_net_hello_take(&caller.link, &reply, NULL), TW_OK);
	tw_net_seal(&caller.link, &message, &s);
	cr_assert_eq(tw_net_hello_take(&other.link, &h, NULL), TW_OK);
	cr_assert(!takes(&other, &s));
	cr_assert(takes(&listener, &s));
}

/* A listener's words of then, said again to a caller of now. */
Test(proof, old_answer)
{
	struct tw_net_hello h, reply;

	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	h = heard(&caller);
	cr_assert_eq(tw_net_hello_take(&listener.link, &h, NULL), TW_OK);
	reply = heard(&listener);
	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	cr_assert_eq(tw_net_hello_take(&caller.link, &reply, NULL), TW_EPERM);
}

/* What the caller said is said back to it; and what another caller's listener said. */
Test(proof, reflected)
{
	struct tw_net_hello h;

	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	h = heard(&caller);
	cr_assert_eq(tw_net_hello_take(&caller.link, &h, NULL), TW_EPERM);
	memcpy(h.proof, h.nonce, sizeof(h.proof));
	cr_assert_eq(tw_net_hello_take(&caller.link, &h, NULL), TW_EPERM);
}

Test(proof, unlike)
{
	struct tw_net_hello h, good;

	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	good = h = heard(&caller);
	h.version++;
	cr_assert_eq(tw_net_hello_take(&listener.link, &h, NULL), TW_EPROTO);
	cr_assert_eq(tw_net_hello_take(&caller.link, &h, NULL), TW_EPROTO);
	h = good;
	h.method = TW_NET_NONE;
	cr_assert_eq(tw_net_hello_take(&other.link, &h, NULL), TW_EPERM);
	cr_assert_eq(tw_net_hello_take(&caller.link, &h, NULL), TW_EPERM);
	h = good;
	h.magic++;
	cr_assert_eq(tw_net_hello_take(&listener.link, &h, NULL), TW_EPROTO);
}

/* The launcher's key, and the file. */
static void launched(void)
{
	*tw_settings.key = 0;
	tw_jobkey_set(job_key);
	cr_assert(tw_net_auth()->has[TW_NET_KEY_JOB]);
}

/* The names that a caller says are part of the proof. */
Test(proof, names_changed)
{
	struct tw_net_hello h;

	launched();
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
		h = heard(&caller);
		memset(h.names[!i], 0x55, TW_NET_NAME);
		listener.link.proof.other_job = false;
		cr_assert_eq(tw_net_hello_take(&listener.link, &h, NULL), TW_OK);
		cr_assert_eq(listener.link.proof.other_job, i == TW_NET_KEY_USER);
		h = heard(&listener);
		cr_assert_eq(tw_net_hello_take(&caller.link, &h, NULL), TW_EPERM);
	}
}

/* They do not tell one call from another of the same caller. */
Test(proof, names_are_new)
{
	struct tw_net_hello a, b;

	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	a = heard(&caller);
	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	b = heard(&caller);
	cr_assert_neq(memcmp(a.names[TW_NET_KEY_USER], b.names[TW_NET_KEY_USER], TW_NET_NAME), 0);
}
