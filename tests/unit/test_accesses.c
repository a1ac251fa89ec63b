/* SPDX-License-Identifier: BSD-2-Clause */
/* Delegated accesses, step by step: either side, with another that does what the test says. */
#include "unit/peer_kit.h"
#include "unit/ring_kit.h"
#include "unit/syscall_kit.h"
#include "engine/window_internal.h"

enum { KEY = 1, LEN = 4096, WORD = 8, LONG = 100 };

static struct tw_link shm;
static struct ring ring;
static char window[LEN] __attribute__((aligned(8))), data[LEN];

/* What the accessor has sent and moved itself, and what the owner does then. */
static struct tw_hdr sent;
static struct tw_window_msg asked;
static unsigned asks, moves;
static void (*owner)(void);

static enum tw_err access_sent(struct tw_link *link, enum tw_send_class cls, struct tw_hdr hdr,
			       const struct iovec *iov, unsigned niov, uint32_t len)
{
	(void)link, (void)cls, (void)niov, (void)len;
	sent = hdr;
	memcpy(&asked, iov->iov_base, sizeof(asked));
	asks++;
	if (owner && (tw_hdr_flags(hdr) & TW_WINDOW_DELEGATED))
		owner();
	return TW_OK;
}

static enum tw_err access_moved(struct tw_link *link, bool put, const struct iovec *iov,
				unsigned niov, uint64_t address, const void *key, void *cookie)
{
	(void)link, (void)put, (void)iov, (void)niov, (void)address, (void)key, (void)cookie;
	moves++;
	return TW_OK;
}

static bool polls_now(struct tw_link *link, uint64_t since)
{
	(void)link, (void)since;
	return true;
}

static const struct tw_provider provider = {
	.name = "one", .send = access_sent, .rma = access_moved, .polls = polls_now};
static void begin(void)
{
	start(&ring, 0, 0);
	shm = (struct tw_link){.provider = &provider,
			       .by_cpu = true,
			       .can_get = true,
			       .txq = &ring.tx,
			       .max_payload = MAX_PAYLOAD};
	peer_kit_begin(&shm);
	cr_assert_not_null(tw_windows_get(ep));
	owner = NULL;
	asks = moves = 0;
	peer->windows.turn = 6; /* as if there had been some */
	atomic_store(&ring.tx.ring->delegate.turn, 6u << TW_DELEGATE_BITS);
}

static void end(void)
{
	stop(&ring);
	free(ep->windows);
	peer_kit_end();
}

TestSuite(accesses, .init = begin, .fini = end, .timeout = TWT_TIMEOUT);

static uint32_t word(uint32_t turn, enum tw_delegate state)
{
	return turn << TW_DELEGATE_BITS | state;
}

static void set_word(enum tw_delegate state)
{
	atomic_store(&ring.tx.ring->delegate.turn, word(peer->windows.turn, state));
}

/* The accessor --------------------------------------------------------------- */

static void does(void)
{
	memcpy(ring.tx.ring->delegate.result, "owner's", WORD);
	set_word(TW_DELEGATE_DONE);
}

static void begins(void)
{
	set_word(TW_DELEGATE_BEGUN);
}

static void refuses(void)
{
	set_word(TW_DELEGATE_BACK);
}

/* An access to a window that the accessor knows, of an owner that polls. */
static struct tw_req *access_by(enum tw_kind kind, uint32_t len, void (*does_then)(void))
{
	struct tw_import *w = tw_import_get(peer, KEY);
	struct tw_req *r = tw_req_new1(ep, (uint8_t)kind, data, len);

	cr_assert(w && r);
	w->state = TW_IMPORT_OPEN;
	w->grant.rights = TW_WINDOW_READ | TW_WINDOW_WRITE;
	w->grant.len = LEN;
	owner = does_then;
	peer->windows.polled = tw_clock() + tw_clock_us(TWT_LONG * 1000000ull);
	peer->windows.skip = 0;
	tw_window_access(ep, r, peer->addr, KEY, 0);
	cr_assert_eq(r->asked, peer->windows.asked);
	return r;
}

static enum tw_err reply(uint32_t len)
{
	struct {
		struct tw_window_msg m;
		char data[LONG];
	} packet = {.m = {.status = TW_S_OK}};
	uint32_t all = (uint32_t)sizeof(packet.m) + len;

	memset(packet.data, 'r', sizeof(packet.data));
	return tw_window_packet(peer, tw_hdr_make(TW_WINDOW, TW_WINDOW_REPLY, 0, all, sent.match),
				&packet, all);
}

