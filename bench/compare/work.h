/* SPDX-License-Identifier: BSD-2-Clause */
/* The frame of a driver: its arguments, its repetitions, its output. */
#ifndef COMPARE_WORK_H
#define COMPARE_WORK_H

#include "line.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define CHUNKS 5	     /* samples of a figure */
#define MAX_SIZE (16u << 20) /* of a message, or of all to or from one rank in a turn */
#define MAX_DEPTH 100000
#define MAX_WINDOW 1024

enum { TAG_PING = 1, TAG_ACK, TAG_SAY, TAG_SYNC, TAG_GO, TAG_OTHERS = 1000 };

/*
 * One figure: what to do n times, and the parameters of its name. Its value is scale
 * times the seconds of a turn, or scale in that time if it is a rate.
 */
struct job {
	const char *name;
	double (*run)(const struct job *j, uint64_t n); /* seconds, at rank 0 */
	double scale;
	bool rate;
	size_t size;
	unsigned window;
	char *text[4]; /* parameters as they came */
	unsigned ntext;
};

/* The bare line just before and just after, in microseconds; NaN: not measured. */
struct sample {
	double value, before, after;
};

static struct sample samples[CHUNKS];
static unsigned nsamples;

static char *out, *in;	  /* MAX_SIZE each */
static double chunk_time; /* seconds for each of CHUNKS */

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline double median(double *v, unsigned n)
{
	qsort(v, n, sizeof v[0], by_value);
	return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

/* Rank 0 tells the others a number. */
static inline void say(uint64_t n)
{
	for (int r = 1; r < ranks; r++)
		peer_send(r, &n, sizeof n, TAG_SAY);
}

static inline uint64_t hear(void)
{
	uint64_t n = 0;

	peer_recv(0, &n, sizeof n, TAG_SAY);
	return n;
}

#define WARM_TURNS 600	       /* that are not counted, at most: they touch all of the slots */
#define WARM_BYTES (512 << 10) /* and of the bytes of a ring */

#define SAY_LINE UINT64_MAX /* instead of a number of turns */

/* Ranks 0 and 1 at once. With more processes than processors it would measure the scheduler. */
static inline double line_both(void)
{
	if (!line || crowded)
		return NAN;
	return rank ? line_follow() : line_lead();
}

/* Of the ranks that follow() rank 0. */
static inline double line_ordered(void)
{
	say(SAY_LINE);
	return line_both();
}

/* The other ranks, until rank 0 says 0. */
static void follow(const struct job *j)
{
	uint64_t n;

	while ((n = hear()) != 0) {
		if (n != SAY_LINE)
			j->run(j, n);
		else if (rank == 1)
			line_both();
	}
}

/*
 * The first turn may wait for ranks that still start, or for a library that sorts what has come.
 * The next ones touch memory of the library for the first time, until they have used all of it.
 */
static void warm_up(const struct job *j)
{
	uint64_t n = j->size > WARM_BYTES / WARM_TURNS ? WARM_BYTES / j->size + 1 : WARM_TURNS;

	say(n);
	j->run(j, n);
}

/* How many turns fit into a chunk. */
static uint64_t calibrate(const struct job *j)
{
	double took, grow;
	uint64_t n = 1;

	for (;;) {
		say(n);
		took = j->run(j, n);
		if (took >= chunk_time / 4 || n > UINT64_C(1) << 40)
			return (uint64_t)((double)n * chunk_time / took) + 1;
		/* A short run says little: grow carefully. */
		grow = chunk_time / 2 / (took + 1e-9);
		n *= grow < 2 ? 2 : grow > 16 ? 16 : (uint64_t)grow;
	}
}

/* A job of many turns: CHUNKS samples at rank 0. */
static void take_samples(const struct job *j)
{
	double seconds, at;
	uint64_t n;

	if (rank) {
		follow(j);
		return;
	}
	warm_up(j);
	n = calibrate(j);
	at = line_ordered();
	for (nsamples = 0; nsamples < CHUNKS; nsamples++) {
		struct sample *s = &samples[nsamples];

		say(n);
		seconds = j->run(j, n) / (double)n;
		s->value = j->rate ? j->scale / seconds : j->scale * seconds;
		s->before = at;
		s->after = at = line_ordered();
	}
	say(0);
}

/* A figure of one piece, by a function that both ranks of a pair call. */
static inline void take_one(double (*of)(const struct job *j), const struct job *j,
			    bool beside_line)
{
	struct sample *s = &samples[0];

	s->before = beside_line ? line_both() : NAN;
	s->value = of(j);
	s->after = beside_line ? line_both() : NAN;
	nsamples = 1;
}

/* The driver's own ------------------------------------------------------------- */

/* Before there is more than one process. */
static void prepare(void);
/* With --mesh: connects those among themselves that are connected to rank 0. */
static void connect_mesh(void);
/* Does one job; rank 0 leaves its samples. */
static void figure(struct job *j);

static double opened, connected; /* seconds */
static struct memory {		 /* KiB, before the buffers */
	unsigned long resident, state; /* all of it; without code and the driver's own */
} memory;

/* To the first answer of the first peer; then the others, who wait for it. */
static void connect_all(void)
{
	double start;

	for (int r = rank ? 0 : 1; r < (rank ? 1 : ranks); r++)
		peer_await(r);
	start = now();
	for (int r = rank ? 0 : 1; r < (rank ? 1 : ranks); r++) {
		peer_connect(r);
		if (rank == 0)
			peer_send(r, NULL, 0, TAG_GO);
		else
			peer_recv(r, NULL, 0, TAG_GO);
		if (rank == 0)
			peer_recv(r, NULL, 0, TAG_ACK);
		else
			peer_send(r, NULL, 0, TAG_ACK);
		if (r <= 1)
			connected = now() - start;
	}
}

static struct memory memory_kib(void)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	struct memory m = {0, 0};
	char line[512], mode[5];
	bool only_read = false, own = false;
	unsigned long kib;

	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%*x-%*x %4s", mode) == 1) {
			only_read = mode[1] != 'w' && mode[3] == 'p';
			own = strstr(line, "/dev/zero"); /* of launch_share() */
		} else if (sscanf(line, "Rss: %lu", &kib) == 1) {
			m.resident += kib;
			m.state += only_read || own ? 0 : kib;
		}
	}
	if (f)
		fclose(f);
	return m;
}

