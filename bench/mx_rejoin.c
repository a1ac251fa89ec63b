/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One of four processes is killed and started again under its name, beside traffic. The others have
 * an echo under way to it, and a synchronous send that it never receives, whose end is the news of
 * its death. Two of them exchange a stream. The one that was killed counts echoes that are lost,
 * repeated or of an earlier connection.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "mx_extensions.h"
#include "series.h"

const char bench_tool[] = "mx_rejoin";

static const char help[] =
	"Usage: mx_rejoin [options]\n"
	"Kills one of four processes of this host again and again, starts it again, and measures\n"
	"how long the others take to notice, and to get a message through to the new one.\n\n"
	"  --provider NAME     shm, tcp, both (default), or verbs, with an RDMA device\n"
	"  --every MS          time between two deaths (default 200)\n"
	"  --time MS           time to measure (default 10000), half as long without deaths "
	"before\n"
	"  --size BYTES        of the messages of the stream (default 65536)\n"
	"  --csv, --json       comma separated values; one JSON object a line\n"
	"  -h, --help; -V, --version\n";

static const struct table_column columns[] = {
	{"provider", "provider", "%s"},
	{"deaths", "deaths", "%" PRIu64},
	{"notice_ms", "notice ms", "%.3f"},
	{"notice_max_ms", "most", "%.3f"},
	{"start_ms", "start ms", "%.3f"},
	{"rejoin_ms", "rejoin ms", "%.3f"},
	{"rejoin_max_ms", "most", "%.3f"},
	{"calm_mbs", "MB/s without", "%.0f"},
	{"mbs", "MB/s", "%.0f"},
	{"echoes", "echoes", "%" PRIu64},
	{"wrong", "wrong", "%" PRIu64},
};

enum { SENDER, RECEIVER, BYSTANDER, SURVIVORS, VICTIM = SURVIVORS };

#define MAX_DEATHS 10000
#define FILTER 0x72656a6fu
#define FIRST_ID 200
#define DEPTH 4	  /* messages of the stream under way */
#define IDLE_MS 1 /* between two attempts to connect */
#define PATIENCE_S 60
#define MATCH_STREAM 1ull
#define MATCH_ECHO 2ull
#define MATCH_NEVER 3ull
#define MATCH_REPLY(connection) (1ull << 32 | (connection))

struct options {
	unsigned every;
	double seconds;
	uint32_t size;
	int provider; /* of the names, BOTH: of those before it */
	enum table_format format;
};
static const char *const providers[] = {"shm", "tcp", "both", "verbs"};
#define BOTH 2

struct echo {
	uint32_t rank, connection;
	uint64_t number;
};

/* Times are of one clock, in seconds; those of a life are 0 until they are known. */
struct life {
	double begun, opened, killed;
	double noticed[SURVIVORS], rejoined[SURVIVORS];
};

static struct shared {
	atomic_uint life;  /* the number of the one that lives or is about to */
	atomic_uint ready; /* survivors */
	atomic_bool over;
	atomic_ullong bytes, echoes, wrong;
	uint64_t nic;
	struct life lives[MAX_DEATHS + 1];
} * shared;

static void sleep_for(double seconds)
{
	struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};

	nanosleep(&t, NULL);
}

static void must(mx_return_t rc, const char *what)
{
	if (rc != MX_SUCCESS)
		bench_fail("%s: %s", what, mx_strerror(rc));
}

static mx_endpoint_t open_as(unsigned rank)
{
	mx_endpoint_t ep;

	bench_role = rank == VICTIM ? ", victim" : ", survivor";
	mx_set_error_handler(MX_ERRORS_RETURN);
	must(mx_init(), "mx_init");
	must(mx_open_endpoint(MX_ANY_NIC, FIRST_ID + rank, FILTER, NULL, 0, &ep),
	     "mx_open_endpoint");
	return ep;
}

static uint64_t nic_of(mx_endpoint_t ep)
{
	mx_endpoint_addr_t me;
	uint32_t id;
	uint64_t nic;

	must(mx_get_endpoint_addr(ep, &me), "mx_get_endpoint_addr");
	must(mx_decompose_endpoint_addr(me, &nic, &id), "mx_decompose_endpoint_addr");
	return nic;
}

