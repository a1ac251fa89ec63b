/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What mx_rejoin measures, by UCX. One of four processes is killed and started again, beside
 * traffic; endpoints have UCP_ERR_HANDLING_MODE_PEER, or none. Without it UCX does not report a
 * death: the survivors hear of it from the parent, and leave the old endpoint as it is.
 * Build: cc -O2 rejoin_ucx.c -o rejoin_ucx $(pkg-config --cflags --libs ucx)
 * Usage: rejoin_ucx peer|none [EVERY_MS [SECONDS [BYTES]]]
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { SENDER, RECEIVER, BYSTANDER, SURVIVORS, VICTIM = SURVIVORS, RANKS };

#define MAX_DEATHS 10000
#define MAX_ADDRESS 8192
#define DEPTH 4
#define PATIENCE_S 20
#define TAG_STREAM 1ull
#define TAG_ECHO 2ull
#define TAG_REPLY(connection) (1ull << 32 | (connection))

struct echo {
	uint32_t rank, connection;
	uint64_t number;
};

struct life {
	double begun, opened, killed, noticed[SURVIVORS], rejoined[SURVIVORS];
};

static struct shared {
	atomic_uint life;
	atomic_uint opened[RANKS]; /* the life whose address is there, plus one */
	atomic_bool over;
	atomic_ullong bytes, echoes, wrong;
	size_t len[RANKS];
	char address[RANKS][MAX_ADDRESS];
	struct life lives[MAX_DEATHS + 1];
} * shared;

static bool peer_mode;
static ucp_context_h context;
static ucp_worker_h worker;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "rejoin_ucx[%d]: %s: %s\n", (int)getpid(), what, why);
	_exit(1);
}

static void check(ucs_status_t status, const char *what)
{
	if (status != UCS_OK)
		fail(what, ucs_status_string(status));
}

static void open_as(unsigned rank, unsigned life)
{
	ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
	ucp_worker_params_t w = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				 .thread_mode = UCS_THREAD_MODE_SINGLE};
	ucp_address_t *mine;
	size_t len;

	check(ucp_init(&params, NULL, &context), "ucp_init");
	check(ucp_worker_create(context, &w, &worker), "ucp_worker_create");
	check(ucp_worker_get_address(worker, &mine, &len), "ucp_worker_get_address");
	if (len > MAX_ADDRESS)
		fail("ucp_worker_get_address", "too long");
	memcpy(shared->address[rank], mine, len);
	shared->len[rank] = len;
	atomic_store(&shared->opened[rank], life + 1);
	ucp_worker_release_address(worker, mine);
}

static ucp_ep_h connect_to(unsigned rank, ucp_err_handler_cb_t cb, void *arg)
{
	ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	char address[MAX_ADDRESS];
	ucp_ep_h ep;

	memcpy(address, shared->address[rank], shared->len[rank]);
	params.address = (ucp_address_t *)address;
	if (peer_mode) {
		params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
				     UCP_EP_PARAM_FIELD_ERR_HANDLER;
		params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
		params.err_handler.cb = cb;
		params.err_handler.arg = arg;
	}
	check(ucp_ep_create(worker, &params, &ep), "ucp_ep_create");
	return ep;
}

static void progress(void)
{
	if (!ucp_worker_progress(worker))
		sched_yield();
}

static void *send_to(ucp_ep_h ep, const void *buf, size_t len, uint64_t tag)
{
	ucp_request_param_t param = {.op_attr_mask = 0};

	return ucp_tag_send_nbx(ep, buf, len, tag, &param);
}

static void *receive(void *buf, size_t len, uint64_t tag)
{
	ucp_request_param_t param = {.op_attr_mask = 0};
	void *r = ucp_tag_recv_nbx(worker, buf, len, tag, ~0ull, &param);

	if (UCS_PTR_IS_ERR(r))
		fail("ucp_tag_recv_nbx", ucs_status_string(UCS_PTR_STATUS(r)));
	return r;
}

/* True: it has ended, with *status. */
static bool ended(void **r, ucs_status_t *status)
{
	*status = UCS_OK;
	if (*r == NULL)
		return true;
	if (UCS_PTR_IS_ERR(*r)) {
		*status = UCS_PTR_STATUS(*r);
		*r = NULL;
		return true;
	}
	*status = ucp_request_check_status(*r);
	if (*status == UCS_INPROGRESS)
		return false;
	ucp_request_free(*r);
	*r = NULL;
	return true;
}

