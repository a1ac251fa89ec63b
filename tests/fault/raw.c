/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/raw.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"
#include "lib/twt.h"
#include "shmem/sealed.h"
#include "shmem/sock.h"

#define SLOTS 64
#define BYTES 65536
#define MOST_FDS 4

struct tw_shm_hello raw_hello(uint16_t kind, uint64_t nic_id, uint32_t endpoint_id, uint32_t key)
{
	static uint32_t session;

	return (struct tw_shm_hello){.magic = TW_SHM_MAGIC,
				     .version = TW_SHM_VERSION,
				     .kind = kind,
				     .nic_id = nic_id,
				     .endpoint_id = endpoint_id,
				     .session = ++session ^ (uint32_t)getpid() << 12,
				     .filter = key,
				     .presented = key,
				     .window = 4096,
				     .nslots = SLOTS,
				     .nbytes = BYTES,
				     .barrier = 1};
}

bool raw_send(int sock, const void *bytes, size_t len, const int *fds, unsigned nfds)
{
	union {
		char buf[CMSG_SPACE(MOST_FDS * sizeof(int))];
		struct cmsghdr align;
	} ctl = {{0}};
	struct iovec iov = {(void *)(uintptr_t)bytes, len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (nfds) {
		m.msg_control = &ctl;
		m.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		ctl.align.cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(&ctl.align), fds, nfds * sizeof(int));
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

/* Receives an introduction and at most two descriptors. */
static bool receive(struct raw *r, int *fds, unsigned *nfds, int ms)
{
	union {
		char buf[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = {&r->other, sizeof(r->other)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &ctl,
			   .msg_controllen = sizeof(ctl)};
	struct pollfd p = {.fd = r->sock, .events = POLLIN};
	struct cmsghdr *c;

	*nfds = 0;
	if (poll(&p, 1, ms) != 1 || recvmsg(r->sock, &m, MSG_CMSG_CLOEXEC) != sizeof(r->other))
		return false;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_type == SCM_RIGHTS) {
		*nfds = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), *nfds * sizeof(int));
	}
	return true;
}

static void lay_out(struct raw *r, uint32_t nslots, uint32_t nbytes, bool first)
{
	r->size = tw_rings_size(nslots, nbytes);
	tw_ring_share_init(&r->share, nbytes);
	tw_ring_tx_init(&r->tx, r->map, first ? TW_RING_FIRST : TW_RING_SECOND, nslots, nbytes,
			&r->share);
	tw_ring_rx_init(&r->rx, r->map, first ? TW_RING_SECOND : TW_RING_FIRST, nslots, nbytes);
	tw_ring_pair(&r->tx, &r->rx, first);
}

static void begin(struct raw *r)
{
	memset(r, 0, sizeof(*r));
	r->sock = -1;
}

bool raw_connect(struct raw *r, uint64_t nic_id, uint32_t endpoint_id,
		 const struct tw_shm_hello *hello)
{
	int fd, got[2];
	unsigned n = 0;
	bool good = false;

	begin(r);
	if (tw_shm_dial(nic_id, endpoint_id, &r->sock) != TW_OK)
		return false;
	if (tw_shm_segment_make(SLOTS, BYTES, &fd, &r->map) == TW_OK) {
		lay_out(r, SLOTS, BYTES, true);
		good = raw_send(r->sock, hello, sizeof(*hello), &fd, 1) &&
		       receive(r, got, &n, 1000 * TWT_LONG) && r->other.kind == TW_SHM_ACCEPT &&
		       n == 0 && tw_sock_peer(r->sock, &r->victim) == 0;
		close(fd);
	}
	while (n)
		close(got[--n]);
	if (!good)
		raw_close(r);
	return good;
}

static bool take_rings(struct raw *r, int fd)
{
	size_t size = tw_rings_size(r->other.nslots, r->other.nbytes);

	r->map = tw_sealed_sound(fd, size) ? tw_sealed_map(fd, size, PROT_READ | PROT_WRITE) : NULL;
	return r->map != NULL;
}

bool raw_accept(struct raw *r, int listener, const struct tw_shm_hello *hello, int ms)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	int got[2];
	unsigned n = 0;
	bool good;

	begin(r);
	if (poll(&p, 1, ms) != 1)
		return false;
	r->sock = tw_fd_own(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	good = r->sock >= 0 && receive(r, got, &n, ms) && n == 1 && take_rings(r, got[0]) &&
	       tw_sock_peer(r->sock, &r->victim) == 0;
	if (good) {
		lay_out(r, r->other.nslots, r->other.nbytes, false);
		good = !hello || raw_send(r->sock, hello, sizeof(*hello), NULL, 0);
	}
	while (n)
		close(got[--n]);
	if (!good)
		raw_close(r);
	return good;
}

void raw_close(struct raw *r)
{
	if (r->sock >= 0)
		tw_fd_close(r->sock);
	if (r->map)
		munmap(r->map, r->size);
	begin(r);
}

bool raw_dropped(const struct raw *r, int ms)
{
	struct pollfd p = {.fd = r->sock, .events = POLLRDHUP};

	return poll(&p, 1, ms) == 1;
}

static int odd_memory(unsigned seals, size_t size)
{
	int fd = memfd_create("odd", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
		fcntl(fd, F_ADD_SEALS, seals);
	return fd;
}

int raw_odd_fd(uint64_t random)
{
	const unsigned all = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
	size_t size = random & 1 ? TW_PAGE : tw_rings_size(SLOTS, BYTES);
	int p[2];

	switch (random / 4 % 6) {
	case 0:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case 1:
		return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	case 2:
		if (pipe2(p, O_CLOEXEC) < 0)
			return -1;
		close(p[1]);
		return p[0];
	case 3: /* not sealed */
		return odd_memory(0, size);
	case 4: /* not enough seals */
		return odd_memory(all & ~(unsigned)F_SEAL_SHRINK, size);
	default: /* of another size */
		return odd_memory(all, random & 2 ? size + TW_PAGE : size / 2);
	}
}
