/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The proof that two hosts belong together, with all that an attacker on the wire can do
 * to it: hear, keep, change, leave out, repeat, send back, mix.
 */
#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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
	e->link.channel = TW_NET_HELLO;
	e->link.sock = fds[0];
	e->wire = fds[1];
}

#define NOBODY 65534

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
	cr_assert(mkdtemp(folder) != NULL);
	snprintf(file, sizeof(file), "%s/key", folder);
	setenv("TAGWIRE_KEY", file, 1);
	setenv("HOME", folder, 1);
	cr_assert(tw_settings_load());
	if (!tw_module_installed("tls"))
		cr_skip_test("built without TLS");
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
	cr_assert(tw_net_auth() && tw_net_auth()->tls);
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

/* Who can write into the folder can put another file there. */
Test(key, folder_of_all)
{
	make_file(64, 0600);
	cr_assert_eq(chmod(folder, 0777), 0);
	cr_assert_null(tw_net_auth());
}

Test(key, sticky_folder)
{
	make_file(64, 0600);
	cr_assert_eq(chmod(folder, 01777), 0);
	cr_assert(tw_net_auth());
}

/* It is the real user's, who is not the one with whose rights the process runs. */
static void of_real_user(const char *path)
{
	make_file(64, 0600);
	if (getuid() != 0)
		cr_skip_test("only root can give a file away");
	cr_assert_eq(chown(path, NOBODY, NOBODY), 0);
	cr_assert_eq(setreuid(NOBODY, 0), 0);
	cr_assert_null(tw_net_auth());
	cr_assert_eq(setreuid(0, 0), 0);
}

Test(key, file_of_real_user)
{
	of_real_user(file);
}

Test(key, folder_of_real_user)
{
	of_real_user(folder);
}

static void is_mode(const char *path, mode_t mode)
{
	struct stat st;

	cr_assert_eq(stat(path, &st), 0, "%s", path);
	cr_assert_eq(st.st_mode & 07777, mode, "%s has mode %o", path, st.st_mode & 07777);
}

Test(key, made_under_any_umask)
{
	char path[100];

	*tw_settings.key = 0;
	umask(0777);
	cr_assert(tw_net_auth());
	umask(077);
	is_mode(tw_net_key_text(), 0600);
	snprintf(path, sizeof(path), "%s/.config/tagwire", folder);
	is_mode(path, 0700);
}