/* -------------------------------------------------------------------- the victim */

/* The echoes of each survivor have one connection in a life, and consecutive numbers. */
static bool is_next(struct echo *last, bool *seen, const struct echo *e)
{
	bool good = *seen ? e->connection == last->connection && e->number == last->number + 1
			  : e->number == 0;

	*seen = true;
	*last = *e;
	return good;
}

static void victim(struct life *life)
{
	mx_endpoint_t ep = open_as(VICTIM);
	struct echo last[SURVIVORS], e;
	bool seen[SURVIVORS] = {false};
	mx_segment_t seg = {&e, sizeof(e)};
	mx_request_t r;
	mx_status_t status;
	uint32_t done;

	life->opened = bench_now();
	while (!atomic_load(&shared->over)) {
		must(mx_irecv(ep, &seg, 1, MATCH_ECHO, MX_MATCH_MASK_NONE, NULL, &r), "mx_irecv");
		do
			must(mx_wait(ep, &r, 100, &status, &done), "mx_wait");
		while (!done && !atomic_load(&shared->over));
		if (!done)
			break;
		if (e.rank >= SURVIVORS || !is_next(&last[e.rank], &seen[e.rank], &e))
			atomic_fetch_add(&shared->wrong, 1);
		must(mx_isend(ep, &seg, 1, status.source, MATCH_REPLY(e.connection), NULL, &r),
		     "mx_isend");
		must(mx_wait(ep, &r, 1000 * PATIENCE_S, &status, &done), "mx_wait");
	}
	mx_finalize();
}

/* ----------------------------------------------------------------- the survivors */

struct survivor {
	mx_endpoint_t ep;
	mx_endpoint_addr_t stream, to;
	unsigned rank, life; /* the life of the victim that it is connected to, or waits for */
	bool connecting, up;
	struct echo out, in;
	mx_request_t reply;
	char never;
	uint32_t size;
	char *buf[DEPTH];
};

static void stream_one(struct survivor *s, unsigned i)
{
	mx_segment_t seg = {s->buf[i], s->size};
	mx_request_t r;

	if (s->rank == SENDER)
		must(mx_isend(s->ep, &seg, 1, s->stream, MATCH_STREAM, s->buf[i], &r), "mx_isend");
	else
		must(mx_irecv(s->ep, &seg, 1, MATCH_STREAM, MX_MATCH_MASK_NONE, s->buf[i], &r),
		     "mx_irecv");
}

static void echo_one(struct survivor *s)
{
	mx_segment_t in = {&s->in, sizeof(s->in)}, out = {&s->out, sizeof(s->out)};
	mx_request_t r;

	must(mx_irecv(s->ep, &in, 1, MATCH_REPLY(s->out.connection), MX_MATCH_MASK_NONE, &s->in,
		      &s->reply),
	     "mx_irecv");
	must(mx_isend(s->ep, &out, 1, s->to, MATCH_ECHO, &s->out, &r), "mx_isend");
}

static void connect_again(struct survivor *s)
{
	mx_request_t r;

	if (s->connecting || s->up)
		return;
	must(mx_iconnect(s->ep, shared->nic, FIRST_ID + VICTIM, FILTER, 0, &s->to, &r),
	     "mx_iconnect");
	s->connecting = true;
}

static void connect_ended(struct survivor *s, const mx_status_t *status)
{
	mx_segment_t seg = {&s->never, 1};
	mx_request_t r;

	s->connecting = false;
	if (status->code != MX_STATUS_SUCCESS)
		return;
	s->up = true;
	s->to = status->source;
	s->out.connection++;
	s->out.number = 0;
	must(mx_issend(s->ep, &seg, 1, s->to, MATCH_NEVER, &s->never, &r), "mx_issend");
	echo_one(s);
}

static void victim_died(struct survivor *s)
{
	uint32_t cancelled;

	shared->lives[s->life++].noticed[s->rank] = bench_now();
	s->up = false;
	mx_cancel(s->ep, &s->reply, &cancelled);
}