static void ignore(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	(void)arg, (void)ep, (void)status;
}

static void victim(struct life *life, unsigned number)
{
	struct echo last[SURVIVORS], e;
	bool seen[SURVIVORS] = {false};
	ucp_ep_h eps[SURVIVORS] = {NULL};
	ucs_status_t status;
	void *r;

	open_as(VICTIM, number);
	life->opened = now();
	while (!atomic_load(&shared->over)) {
		bool good;

		for (r = receive(&e, sizeof(e), TAG_ECHO); !ended(&r, &status);) {
			if (atomic_load(&shared->over))
				_exit(0);
			progress();
		}
		good = e.rank < SURVIVORS &&
		       (seen[e.rank] ? e.connection == last[e.rank].connection &&
					       e.number == last[e.rank].number + 1
				     : e.number == 0);
		if (!good)
			atomic_fetch_add(&shared->wrong, 1);
		if (e.rank >= SURVIVORS)
			continue;
		seen[e.rank] = true;
		last[e.rank] = e;
		if (!eps[e.rank])
			eps[e.rank] = connect_to(e.rank, ignore, NULL);
		for (r = send_to(eps[e.rank], &e, sizeof(e), TAG_REPLY(e.connection));
		     !ended(&r, &status);)
			progress();
	}
	_exit(0);
}

struct survivor {
	ucp_ep_h to, stream;
	unsigned rank, life;
	bool up, died;
	struct echo out, in;
	void *sending, *reply;
	void *streams[DEPTH];
	char *buf[DEPTH];
	size_t size;
};

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	struct survivor *s = arg;

	(void)status;
	if (ep != s->to || s->died)
		return;
	s->died = true;
	shared->lives[s->life].noticed[s->rank] = now();
}

static void stream_one(struct survivor *s, unsigned i)
{
	s->streams[i] = s->rank == SENDER ? send_to(s->stream, s->buf[i], s->size, TAG_STREAM)
					  : receive(s->buf[i], s->size, TAG_STREAM);
}

static void stream_poll(struct survivor *s)
{
	ucs_status_t status;

	for (unsigned i = 0; s->rank != BYSTANDER && i < DEPTH; i++) {
		if (!ended(&s->streams[i], &status))
			continue;
		if (status != UCS_OK && !atomic_load(&shared->over))
			fail("the stream broke", ucs_status_string(status));
		if (s->rank == RECEIVER)
			atomic_fetch_add(&shared->bytes, s->size);
		stream_one(s, i);
	}
}

static void echo_one(struct survivor *s)
{
	s->reply = receive(&s->in, sizeof(s->in), TAG_REPLY(s->out.connection));
	s->sending = send_to(s->to, &s->out, sizeof(s->out), TAG_ECHO);
}

static void echo_poll(struct survivor *s)
{
	struct life *life = &shared->lives[s->life];
	ucs_status_t status;

	if (!s->up || !ended(&s->sending, &status) || !ended(&s->reply, &status))
		return;
	if (status != UCS_OK)
		return;
	if (memcmp(&s->in, &s->out, sizeof(s->in)) != 0)
		atomic_fetch_add(&shared->wrong, 1);
	if (life->rejoined[s->rank] == 0)
		life->rejoined[s->rank] = now();
	atomic_fetch_add(&shared->echoes, 1);
	s->out.number++;
	echo_one(s);
}

static void bury(struct survivor *s)
{
	ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
				     .flags = UCP_EP_CLOSE_FLAG_FORCE};
	void *r;

	if (s->reply)
		ucp_request_cancel(worker, s->reply);
	s->up = s->died = false;
	s->sending = s->reply = NULL;
	s->life++;
	if (!peer_mode)
		return;
	r = ucp_ep_close_nbx(s->to, &param);
	if (r && !UCS_PTR_IS_ERR(r))
		ucp_request_free(r);
}