Test(key, none)
{
	strcpy(tw_settings.auth, "none");
	cr_assert(tw_net_auth() && !tw_net_auth()->tls);
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

static void end_all(void)
{
	struct end *const ends[] = {&caller, &listener, &other};

	for (int i = 0; i < 3; i++) {
		if (!ends[i]->wire)
			continue;
		tw_net_proof_end(&ends[i]->link);
		close(ends[i]->link.sock);
		close(ends[i]->wire);
		ends[i]->wire = 0;
	}
}

static void open_all(void)
{
	end_all();
	open_end(&caller, TW_NET_NEW);
	open_end(&listener, TW_NET_HALF_OPEN);
	open_end(&other, TW_NET_HALF_OPEN);
}

static void meet(void)
{
	begin();
	make_file(64, 0600);
	cr_assert(tw_net_auth());
	open_all();
}

static void part(void)
{
	end_all();
	end();
}

TestSuite(proof, .init = meet, .fini = part, .timeout = TWT_TIMEOUT);

/* Some bytes on the wire. */
struct bytes {
	size_t len;
	uint8_t at[4096];
};

/* What an end has said. */
static struct bytes heard(struct end *e)
{
	struct bytes b;
	ssize_t n = recv(e->wire, b.at, sizeof(b.at), MSG_DONTWAIT);

	b.len = n > 0 ? (size_t)n : 0;
	return b;
}

static void say(struct end *to, const struct bytes *b)
{
	cr_assert_eq(twt_put(to->wire, b->at, b->len), 0);
}

/* An end takes HELLO in, and goes on by TLS if it can. */
static enum tw_err go_on(struct end *e)
{
	enum tw_err err = TW_OK;
	struct tw_net_hello h;

	if (e->link.channel == TW_NET_HELLO) {
		if (tw_net_recv(&e->link, &h, sizeof(h)) != sizeof(h))
			return TW_AGAIN;
		err = tw_net_hello_take(&e->link, &h);
		e->link.channel = TW_NET_SHAKE;
	}
	if (err == TW_OK)
		err = tw_net_shake(&e->link);
	if (err == TW_OK)
		e->link.channel = TW_NET_OPEN;
	return err;
}

/* What one has said reaches the other, who goes on. */
static enum tw_err pass(struct end *from, struct end *to)
{
	struct bytes b = heard(from);

	say(to, &b);
	return go_on(to);
}

static void greet(struct end *to)
{
	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	cr_assert_eq(pass(&caller, to), TW_AGAIN);
	cr_assert_eq(pass(to, &caller), TW_OK);
	cr_assert_eq(pass(&caller, to), TW_OK);
}

static const struct tw_net_ctrl message = {.magic = TW_NET_MAGIC, .session = 5};

static struct bytes sealed(struct end *from)
{
	cr_assert(tw_net_transmit(&from->link, &message));
	return heard(from);
}

static bool takes(struct end *e)
{
	struct tw_net_ctrl t;

	return tw_net_recv(&e->link, &t, sizeof(t)) == sizeof(t) &&
	       memcmp(&t, &message, sizeof(t)) == 0;
}

/* It ends the connection, and not only for now. */
static bool is_changed(struct end *e)
{
	struct tw_net_ctrl t;

	return tw_net_recv(&e->link, &t, sizeof(t)) < 0 && errno == EBADMSG &&
	       tw_net_recv(&e->link, &t, sizeof(t)) < 0 && errno == EBADMSG;
}

Test(proof, both_ways)
{
	struct bytes b;

	greet(&listener);
	for (int i = 0; i < 100; i++) {
		b = sealed(&caller);
		say(&listener, &b);
		cr_assert(takes(&listener));
		b = sealed(&listener);
		say(&caller, &b);
		cr_assert(takes(&caller));
	}
	/* Nothing of it can be read. */
	cr_assert_null(memmem(b.at, b.len, &message.magic, sizeof(message.magic)));
}

Test(proof, every_byte_of_a_message_counts)
{
	size_t len = 1;

	for (size_t i = 0; i < len; i++) {
		struct bytes b;

		open_all();
		greet(&listener);
		b = sealed(&caller);
		len = b.len;
		b.at[i] ^= (uint8_t)(1 << i % 8);
		/* A length that is too great waits for the rest. */
		say(&listener, &b);
		if (i == 3 || i == 4)
			cr_assert_not(takes(&listener), "byte %zu", i);
		else
			cr_assert(is_changed(&listener), "byte %zu", i);
	}
	cr_assert_gt(len, sizeof(message));
}

/*
 * No changed byte of either side lets anybody in; HELLO has bytes without a meaning, and so has
 * the first record (RFC 8446, 5.1).
 */
Test(proof, every_byte_of_the_handshake_counts)
{
	const size_t head = offsetof(struct tw_net_hello, nonce),
		     hello = sizeof(struct tw_net_hello);
	size_t len = 1;

	for (int who = 0; who < 2; who++) {
		for (size_t i = 0; i < len; i++) {
			struct bytes b;
			enum tw_err err;

			if (i == head)
				i = hello;
			if (i == hello + 1)
				i += 2;
			open_all();
			cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
			if (who)
				cr_assert_eq(pass(&caller, &listener), TW_AGAIN);
			b = heard(who ? &listener : &caller);
			len = b.len;
			b.at[i] ^= (uint8_t)(1 << i % 8);
			say(who ? &caller : &listener, &b);
			err = go_on(who ? &caller : &listener);
			if (!who && err == TW_AGAIN)
				err = pass(&listener, &caller);
			cr_assert_neq(err, TW_OK, "byte %zu", i);
		}
		cr_assert_gt(len, 2 * hello);
	}
}

Test(proof, repeated)
{
	struct bytes b;

	greet(&listener);
	b = sealed(&caller);
	say(&listener, &b);
	cr_assert(takes(&listener));
	say(&listener, &b);
	cr_assert(is_changed(&listener));
}

Test(proof, in_another_order)
{
	struct bytes b;

	greet(&listener);
	sealed(&caller);
	b = sealed(&caller);
	say(&listener, &b);
	cr_assert(is_changed(&listener));
}

Test(proof, sent_back)
{
	struct bytes b;

	greet(&listener);
	b = sealed(&listener);
	say(&listener, &b);
	cr_assert(is_changed(&listener));
}

/* A caller's words of then, said again to a listener of now. */
Test(proof, replayed)
{
	struct bytes first, second;

	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	first = heard(&caller);
	say(&listener, &first);
	cr_assert_eq(go_on(&listener), TW_AGAIN);
	cr_assert_eq(pass(&listener, &caller), TW_OK);
	second = heard(&caller);
	say(&listener, &second);
	cr_assert_eq(go_on(&listener), TW_OK);
	say(&other, &first);
	cr_assert_eq(go_on(&other), TW_AGAIN);
	say(&other, &second);
	cr_assert_eq(go_on(&other), TW_EPERM);
}

/* A listener's words of then, said again to a caller of now. */
Test(proof, old_answer)
{
	struct bytes reply;

	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	cr_assert_eq(pass(&caller, &listener), TW_AGAIN);
	reply = heard(&listener);
	tw_net_proof_end(&caller.link);
	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	say(&caller, &reply);
	cr_assert_eq(go_on(&caller), TW_EPERM);
}

/* What the caller said is said back to it. */
Test(proof, reflected)
{
	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	cr_assert_eq(pass(&caller, &caller), TW_EPERM);
}

/* The key is another, and both sides see that. */
Test(proof, another_key)
{
	struct tw_net_auth *auth = (struct tw_net_auth *)tw_net_auth(); /* one object */

	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	auth->key[TW_NET_KEY_USER][31] ^= 1;
	cr_assert_eq(pass(&caller, &listener), TW_EPERM);
	cr_assert_eq(pass(&listener, &caller), TW_EPERM);
}

Test(proof, unlike)
{
	struct tw_net_hello h, good;

	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	cr_assert_eq(twt_get(caller.wire, &good, sizeof(good)), 0);
	h = good;
	h.version++;
	cr_assert_eq(tw_net_hello_take(&listener.link, &h), TW_EPROTO);
	cr_assert_eq(tw_net_hello_take(&caller.link, &h), TW_EPROTO);
	h = good;
	h.method = TW_NET_NONE;
	cr_assert_eq(tw_net_hello_take(&other.link, &h), TW_EPERM);
	cr_assert_eq(tw_net_hello_take(&caller.link, &h), TW_EPERM);
	h = good;
	h.magic++;
	cr_assert_eq(tw_net_hello_take(&listener.link, &h), TW_EPROTO);
}

/* One side encrypts and the other does not, whichever it is. */
Test(proof, encryption_of_one)
{
	struct tw_net_hello h[2];

	for (int caller_does = 0; caller_does < 2; caller_does++) {
		open_all();
		tw_settings.encrypt = caller_does;
		cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
		cr_assert_eq(twt_get(caller.wire, &h[caller_does], sizeof(*h)), 0);
		tw_settings.encrypt = !caller_does;
		cr_assert_eq(tw_net_hello_take(&listener.link, &h[caller_does]), TW_EPERM);
		cr_assert_eq(tw_net_hello_take(&caller.link, &h[caller_does]), TW_EPERM);
	}
	cr_assert_eq(h[0].method ^ h[1].method, TW_NET_ENCRYPTED);
}

/* Who changes what both HELLOs say of it is found out. */
Test(proof, encryption_changed)
{
	struct bytes b;

	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	b = heard(&caller);
	((struct tw_net_hello *)b.at)->method ^= TW_NET_ENCRYPTED;
	tw_settings.encrypt = true;
	say(&listener, &b);
	cr_assert_eq(go_on(&listener), TW_EPERM);
	b = heard(&listener);
	((struct tw_net_hello *)b.at)->method ^= TW_NET_ENCRYPTED;
	tw_settings.encrypt = false;
	say(&caller, &b);
	cr_assert_neq(go_on(&caller), TW_OK);
}

/* A caller with a key, to a listener, by a name of that key. */
static enum tw_err call_as(struct tw_net_key_name name, size_t len)
{
	const struct tw_net_auth *auth = tw_net_auth();
	struct tw_net_hello h = {.magic = TW_NET_MAGIC, .version = TW_NET_VERSION};

	h.method = TW_NET_BY_KEY;
	open_all();
	cr_assert_eq(twt_put(caller.link.sock, &h, sizeof(h)), 0);
	caller.link.proof.tls =
		auth->tls->call(caller.link.sock, &name, len, auth->key[TW_NET_KEY_USER]);
	cr_assert_eq(auth->tls->shake(caller.link.proof.tls), TW_AGAIN);
	return pass(&caller, &listener);
}

/* What a caller has said in clear is said once more in the name of its key. */
Test(proof, names)
{
	const struct tw_net_key_name good = {.magic = TW_NET_MAGIC,
					     .version = TW_NET_VERSION,
					     .method = TW_NET_BY_KEY,
					     .key = TW_NET_KEY_USER};
	const size_t len = offsetof(struct tw_net_key_name, credential);
	struct tw_net_key_name name = good;

	cr_assert_eq(call_as(name, len), TW_AGAIN);
	cr_assert_eq(call_as(name, len - 1), TW_EPERM);
	cr_assert_eq(call_as(name, sizeof(name)), TW_EPERM);
	name.version--;
	cr_assert_eq(call_as(name, len), TW_EPERM);
	name = good;
	name.method = TW_NET_BY_MUNGE;
	cr_assert_eq(call_as(name, len), TW_EPERM);
	name.method = TW_NET_BY_KEY | TW_NET_ENCRYPTED;
	cr_assert_eq(call_as(name, len), TW_EPERM);
	for (name = good; name.key != 1000; name.key = name.key == 3 ? 1000 : name.key + 1)
		cr_assert_eq(call_as(name, len), name.key == good.key ? TW_AGAIN : TW_EPERM);
}

/* A handshake without end takes no memory. */
Test(proof, endless)
{
	static const uint8_t record[] = {22, 3, 1, 0x40, 0, 1, 1, 0, 0};
	struct tw_net_hello h = {.magic = TW_NET_MAGIC, .version = TW_NET_VERSION};
	struct bytes b = {.len = sizeof(b.at)};
	enum tw_err err;

	h.method = TW_NET_BY_KEY;
	cr_assert_eq(twt_put(listener.wire, &h, sizeof(h)), 0);
	cr_assert_eq(twt_put(listener.wire, record, sizeof(record)), 0);
	cr_assert_eq(go_on(&listener), TW_AGAIN);
	memset(b.at, 0, sizeof(b.at));
	say(&listener, &b);
	err = go_on(&listener);
	if (err == TW_AGAIN) {
		say(&listener, &b);
		err = go_on(&listener);
	}
	cr_assert_eq(err, TW_EPERM);
}

/* A socket that is full loses messages, and no part of one. */
Test(proof, full)
{
	unsigned sent = 0, taken = 0;

	greet(&listener);
	for (int round = 0; round < 3; round++) {
		while (tw_net_transmit(&caller.link, &message))
			sent++;
		for (struct bytes b; (b = heard(&caller)).len;) {
			say(&listener, &b);
			while (takes(&listener))
				taken++;
			cr_assert_eq(errno, EAGAIN);
		}
	}
	cr_assert_geq(taken, sent);
	cr_assert_leq(taken, sent + 3); /* the last of each round left later */
}

Test(proof, hung_up)
{
	struct tw_net_ctrl t;

	greet(&listener);
	close(caller.wire);
	caller.wire = dup(0);
	cr_assert_eq(tw_net_recv(&caller.link, &t, sizeof(t)), 0);
}

/* The launcher's key first, then the user's. */
Test(proof, two_keys)
{
	struct tw_net_auth *auth;

	*tw_settings.key = 0;
	tw_jobkey_set(job_key);
	auth = (struct tw_net_auth *)tw_net_auth();
	cr_assert(auth->has[TW_NET_KEY_JOB] && auth->has[TW_NET_KEY_USER]);
	greet(&listener);
	cr_assert_eq(listener.link.proof.key, TW_NET_KEY_JOB);
	open_all();
	caller.link.proof.key = TW_NET_KEY_USER;
	greet(&listener);
	cr_assert_eq(listener.link.proof.key, TW_NET_KEY_USER);
	/* Of another job. */
	open_all();
	caller.link.proof.key = TW_NET_KEY_JOB;
	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	auth->key[TW_NET_KEY_JOB][0] ^= 1;
	cr_assert_eq(pass(&caller, &listener), TW_EPERM);
}

/* Both sides know the same, and others do not. */
Test(proof, secrets)
{
	const struct tw_net_tls *tls = tw_net_auth()->tls;
	uint8_t a[32], b[32];

	greet(&listener);
	cr_assert(tls->secret(caller.link.proof.tls, "EXPORTER-a", "one", 3, a, sizeof(a)));
	cr_assert(tls->secret(listener.link.proof.tls, "EXPORTER-a", "one", 3, b, sizeof(b)));
	cr_assert_arr_eq(a, b, sizeof(a));
	cr_assert(tls->secret(listener.link.proof.tls, "EXPORTER-a", "two", 3, b, sizeof(b)));
	cr_assert_neq(memcmp(a, b, sizeof(a)), 0);
	cr_assert(tls->secret(listener.link.proof.tls, "EXPORTER-b", "one", 3, b, sizeof(b)));
	cr_assert_neq(memcmp(a, b, sizeof(a)), 0);
	open_all();
	greet(&listener);
	cr_assert(tls->secret(listener.link.proof.tls, "EXPORTER-a", "one", 3, b, sizeof(b)));
	cr_assert_neq(memcmp(a, b, sizeof(a)), 0);
}

/* The two tokens of a path, as both sides have them. */
static struct tw_driver_tokens agreed(uint32_t number, uint32_t round, bool caller_asks)
{
	const struct tw_net_path p = {.number = number};
	struct tw_driver_tokens a, b;

	cr_assert(tw_net_tokens(&caller.link, &p, round, caller_asks, &a));
	cr_assert(tw_net_tokens(&listener.link, &p, round, !caller_asks, &b));
	cr_assert_arr_eq(a.mine, b.other, TW_DRIVER_TOKEN);
	cr_assert_arr_eq(a.other, b.mine, TW_DRIVER_TOKEN);
	cr_assert_neq(memcmp(a.mine, a.other, TW_DRIVER_TOKEN), 0);
	cr_assert_eq(a.encrypted, tw_settings.encrypt);
	cr_assert_eq(b.encrypted, tw_settings.encrypt);
	if (!a.encrypted)
		return a;
	cr_assert_arr_eq(a.my_key, b.other_key, TW_DRIVER_CIPHER);
	cr_assert_arr_eq(a.other_key, b.my_key, TW_DRIVER_CIPHER);
	cr_assert_neq(memcmp(a.my_key, a.other_key, TW_DRIVER_CIPHER), 0);
	cr_assert_neq(memcmp(a.my_key, a.mine, TW_DRIVER_TOKEN), 0);
	return a;
}

static void tokens_differ(void)
{
	struct tw_driver_tokens all[8];
	unsigned n = 0;

	for (uint32_t number = 0; number < 2; number++)
		for (uint32_t round = 7; round < 9; round++)
			for (int asks = 0; asks < 2; asks++)
				all[n++] = agreed(number, round, asks);
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < i; k++) {
			cr_assert_neq(memcmp(all[i].mine, all[k].mine, TW_DRIVER_TOKEN), 0);
			if (all[i].encrypted)
				cr_assert_neq(
					memcmp(all[i].my_key, all[k].my_key, TW_DRIVER_CIPHER), 0);
		}
}