static void replied(struct survivor *s)
{
	struct life *life = &shared->lives[s->life];

	if (memcmp(&s->in, &s->out, sizeof(s->in)) != 0)
		atomic_fetch_add(&shared->wrong, 1);
	if (life->rejoined[s->rank] == 0)
		life->rejoined[s->rank] = bench_now();
	atomic_fetch_add(&shared->echoes, 1);
	s->out.number++;
	if (s->up)
		echo_one(s);
}

static void complete(struct survivor *s, const mx_status_t *status)
{
	if (status->context == &s->to) {
		connect_ended(s, status);
	} else if (status->context == &s->never) {
		victim_died(s);
	} else if (status->context == &s->in) {
		if (status->code == MX_STATUS_SUCCESS)
			replied(s);
	} else if (status->context != &s->out) {
		if (status->code != MX_STATUS_SUCCESS && !atomic_load(&shared->over))
			bench_fail("the stream broke: %s", mx_strstatus(status->code));
		if (s->rank == RECEIVER)
			atomic_fetch_add(&shared->bytes, s->size);
		for (unsigned i = 0; i < DEPTH; i++)
			if (status->context == s->buf[i])
				stream_one(s, i);
	}
}

static void survivor_begin(struct survivor *s)
{
	s->ep = open_as(s->rank);
	shared->nic = nic_of(s->ep);
	atomic_fetch_add(&shared->ready, 1);
	while (atomic_load(&shared->ready) < SURVIVORS)
		sleep_for(0.001);
	if (s->rank == SENDER)
		must(mx_connect(s->ep, shared->nic, FIRST_ID + RECEIVER, FILTER, PATIENCE_S,
				&s->stream),
		     "mx_connect");
	for (unsigned i = 0; s->rank != BYSTANDER && i < DEPTH; i++) {
		s->buf[i] = calloc(1, s->size);
		if (!s->buf[i])
			bench_fail("no memory for messages of %" PRIu32 " bytes", s->size);
		stream_one(s, i);
	}
}

static void survivor(unsigned rank, uint32_t size)
{
	struct survivor s = {.rank = rank, .size = size, .out = {.rank = rank}};
	mx_status_t status;
	uint32_t done;

	survivor_begin(&s);
	while (!atomic_load(&shared->over)) {
		if (s.life == atomic_load(&shared->life))
			connect_again(&s);
		must(mx_wait_any(s.ep, s.up ? 100 : IDLE_MS, 0, 0, &status, &done), "mx_wait_any");
		if (done)
			complete(&s, &status);
	}
	_exit(0); /* the others end at the same moment */
}

/* -------------------------------------------------------------------- the parent */

static pid_t start(unsigned rank, uint32_t size)
{
	struct life *life = &shared->lives[atomic_load(&shared->life)];
	pid_t pid;

	if (rank == VICTIM)
		life->begun = bench_now();
	pid = fork();
	if (pid < 0)
		bench_fail("fork: %m");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (rank == VICTIM)
		victim(life);
	else
		survivor(rank, size);
	_exit(0);
}

/* All survivors have reached the victim; or one has ended. */
static void await_rejoined(const pid_t *pids)
{
	const struct life *life = &shared->lives[atomic_load(&shared->life)];
	double end = bench_now() + PATIENCE_S;
	bool all;

	do {
		all = true;
		for (unsigned i = 0; i < SURVIVORS; i++)
			all &= *(const volatile double *)&life->rejoined[i] != 0;
		for (unsigned i = 0; i < SURVIVORS; i++)
			if (waitpid(pids[i], NULL, WNOHANG) != 0)
				bench_fail("a survivor has ended");
		if (bench_now() > end)
			bench_fail("a survivor has not reached the new process in %d s",
				   PATIENCE_S);
		sleep_for(0.0005);
	} while (!all);
}

static double rate(uint64_t bytes, double since)
{
	return 1e-6 * (double)(atomic_load(&shared->bytes) - bytes) / (bench_now() - since);
}

