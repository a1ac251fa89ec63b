/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The handshake of shared memory, from both sides: introductions and answers of
 * any content and length with any descriptors, then bytes in the socket.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/settings.h"
#include "fault/raw.h"
#include "fuzz/fuzz.h"
#include "provider/fake.h"

const unsigned fuzz_inputs = 3000;

#define ENOUGH 8192

extern const struct tw_provider tw_provider_shm;

static struct fake engine;
static struct tw_sock_listener listener;

static void set_up(void)
{
	char job[40];

	snprintf(job, sizeof(job), "fuzz-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	FUZZ_MUST(tw_settings_load());
	tw_settings.ring_slots = 64;
	tw_settings.ring_bytes = 65536;
	tw_clock_init();
	FUZZ_MUST(fake_open(&engine, &tw_provider_shm, 1) == TW_OK);
	FUZZ_MUST(tw_shm_listen(FAKE_BOARD, 9, &listener) == TW_OK);
}

/* Good and bad descriptors, made once. */
static int descriptor(uint8_t which)
{
	static int fd[6];
	void *map;

	if (!fd[0]) {
		FUZZ_MUST(tw_shm_segment_make(64, 65536, &fd[0], &map) == TW_OK);
		FUZZ_MUST(tw_shm_segment_make(64, 65536 * 2, &fd[1], &map) == TW_OK);
		fd[2] = memfd_create("plain", MFD_CLOEXEC);
		fd[3] = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		FUZZ_MUST(ftruncate(fd[3], 100) == 0);
		fcntl(fd[3], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
		fd[4] = open("/dev/null", O_RDWR | O_CLOEXEC);
		fd[5] = listener.fd[TW_SOCK_OWN];
	}
	return fd[which % 6];
}

/* One message as the input says. */
static void say(int sock, struct input *in, uint16_t kind)
{
	struct tw_shm_hello h = raw_hello(kind, FAKE_BOARD, 7, engine.host.self.filter);
	uint8_t bytes[128] = {0};
	size_t len = sizeof(h);
	unsigned nfds = kind == TW_SHM_CONNECT;
	int fds[4] = {descriptor(0), descriptor(1)};
	uint8_t how = in_byte(in);

	memcpy(bytes, &h, sizeof(h));
	for (unsigned n = how % 8; n; n--) {
		uint8_t at = in_byte(in);

		bytes[at % sizeof(h)] = in_byte(in);
	}
	if (how & 8)
		len = in_byte(in) % sizeof(bytes);
	if (how & 16) {
		nfds = in_byte(in) % 5;
		for (unsigned i = 0; i < nfds; i++)
			fds[i] = descriptor(in_byte(in));
	}
	raw_send(sock, bytes, len, fds, nfds);
}

static void pump(void)
{
	for (int i = 0; i < 4; i++)
		fake_pump(&engine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	int sock = -1;

	if (!engine.ops)
		set_up();
	if (in_byte(&in) % 2) {
		FUZZ_MUST(tw_shm_dial(FAKE_BOARD, 1, &sock) == TW_OK);
		pump();
		say(sock, &in, TW_SHM_CONNECT);
	} else {
		fake_connect(&engine, FAKE_BOARD, 9, 0);
		sock = accept4(listener.fd[TW_SOCK_OWN], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (sock >= 0)
			tw_fd_own(sock);
		say(sock, &in, in_byte(&in) % 4 ? TW_SHM_ACCEPT : TW_SHM_REFUSE);
	}
	pump();
	while (in.left) {
		uint8_t n = in_byte(&in);

		if (n == 255)
			say(sock, &in, TW_SHM_CONNECT);
		else
			raw_send(sock, &n, 1, NULL, 0);
		pump();
	}
	tw_fd_close(sock);
	pump();
	/* Everybody has gone. */
	for (unsigned i = 0; i < engine.npeers; i++)
		FUZZ_MUST(engine.peers[i].state != FAKE_UP && engine.peers[i].state != FAKE_NEW);
	engine.npeers = 0;
	engine.wrong = NULL;
	return 0;
}