Test(proof, tokens)
{
	struct tw_driver_tokens before;

	greet(&listener);
	tokens_differ();
	before = agreed(0, 0, true);
	open_all();
	greet(&listener);
	cr_assert_neq(memcmp(agreed(0, 0, true).mine, before.mine, TW_DRIVER_TOKEN), 0);
}

/* What each end of a path encrypts by. */
Test(proof, keys_of_paths)
{
	struct tw_driver_tokens before;

	tw_settings.encrypt = true;
	greet(&listener);
	tokens_differ();
	before = agreed(0, 0, true);
	open_all();
	greet(&listener);
	cr_assert_neq(memcmp(agreed(0, 0, true).my_key, before.my_key, TW_DRIVER_CIPHER), 0);
}

/* Without a key both sides still agree, but on nothing that nobody else knows. */
Test(key, tokens_without)
{
	const struct tw_net_path p = {.number = 0};
	struct tw_driver_tokens none;

	strcpy(tw_settings.auth, "none");
	cr_assert(tw_net_auth());
	open_all();
	cr_assert_eq(tw_net_hello_send(&caller.link), TW_OK);
	cr_assert_eq(pass(&caller, &listener), TW_OK);
	cr_assert_eq(pass(&listener, &caller), TW_OK);
	tokens_differ();
	tw_settings.encrypt = true;
	cr_assert_not(tw_net_tokens(&caller.link, &p, 0, true, &none));
	end_all();
}