Test(accesses, done_by_the_owner)
{
	cr_assert(access_by(TW_WRITE, WORD, does)->flags & TW_R_DONE);
	cr_assert(access_by(TW_READ, WORD, does)->flags & TW_R_DONE);
	cr_assert_str_eq(data, "owner's");
	cr_assert_eq(asks, 2u);
	cr_assert_eq(moves, 0u);
	cr_assert_eq(peer->windows.puts, 0u);
}

/* Not begun, or refused by the owner: the accessor does it, and the owner does not. */
Test(accesses, taken_back)
{
	cr_assert(access_by(TW_WRITE, WORD, NULL)->flags & TW_R_DONE);
	cr_assert_eq(moves, 1u);
	cr_assert_not(tw_ring_delegate_claim(&ring.rx, peer->windows.turn));
	cr_assert(access_by(TW_READ, LONG, NULL)->flags & TW_R_DONE);
	cr_assert_eq(moves, 2u);
	cr_assert_not(tw_ring_delegate_claim(&ring.rx, peer->windows.turn));
	cr_assert(access_by(TW_WRITE, WORD, refuses)->flags & TW_R_DONE);
	cr_assert_eq(moves, 3u);
}

/* The owner has begun, and the accessor waits no longer: a reply ends it. */
Test(accesses, late)
{
	struct tw_req *r = access_by(TW_WRITE, WORD, begins);

	cr_assert_not(r->flags & TW_R_DONE);
	cr_assert_eq(peer->windows.puts, 1u);
	cr_assert_not(tw_ring_delegate_end(&ring.rx, peer->windows.turn, true));
	cr_assert_eq(reply(0), TW_OK);
	cr_assert(r->flags & TW_R_DONE);
	cr_assert_eq(peer->windows.puts, 0u);
	r = access_by(TW_READ, LONG, begins);
	cr_assert_not(r->flags & TW_R_DONE);
	cr_assert_eq(reply(LONG), TW_OK);
	cr_assert(r->flags & TW_R_DONE);
	cr_assert_eq(data[LONG - 1], 'r');
	cr_assert_eq(moves, 0u);
}

/* The owner ------------------------------------------------------------------- */

/* The next turn, or the same once more, with up to two words of operand. */
static enum tw_err offer(enum tw_window_what what, uint32_t turn, uint32_t len, bool change)
{
	struct {
		struct tw_window_msg m;
		uint64_t operand;
	} p = {.m = {.key = KEY, .number = 1, .len = len, .at = turn}, .operand = 1};
	uint32_t all = (uint32_t)(sizeof(p.m) + (what == TW_WINDOW_GET ? 0 : WORD));

	if (change) {
		p.m.op = TW_ATOMIC_SUM;
		p.m.type = TW_ATOMIC_UINT64;
		p.m.rights = TW_WINDOW_READ;
	}
	return tw_window_packet(
		peer, tw_hdr_make(TW_WINDOW, (uint8_t)(what | TW_WINDOW_DELEGATED), 0, all, 77), &p,
		all);
}

static void own(void)
{
	uint64_t key = KEY;

	memset(window, 0, sizeof(window));
	cr_assert_eq(tw_window_register(ep, window, sizeof(window),
					TW_WINDOW_READ | TW_WINDOW_WRITE | TW_WINDOW_ATOMIC, &key),
		     TW_OK);
}

static unsigned replies(void)
{
	unsigned n = 0;

	tw_list_walk(&peer->sendq, struct tw_req, r, link)
		n++;
	return n;
}

static struct tw_window_msg *first_reply(void)
{
	return (void *)tw_list_first(&peer->sendq, struct tw_req, link)->seg.ptr;
}

static uint32_t word_now(void)
{
	return atomic_load(&ring.tx.ring->delegate.turn);
}

Test(accesses, owner_does)
{
	own();
	cr_assert_eq(offer(TW_WINDOW_PUT, 7, WORD, false), TW_OK);
	cr_assert_eq(word_now(), word(7, TW_DELEGATE_DONE));
	cr_assert_eq(window[0], 1);
	cr_assert_eq(offer(TW_WINDOW_GET, 8, WORD, false), TW_OK);
	cr_assert_eq(word_now(), word(8, TW_DELEGATE_DONE));
	cr_assert_eq(ring.tx.ring->delegate.result[0], 1);
	cr_assert_eq(offer(TW_WINDOW_CHANGE, 9, WORD, true), TW_OK);
	cr_assert_eq(word_now(), word(9, TW_DELEGATE_DONE));
	cr_assert_eq(ring.tx.ring->delegate.result[0], 1);
	cr_assert_eq(window[0], 2);
	cr_assert_eq(replies(), 0u);
	/* The largest result of the word, and one byte more. */
	cr_assert_eq(offer(TW_WINDOW_GET, 10, sizeof(ring.tx.ring->delegate.result), false), TW_OK);
	cr_assert_eq(word_now(), word(10, TW_DELEGATE_DONE));
	cr_assert_eq(offer(TW_WINDOW_GET, 11, sizeof(ring.tx.ring->delegate.result) + 1, false),
		     TW_OK);
	cr_assert_eq(word_now(), word(11, TW_DELEGATE_BEGUN));
	cr_assert_eq(replies(), 1u);
	cr_assert_eq(first_reply()->at, 0u);
}