/* While all are connected. */
static void measure_memory(void)
{
	memory = memory_kib();
	if (rank)
		peer_recv(0, NULL, 0, TAG_GO);
	for (int r = 1; !rank && r < ranks; r++)
		peer_send(r, NULL, 0, TAG_GO);
}

static unsigned number(const struct job *j, unsigned i, unsigned max)
{
	unsigned long v = i < j->ntext ? strtoul(j->text[i], NULL, 10) : max + 1ul;

	if (v > max)
		die(j->name, "its parameters are wrong");
	return (unsigned)v;
}

static void do_job(const char *spec)
{
	struct job j = {.ntext = 0};
	char text[256], *rest = text;

	if (!strcmp(spec, "version")) {
		peer_version(text, sizeof text);
		if (rank == 0)
			printf("version %s\n", text);
		return;
	}
	snprintf(text, sizeof text, "%s", spec);
	j.name = strsep(&rest, ":");
	while (rest && j.ntext < sizeof j.text / sizeof *j.text)
		j.text[j.ntext++] = strsep(&rest, ":");
	nsamples = 0;
	figure(&j);
	for (unsigned i = 0; i < nsamples && rank == 0; i++)
		printf("%s %.6g %.4g %.4g\n", spec, samples[i].value, samples[i].before,
		       samples[i].after);
	fflush(stdout);
}

static char *buffer(void)
{
	char *p = aligned_alloc(4096, MAX_SIZE);

	if (!p)
		die("memory", "not enough");
	memset(p, 1, MAX_SIZE);
	return p;
}

static int processors(const char *list)
{
	int n = 1;

	while (*list)
		n += *list++ == ',';
	return n;
}

static const char *netns;
static bool mesh;

/* As if on another host. */
static void leave_network(void)
{
	int fd = open(netns, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
		die(netns, strerror(errno));
	close(fd);
}

static int options(int argc, char **argv, const char **cpus)
{
	static const struct option names[] = {
		{"ranks", 1, NULL, 'r'},      {"cpus", 1, NULL, 'c'}, {"time", 1, NULL, 't'},
		{"unexpected", 1, NULL, 'u'}, {"line", 1, NULL, 'l'}, {"netns", 1, NULL, 'n'},
		{"mesh", 0, NULL, 'm'},	      {"one-sided", 0, NULL, 'o'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (c == 'r')
			ranks = atoi(optarg);
		else if (c == 'c')
			*cpus = optarg;
		else if (c == 't')
			chunk_time = atof(optarg) / 1e3 / CHUNKS;
		else if (c == 'u')
			unexpected = strtoull(optarg, NULL, 10);
		else if (c == 'l')
			line_open(optarg);
		else if (c == 'n')
			netns = optarg;
		else if (c == 'm')
			mesh = true;
		else if (c == 'o')
			one_sided = true;
		else
			exit(2);
	}
	if (ranks < 2 || ranks > MAX_RANKS || chunk_time <= 0)
		die("arguments", "out of range");
	return optind;
}

int main(int argc, char **argv)
{
	const char *cpus = "0";
	double start;
	int first;

	ranks = 2;
	chunk_time = 20e-3 / CHUNKS;
	first = options(argc, argv, &cpus);
	crowded = processors(cpus) < ranks;
	prepare();
	peer_launch();
	if (rank && netns)
		leave_network();
	launch_bind(rank, cpus);
	start = now();
	peer_open();
	opened = now() - start;
	connect_all();
	if (mesh)
		connect_mesh();
	measure_memory();
	out = buffer();
	in = buffer();
	for (int i = first; i < argc; i++)
		do_job(argv[i]);
	peer_close();
	return 0;
}

#endif /* COMPARE_WORK_H */