static void survivor(unsigned rank, size_t size)
{
	struct survivor s = {.rank = rank, .size = size, .out = {.rank = rank}};

	open_as(rank, 0);
	for (unsigned i = 0; i < SURVIVORS; i++)
		while (!atomic_load(&shared->opened[i]))
			sched_yield();
	if (rank == SENDER)
		s.stream = connect_to(RECEIVER, ignore, NULL);
	for (unsigned i = 0; rank != BYSTANDER && i < DEPTH; i++) {
		s.buf[i] = calloc(1, size);
		stream_one(&s, i);
	}
	while (!atomic_load(&shared->over)) {
		if (!peer_mode && s.up && atomic_load(&shared->life) > s.life)
			s.died = true;
		if (s.died)
			bury(&s);
		if (!s.up && atomic_load(&shared->opened[VICTIM]) == s.life + 1) {
			s.to = connect_to(VICTIM, on_error, &s);
			s.up = true;
			s.out.connection++;
			s.out.number = 0;
			echo_one(&s);
		}
		progress();
		stream_poll(&s);
		echo_poll(&s);
	}
	_exit(0);
}

static pid_t start(unsigned rank, size_t size)
{
	unsigned number = atomic_load(&shared->life);
	struct life *life = &shared->lives[number];
	pid_t pid;

	if (rank == VICTIM)
		life->begun = now();
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (rank == VICTIM)
		victim(life, number);
	survivor(rank, size);
	_exit(0);
}

static bool await_rejoined(const pid_t *pids)
{
	const volatile struct life *life = &shared->lives[atomic_load(&shared->life)];
	double end = now() + PATIENCE_S;
	bool all;

	do {
		all = true;
		for (unsigned i = 0; i < SURVIVORS; i++) {
			all &= life->rejoined[i] != 0;
			if (waitpid(pids[i], NULL, WNOHANG) != 0) {
				fprintf(stderr, "a survivor has ended\n");
				return false;
			}
		}
		if (now() > end) {
			fprintf(stderr, "a survivor has not reached the new process in %d s\n",
				PATIENCE_S);
			return false;
		}
		usleep(500);
	} while (!all);
	return true;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void show(const char *what, double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_value);
	if (n)
		printf("%s ms %.3f, most %.3f\n", what, 1e3 * v[n / 2], 1e3 * v[n - 1]);
}

int main(int argc, char **argv)
{
	unsigned every = argc > 2 ? (unsigned)atoi(argv[2]) : 200, deaths = 0, n = 0, m = 0;
	double seconds = argc > 3 ? atof(argv[3]) : 10, since, calm;
	static double notice[MAX_DEATHS * SURVIVORS], rejoin[MAX_DEATHS * SURVIVORS];
	size_t size = argc > 4 ? (size_t)atoi(argv[4]) : 65536;
	pid_t pids[RANKS];
	uint64_t bytes;
	bool good;

	if (argc < 2)
		return 2;
	peer_mode = strcmp(argv[1], "peer") == 0;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	for (unsigned i = 0; i <= VICTIM; i++)
		pids[i] = start(i, size);
	good = await_rejoined(pids);
	since = now();
	bytes = atomic_load(&shared->bytes);
	usleep((useconds_t)(seconds / 2 * 1e6));
	calm = 1e-6 * (double)(atomic_load(&shared->bytes) - bytes) / (now() - since);
	since = now();
	bytes = atomic_load(&shared->bytes);
	while (good && deaths < MAX_DEATHS - 1 && now() - since < seconds) {
		unsigned life = atomic_load(&shared->life);

		usleep(every * 1000);
		shared->lives[life].killed = now();
		kill(pids[VICTIM], SIGKILL);
		waitpid(pids[VICTIM], NULL, 0);
		atomic_store(&shared->life, life + 1);
		pids[VICTIM] = start(VICTIM, size);
		good = await_rejoined(pids);
		deaths += good;
	}
	printf("UCX %s, %s: deaths %u, MB/s without %.0f, with %.0f, echoes %llu, wrong %llu\n",
	       ucp_get_version_string(), peer_mode ? "peer mode" : "without peer mode", deaths,
	       calm, 1e-6 * (double)(atomic_load(&shared->bytes) - bytes) / (now() - since),
	       (unsigned long long)atomic_load(&shared->echoes),
	       (unsigned long long)atomic_load(&shared->wrong));
	for (unsigned d = 0; d < deaths; d++)
		for (unsigned i = 0; i < SURVIVORS; i++) {
			if (shared->lives[d].noticed[i])
				notice[n++] = shared->lives[d].noticed[i] - shared->lives[d].killed;
			rejoin[m++] = shared->lives[d + 1].rejoined[i] - shared->lives[d + 1].begun;
		}
	show("notice", notice, n);
	show("rejoin", rejoin, m);
	atomic_store(&shared->over, true);
	for (unsigned i = 0; i <= VICTIM; i++)
		kill(pids[i], SIGKILL);
	return !good;
}