/* One that was taken back is not done. */
Test(accesses, owner_comes_late)
{
	own();
	cr_assert_eq(tw_ring_delegate_leave(&ring.tx, 7), TW_DELEGATE_BACK);
	cr_assert_eq(offer(TW_WINDOW_PUT, 7, WORD, false), TW_OK);
	cr_assert_eq(window[0], 0);
	cr_assert_eq(replies(), 0u);
	cr_assert_eq(word_now(), word(7, TW_DELEGATE_BACK));
}

/* No such window: the accessor has it back, or, if it waits for a reply, that says so. */
Test(accesses, owner_refuses)
{
	cr_assert_eq(offer(TW_WINDOW_PUT, 7, WORD, false), TW_OK);
	cr_assert_eq(word_now(), word(7, TW_DELEGATE_BACK));
	cr_assert_eq(offer(TW_WINDOW_GET, 8, WORD, false), TW_OK);
	cr_assert_eq(word_now(), word(8, TW_DELEGATE_BACK));
	cr_assert_eq(offer(TW_WINDOW_CHANGE, 9, WORD, true), TW_OK);
	cr_assert_eq(word_now(), word(9, TW_DELEGATE_BACK));
	cr_assert_eq(replies(), 0u);
	cr_assert_eq(offer(TW_WINDOW_GET, 10, LONG, false), TW_OK);
	cr_assert_eq(replies(), 1u, "its accessor waits for ever");
	cr_assert_eq(first_reply()->status, TW_S_BAD_WINDOW);
}

/* The accessor waits no longer once the owner has begun, which asks the kernel for the page then.
 */
static bool leave(long number)
{
	(void)number;
	if (word_now() == word(7, TW_DELEGATE_BEGUN))
		tw_ring_delegate_leave(&ring.tx, 7);
	return false;
}

/* It has gone on, and there is no memory to reply: the packet comes again, and is done once. */
Test(accesses, owner_has_no_memory)
{
	own();
	tw_pool_fini(&ep->reqs);
	tw_pool_init(&ep->reqs, sizeof(struct tw_req), 1);
	while (tw_req_new1(ep, TW_READ, data, 0))
		;
	before_syscall = leave;
	cr_assert_eq(offer(TW_WINDOW_CHANGE, 7, WORD, true), TW_AGAIN);
	before_syscall = NULL;
	cr_assert_eq(word_now(), word(7, TW_DELEGATE_LATE));
	cr_assert_eq(offer(TW_WINDOW_CHANGE, 7, WORD, true), TW_AGAIN);
	tw_pool_fini(&ep->reqs);
	tw_pool_init(&ep->reqs, sizeof(struct tw_req), TW_MAX_REQS);
	cr_assert_eq(offer(TW_WINDOW_CHANGE, 7, WORD, true), TW_OK);
	cr_assert_eq(*(uint64_t *)(void *)window, 1u);
	cr_assert_eq(replies(), 1u);
	cr_assert_eq(first_reply()->status, TW_S_OK);
	cr_assert_eq(*(uint64_t *)(void *)(first_reply() + 1), 0u);
}

/* Packets of every kind, and of a peer that shares no memory. */
Test(accesses, any_flag)
{
	own();
	for (unsigned what = 0; what < TW_WINDOW_DELEGATED; what++) {
		bool known = what == TW_WINDOW_ASK || what == TW_WINDOW_PUT ||
			     what == TW_WINDOW_GET || what == TW_WINDOW_CHANGE;
		uint32_t turn = (word_now() >> TW_DELEGATE_BITS) + 1;
		enum tw_err err = offer((enum tw_window_what)what, turn, WORD, true);

		cr_assert(known || err == TW_EPROTO, "flags %x", what);
	}
	shm.txq = NULL;
	memset(window, 0, sizeof(window));
	for (unsigned what = 0; what < TW_WINDOW_DELEGATED; what++)
		offer((enum tw_window_what)what, peer->windows.claimed, WORD, true);
	cr_assert_eq(window[0], 0);
}
