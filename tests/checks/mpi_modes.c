/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An MPI program for tests/launch/libfabric and mpi_hosts, which compile it with mpicc: every kind
 * of message that MPI has, between all ranks, with its contents checked.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "rank %d, %s:%d: %s\n", rank, __FILE__, __LINE__, #x);     \
			MPI_Abort(MPI_COMM_WORLD, 1);                                              \
		}                                                                                  \
	} while (0)

#define MANY 3000
#define THREADS 4
#define ROUNDS 200
#define LONG (64 << 20)

static int rank, size;
static MPI_Comm world;

static void fill(unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 11));
}

static int same(const unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != (unsigned char)(seed * 31 + i * 7 + (i >> 11)))
			return 0;
	return 1;
}

typedef int send_call(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int isend_call(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

/* Around the ring, in every mode and size. */
static void modes(void)
{
	static const int sizes[] = {0, 1, 8, 100, 1024, 4096, 8192, 8193, 65536, 262144, 1000003};
	static send_call *const sends[] = {MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
	static isend_call *const isends[] = {MPI_Isend, MPI_Issend, MPI_Ibsend, MPI_Irsend};
	int next = (rank + 1) % size, prev = (rank + size - 1) % size, room = 1 << 23;
	unsigned char *out = malloc(1 << 20), *in = malloc(1 << 20);
	void *buffer = malloc((size_t)room);
	MPI_Status st;

	MPI_Buffer_attach(buffer, room);
	for (unsigned m = 0; m < 8; m++)
		for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			int n = sizes[i], tag = (int)(m * 100 + i), got;
			MPI_Request r, s;

			memset(in, 0xee, 1 << 20);
			fill(out, (size_t)n, (unsigned)(rank + tag));
			MPI_Irecv(in, 1 << 20, MPI_BYTE, prev, tag, world, &r);
			MPI_Barrier(world); /* for the ready mode */
			if (m < 4) {
				sends[m](out, n, MPI_BYTE, next, tag, world);
			} else {
				isends[m - 4](out, n, MPI_BYTE, next, tag, world, &s);
				MPI_Wait(&s, MPI_STATUS_IGNORE);
			}
			MPI_Wait(&r, &st);
			MPI_Get_count(&st, MPI_BYTE, &got);
			CHECK(got == n && st.MPI_SOURCE == prev && st.MPI_TAG == tag);
			CHECK(same(in, (size_t)n, (unsigned)(prev + tag)));
			CHECK(in[n] == 0xee);
		}
	MPI_Buffer_detach(&buffer, &room);
	free(buffer);
	free(out);
	free(in);
}

static void persistent(void)
{
	int next = (rank + 1) % size, prev = (rank + size - 1) % size, out, in;
	MPI_Request r[2];

	MPI_Send_init(&out, 1, MPI_INT, next, 5, world, &r[0]);
	MPI_Recv_init(&in, 1, MPI_INT, prev, 5, world, &r[1]);
	for (int i = 0; i < 50; i++) {
		out = rank * 1000 + i;
		MPI_Startall(2, r);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		CHECK(in == prev * 1000 + i);
	}
	MPI_Request_free(&r[0]);
	MPI_Request_free(&r[1]);
}

/* Any source and any tag; from one source messages stay in order. */
static void wildcards(void)
{
	int *last = calloc((size_t)size, sizeof(*last)), v[2];
	MPI_Status st;

	if (rank != 0) {
		for (int i = 0; i < ROUNDS; i++) {
			v[0] = rank;
			v[1] = i;
			MPI_Send(v, 2, MPI_INT, 0, i % 7, world);
		}
	}
	for (int i = 0; rank == 0 && i < ROUNDS * (size - 1); i++) {
		MPI_Recv(v, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &st);
		CHECK(v[0] == st.MPI_SOURCE && st.MPI_TAG == v[1] % 7);
		CHECK(v[1] == last[v[0]]++);
	}
	free(last);
	MPI_Barrier(world);
}

/* Everybody to everybody, short and long: in order, and each with its own content. */
static void everybody(void)
{
	static const int sizes[] = {0, 1, 24, 300, 4000, 9000, 70000};
	enum { EACH = 21, ROOM = 70000 };
	int n = size * EACH;
	MPI_Request *r = malloc(2 * (size_t)n * sizeof(*r));
	unsigned char *out = malloc((size_t)n * ROOM), *in = malloc((size_t)n * ROOM);

	for (int i = 0; i < n; i++) {
		int from = i / EACH, len = sizes[i % EACH % 7];

		MPI_Irecv(in + (size_t)i * ROOM, ROOM, MPI_BYTE, from, 12, world, &r[i]);
		fill(out + (size_t)i * ROOM, (size_t)len, (unsigned)(rank * 999 + i % EACH));
	}
	for (int i = 0; i < n; i++)
		MPI_Isend(out + (size_t)i * ROOM, sizes[i % EACH % 7], MPI_BYTE,
			  (rank + i / EACH) % size, 12, world, &r[n + i]);
	for (int i = 0; i < n; i++) {
		MPI_Status st;
		int got;

		MPI_Wait(&r[i], &st);
		MPI_Get_count(&st, MPI_BYTE, &got);
		CHECK(got == sizes[i % EACH % 7]);
		CHECK(same(in + (size_t)i * ROOM, (size_t)got,
			   (unsigned)(i / EACH * 999 + i % EACH)));
	}
	MPI_Waitall(n, r + n, MPI_STATUSES_IGNORE);
	free(out);
	free(in);
	free(r);
}

/* How many names of hosts the ranks have. */
static int hosts(void)
{
	char mine[MPI_MAX_PROCESSOR_NAME] = "", *all = malloc((size_t)size * sizeof(mine));
	int n = 0, len;

	MPI_Get_processor_name(mine, &len);
	MPI_Allgather(mine, sizeof(mine), MPI_CHAR, all, sizeof(mine), MPI_CHAR, world);
	for (int i = 0; i < size; i++) {
		int first = 0;

		while (strcmp(all + (size_t)first * sizeof(mine), all + (size_t)i * sizeof(mine)))
			first++;
		n += first == i;
	}
	free(all);
	return n;
}

/* Receives for any source and for one, in the order of posting. */
static void directed(void)
{
	MPI_Request r[3];
	int v[3] = {-1, -1, -1}, x;

	if (rank == 0 && size > 1) {
		MPI_Irecv(&v[0], 1, MPI_INT, 1, 9, world, &r[0]);
		MPI_Irecv(&v[1], 1, MPI_INT, MPI_ANY_SOURCE, 9, world, &r[1]);
		MPI_Irecv(&v[2], 1, MPI_INT, 1, 9, world, &r[2]);
	}
	MPI_Barrier(world);
	for (x = 0; rank == 1 && x < 3; x++)
		MPI_Send(&x, 1, MPI_INT, 0, 9, world);
	if (rank == 0 && size > 1) {
		MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
		CHECK(v[0] == 0 && v[1] == 1 && v[2] == 2);
	}
	MPI_Barrier(world);
	/* The last rank's message must not be taken by a receive for rank 1. */
	if (rank == 0 && size > 2) {
		MPI_Irecv(&v[0], 1, MPI_INT, 1, 10, world, &r[0]);
		MPI_Recv(&v[1], 1, MPI_INT, size - 1, 10, world, MPI_STATUS_IGNORE);
		MPI_Send(NULL, 0, MPI_INT, 1, 11, world);
		MPI_Wait(&r[0], MPI_STATUS_IGNORE);
		CHECK(v[0] == 1 && v[1] == size - 1);
	} else if (rank == 1 && size > 2) {
		MPI_Recv(NULL, 0, MPI_INT, 0, 11, world, MPI_STATUS_IGNORE);
		MPI_Send(&rank, 1, MPI_INT, 0, 10, world);
	} else if (rank == size - 1 && size > 2) {
		MPI_Send(&rank, 1, MPI_INT, 0, 10, world);
	}
	MPI_Barrier(world);
}

static void probes(void)
{
	static const int sizes[] = {0, 40, 5000, 300000};
	unsigned char *p = malloc(300000);

	for (int i = 0; i < 4 * (size > 1); i++) {
		int n = sizes[i], got, flag = 0;
		MPI_Message m;
		MPI_Status st;

		if (rank == 1) {
			fill(p, (size_t)n, (unsigned)i);
			for (int k = 0; k < 4; k++)
				MPI_Send(p, n, MPI_BYTE, 0, 20 + k, world);
		}
		if (rank == 0) {
			MPI_Probe(MPI_ANY_SOURCE, 20, world, &st);
			MPI_Get_count(&st, MPI_BYTE, &got);
			CHECK(got == n && st.MPI_SOURCE == 1);
			MPI_Recv(p, n, MPI_BYTE, 1, 20, world, &st);
			CHECK(same(p, (size_t)n, (unsigned)i));
			while (!flag)
				MPI_Iprobe(1, MPI_ANY_TAG, world, &flag, &st);
			CHECK(st.MPI_TAG == 21);
			MPI_Recv(p, n, MPI_BYTE, 1, 21, world, &st);
			CHECK(same(p, (size_t)n, (unsigned)i));
			MPI_Mprobe(1, 22, world, &m, &st);
			MPI_Iprobe(1, 22, world, &flag, &st);
			CHECK(!flag); /* it is claimed */
			MPI_Mrecv(p, n, MPI_BYTE, &m, &st);
			CHECK(same(p, (size_t)n, (unsigned)i));
			for (flag = 0; !flag;)
				MPI_Improbe(MPI_ANY_SOURCE, 23, world, &flag, &m, &st);
			MPI_Mrecv(p, n, MPI_BYTE, &m, &st);
			CHECK(same(p, (size_t)n, (unsigned)i));
		}
		MPI_Barrier(world);
	}
	free(p);
}

static void cancel_and_truncate(void)
{
	int v[4] = {0}, flag, class, rc;
	MPI_Errhandler old;
	MPI_Request r;
	MPI_Status st;

	MPI_Irecv(v, 4, MPI_INT, MPI_ANY_SOURCE, 77, world, &r);
	MPI_Cancel(&r);
	MPI_Wait(&r, &st);
	MPI_Test_cancelled(&st, &flag);
	CHECK(flag);
	MPI_Barrier(world);
	if (size < 2)
		return;
	MPI_Comm_get_errhandler(world, &old);
	MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
	if (rank == 1)
		MPI_Send((int[4]){1, 2, 3, 4}, 4, MPI_INT, 0, 78, world);
	if (rank == 0) {
		rc = MPI_Recv(v, 2, MPI_INT, 1, 78, world, &st);
		MPI_Error_class(rc, &class);
		CHECK(class == MPI_ERR_TRUNCATE);
		CHECK(v[2] == 0);
	}
	MPI_Comm_set_errhandler(world, old);
	MPI_Barrier(world);
}

static void types(void)
{
	int next = (rank + 1) % size, prev = (rank + size - 1) % size;
	int *out = malloc(30000 * sizeof(int)), *in = malloc(30000 * sizeof(int));
	MPI_Datatype every3;

	for (int i = 0; i < 30000; i++) {
		out[i] = rank * 100000 + i;
		in[i] = -1;
	}
	MPI_Type_vector(10000, 1, 3, MPI_INT, &every3);
	MPI_Type_commit(&every3);
	MPI_Sendrecv(out, 1, every3, next, 30, in, 1, every3, prev, 30, world, MPI_STATUS_IGNORE);
	for (int i = 0; i < 30000; i++)
		CHECK(in[i] == (i % 3 ? -1 : prev * 100000 + i));
	MPI_Type_free(&every3);
	free(out);
	free(in);
}

/* More at once than any queue holds; long ones too. */
static void many(void)
{
	int next = (rank + 1) % size, prev = (rank + size - 1) % size, n = 20000;
	MPI_Request *r = malloc(2 * MANY * sizeof(*r));
	unsigned char *out = malloc((size_t)n), *in = malloc((size_t)n * 20);
	int *v = malloc(MANY * sizeof(*v)), *w = malloc(MANY * sizeof(*w));

	for (int i = 0; i < MANY; i++) {
		v[i] = rank + i;
		MPI_Isend(&v[i], 1, MPI_INT, next, i, world, &r[i]);
	}
	for (int i = 0; i < MANY; i++)
		MPI_Irecv(&w[i], 1, MPI_INT, prev, i, world, &r[MANY + i]);
	MPI_Waitall(2 * MANY, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < MANY; i++)
		CHECK(w[i] == prev + i);
	fill(out, (size_t)n, (unsigned)rank);
	for (int i = 0; i < 20; i++)
		MPI_Isend(out, n, MPI_BYTE, next, i, world, &r[i]);
	for (int i = 0; i < 20; i++)
		MPI_Irecv(in + n * i, n, MPI_BYTE, prev, 19 - i, world, &r[20 + i]);
	MPI_Waitall(40, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 20; i++)
		CHECK(same(in + n * i, (size_t)n, (unsigned)prev));
	free(v);
	free(w);
	free(out);
	free(in);
	free(r);
}

static void huge(void)
{
	unsigned char *p = malloc(LONG);
	int peer = rank ^ 1;

	if (peer < size) {
		if (rank < peer) {
			fill(p, LONG, (unsigned)rank);
			MPI_Send(p, LONG, MPI_BYTE, peer, 40, world);
			memset(p, 0, LONG);
			MPI_Recv(p, LONG, MPI_BYTE, peer, 41, world, MPI_STATUS_IGNORE);
			CHECK(same(p, LONG, (unsigned)rank));
		} else {
			MPI_Recv(p, LONG, MPI_BYTE, peer, 40, world, MPI_STATUS_IGNORE);
			MPI_Send(p, LONG, MPI_BYTE, peer, 41, world);
		}
	}
	free(p);
	MPI_Barrier(world);
}

static void collectives(void)
{
	long n = 5000, *a = malloc((size_t)(n * size) * sizeof(long)),
	     *b = malloc((size_t)(n * size) * sizeof(long)), x, sum;
	MPI_Comm half;
	int r;

	for (int root = 0; root < size; root++) {
		for (long i = 0; i < n; i++)
			a[i] = rank == root ? root * 7 + i : -1;
		MPI_Bcast(a, (int)n, MPI_LONG, root, world);
		for (long i = 0; i < n; i++)
			CHECK(a[i] == root * 7 + i);
		for (long i = 0; i < n; i++)
			a[i] = rank + i;
		MPI_Reduce(a, b, (int)n, MPI_LONG, MPI_SUM, root, world);
		for (long i = 0; rank == root && i < n; i++)
			CHECK(b[i] == size * i + size * (size - 1) / 2);
		x = rank * 3;
		MPI_Gather(&x, 1, MPI_LONG, b, 1, MPI_LONG, root, world);
		for (r = 0; rank == root && r < size; r++)
			CHECK(b[r] == r * 3);
		MPI_Scatter(b, 1, MPI_LONG, &x, 1, MPI_LONG, root, world);
		CHECK(x == rank * 3);
	}
	MPI_Allgather(a, (int)n, MPI_LONG, b, (int)n, MPI_LONG, world);
	for (long i = 0; i < n * size; i++)
		CHECK(b[i] == i / n + i % n);
	for (long i = 0; i < n * size; i++)
		a[i] = rank * 1000000 + i;
	MPI_Alltoall(a, (int)n, MPI_LONG, b, (int)n, MPI_LONG, world);
	for (long i = 0; i < n * size; i++)
		CHECK(b[i] == i / n * 1000000 + rank * n + i % n);
	x = rank + 1;
	MPI_Scan(&x, &sum, 1, MPI_LONG, MPI_SUM, world);
	CHECK(sum == (rank + 1) * (rank + 2) / 2);
	MPI_Comm_split(world, rank & 1, rank, &half);
	MPI_Allreduce(&x, &sum, 1, MPI_LONG, MPI_MAX, half);
	CHECK(sum == ((size - 1 - (rank & 1)) & ~1) + (rank & 1) + 1);
	MPI_Comm_free(&half);
	free(a);
	free(b);
}

static void *thread(void *arg)
{
	int t = (int)(long)arg, next = (rank + 1) % size, prev = (rank + size - 1) % size;
	unsigned char *out = malloc(40000), *in = malloc(40000);

	for (int i = 0; i < ROUNDS; i++) {
		int n = i % 20 ? i * 3 : 40000;

		fill(out, (size_t)n, (unsigned)(rank + t + i));
		MPI_Sendrecv(out, n, MPI_BYTE, next, 100 + t, in, 40000, MPI_BYTE, prev, 100 + t,
			     world, MPI_STATUS_IGNORE);
		CHECK(same(in, (size_t)n, (unsigned)(prev + t + i)));
	}
	free(out);
	free(in);
	return NULL;
}

static void threads(int level)
{
	pthread_t id[THREADS];

	if (level < MPI_THREAD_MULTIPLE)
		return;
	for (long i = 0; i < THREADS; i++)
		pthread_create(&id[i], NULL, thread, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
	MPI_Barrier(world);
}

/* Without calls of the owner in between: locks, and atomics that return something. */
static void passive(int *mem, MPI_Win win)
{
	int one = 1, was, last = -1, zero = 0, mine = rank + 1;

	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
	MPI_Put(&zero, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
	MPI_Put(&zero, 1, MPI_INT, 0, 1, 1, MPI_INT, win);
	MPI_Win_unlock(0, win);
	MPI_Barrier(world);
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < ROUNDS; i++) {
		MPI_Fetch_and_op(&one, &was, MPI_INT, 0, 0, MPI_SUM, win);
		MPI_Win_flush(0, win);
		CHECK(was > last && was < ROUNDS * size);
		last = was;
	}
	/* One rank finds it zero. */
	MPI_Compare_and_swap(&mine, &zero, &was, MPI_INT, 0, 1, win);
	MPI_Win_flush(0, win);
	MPI_Win_unlock_all(win);
	CHECK(was >= 0 && was <= size && was != mine);
	was = was == 0;
	MPI_Allreduce(MPI_IN_PLACE, &was, 1, MPI_INT, MPI_SUM, world);
	CHECK(was == 1);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
	CHECK(rank != 0 || (mem[0] == ROUNDS * size && mem[1] > 0 && mem[1] <= size));
	MPI_Win_unlock(0, win);
	MPI_Barrier(world);
}

static void windows(void)
{
	int n = 1000, *mem, *v = malloc((size_t)n * sizeof(*v)), next = (rank + 1) % size;
	MPI_Win win;

	MPI_Win_allocate(n * (int)sizeof(int), sizeof(int), MPI_INFO_NULL, world, &mem, &win);
	for (int i = 0; i < n; i++)
		mem[i] = 0;
	MPI_Win_fence(0, win);
	for (int i = 0; i < n; i++)
		v[i] = rank + i;
	MPI_Put(v, n, MPI_INT, next, 0, n, MPI_INT, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < n; i++)
		CHECK(mem[i] == (rank + size - 1) % size + i);
	memset(v, 0, (size_t)n * sizeof(*v));
	MPI_Get(v, n, MPI_INT, next, 0, n, MPI_INT, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < n; i++)
		CHECK(v[i] == rank + i);
	v[0] = 1;
	MPI_Accumulate(v, 1, MPI_INT, 0, n - 1, 1, MPI_INT, MPI_SUM, win);
	MPI_Win_fence(0, win);
	CHECK(rank != 0 || mem[n - 1] == size - 1 + n - 1 + size);
	passive(mem, win);
	MPI_Win_free(&win);
	free(v);
}

int main(int argc, char **argv)
{
	int one_sided = argc > 1 && strcmp(argv[1], "windows") == 0, level;
	int few = argc > 1 && strcmp(argv[1], "hosts") == 0, found = 0;

	MPI_Init_thread(&argc, &argv, one_sided ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_dup(MPI_COMM_WORLD, &world);
	MPI_Comm_rank(world, &rank);
	MPI_Comm_size(world, &size);
	if (one_sided) {
		windows();
	} else if (few) {
		wildcards();
		everybody();
		collectives();
		found = hosts();
	} else {
		modes();
		persistent();
		wildcards();
		directed();
		probes();
		cancel_and_truncate();
		types();
		many();
		collectives();
		threads(level);
		huge();
	}
	if (rank == 0 && few)
		printf("%d ranks on %d hosts\n", size, found);
	else if (rank == 0)
		printf("%d ranks, threads %s\n", size,
		       level == MPI_THREAD_MULTIPLE ? "multiple" : "single");
	MPI_Comm_free(&world);
	MPI_Finalize();
	return 0;
}