/* Of all deaths and survivors: sorted. */
static unsigned collect(unsigned deaths, bool notice, double *out)
{
	unsigned n = 0;

	for (unsigned d = 0; d < deaths; d++)
		for (unsigned i = 0; i < SURVIVORS; i++)
			out[n++] = notice ? shared->lives[d].noticed[i] - shared->lives[d].killed
					  : shared->lives[d + 1].rejoined[i] -
						    shared->lives[d + 1].begun;
	qsort(out, n, sizeof(*out), bench_by_value);
	return n;
}

static void report(struct table *t, const char *provider, unsigned deaths, double calm, double mbs)
{
	static double v[MAX_DEATHS * SURVIVORS];
	unsigned n = collect(deaths, true, v);

	table_text(t, provider);
	table_count(t, deaths);
	table_real(t, 1e3 * v[n / 2]);
	table_real(t, 1e3 * v[n - 1]);
	for (unsigned d = 0; d < deaths; d++)
		v[d] = shared->lives[d + 1].opened - shared->lives[d + 1].begun;
	qsort(v, deaths, sizeof(*v), bench_by_value);
	table_real(t, 1e3 * v[deaths / 2]);
	n = collect(deaths, false, v);
	table_real(t, 1e3 * v[n / 2]);
	table_real(t, 1e3 * v[n - 1]);
	table_real(t, calm);
	table_real(t, mbs);
	table_count(t, atomic_load(&shared->echoes));
	table_count(t, atomic_load(&shared->wrong));
}

static void kill_one(pid_t *victim, const pid_t *pids, uint32_t size)
{
	unsigned life = atomic_load(&shared->life);

	shared->lives[life].killed = bench_now();
	kill(*victim, SIGKILL);
	waitpid(*victim, NULL, 0);
	atomic_store(&shared->life, life + 1);
	*victim = start(VICTIM, size);
	await_rejoined(pids);
}

static void measure(struct table *t, const struct options *o, const char *provider)
{
	char list[32];
	pid_t pids[SURVIVORS + 1];
	unsigned deaths = 0;
	double since, calm;
	uint64_t bytes;

	memset(shared, 0, sizeof(*shared));
	snprintf(list, sizeof(list), "self,%s", provider);
	setenv("TAGWIRE_PROVIDERS", list, 1);
	for (unsigned i = 0; i <= VICTIM; i++)
		pids[i] = start(i, o->size);
	await_rejoined(pids);
	since = bench_now();
	bytes = atomic_load(&shared->bytes);
	sleep_for(o->seconds / 2);
	calm = rate(bytes, since);
	since = bench_now();
	bytes = atomic_load(&shared->bytes);
	while (deaths < MAX_DEATHS && bench_now() - since < o->seconds) {
		sleep_for(1e-3 * o->every);
		kill_one(&pids[VICTIM], pids, o->size);
		deaths++;
		bench_progress("%s: %u deaths", provider, deaths);
	}
	bench_progress_end();
	report(t, provider, deaths, calm, rate(bytes, since));
	atomic_store(&shared->over, true);
	for (unsigned i = 0; i <= VICTIM; i++)
		waitpid(pids[i], NULL, 0);
}

int main(int argc, char **argv)
{
	struct options o = {.every = 200, .seconds = 10, .size = 65536, .provider = BOTH};
	const struct cli_option options[] = {
		CLI_WORD("provider", &o.provider, providers, 4),
		CLI_UINT("every", &o.every, 1, 60000),
		CLI_MS("time", &o.seconds, 10000000),
		CLI_UINT("size", &o.size, 1, 1 << 30),
		CLI_FORMAT(&o.format),
		{.name = NULL},
	};
	struct table t;
	char job[40];

	bench_cli(argc, argv, options, help);
	bench_cli_end(argc, argv);
	/* Without them a survivor would wait for a process that cannot answer it. */
	bench_descriptors();
	snprintf(job, sizeof(job), "rejoin-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		bench_fail("mmap: %m");
	table_open_flow(&t, o.format, columns, sizeof(columns) / sizeof(*columns));
	for (int i = 0; i < BOTH; i++)
		if (o.provider == BOTH)
			measure(&t, &o, providers[i]);
	if (o.provider != BOTH)
		measure(&t, &o, providers[o.provider]);
	table_close(&t);
	bench_output_end();
	return atomic_load(&shared->wrong) ? 1 : 0;
}