/* Takes all that waits; the bytes, and whether the stream has ended. */
static size_t drain(int sending, int fd, bool *ended)
{
	size_t bytes = 0;
	int left = 1;

	do {
		char some[4096];
		ssize_t n = recv(fd, some, sizeof(some), MSG_DONTWAIT);

		bytes += n > 0 ? (size_t)n : 0;
		*ended = n == 0;
		cr_assert_eq(ioctl(sending, SIOCOUTQ, &left), 0);
		left += n > 0;
	} while (left && !*ended);
	return bytes;
}

/* What follows a message of which only a part left could not be read. */
Test(key, left_in_part)
{
	static const struct tw_net_ctrl none;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(to);
	int listener_fd = socket(AF_INET, SOCK_STREAM, 0), fd;
	struct pollfd p = {.events = POLLIN};
	bool ended = false;
	size_t bytes = 0;

	strcpy(tw_settings.auth, "none");
	cr_assert(tw_net_auth());
	caller.link = (struct tw_net_link){.sock = socket(AF_INET, SOCK_STREAM, 0)};
	cr_assert_eq(bind(listener_fd, (struct sockaddr *)&to, len), 0);
	cr_assert_eq(listen(listener_fd, 1), 0);
	cr_assert_eq(getsockname(listener_fd, (struct sockaddr *)&to, &len), 0);
	cr_assert_eq(connect(caller.link.sock, (struct sockaddr *)&to, len), 0);
	p.fd = fd = accept(listener_fd, NULL, NULL);
	for (int round = 0; round < 100 && bytes % sizeof(none) == 0 && !ended; round++) {
		while (tw_net_transmit(&caller.link, &none))
			;
		bytes += drain(caller.link.sock, fd, &ended);
	}
	cr_assert_neq(bytes % sizeof(none), 0, "all that left was whole");
	if (!ended)
		cr_assert_eq(poll(&p, 1, 2000 * (int)twt_patience()), 1);
	cr_assert_eq(recv(fd, &bytes, 1, MSG_DONTWAIT), 0);
}
