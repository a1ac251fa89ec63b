/* SPDX-License-Identifier: BSD-2-Clause */
/* Any MPI, started by its own mpirun. Failures end the program: the default. */
#include <mpi.h>
#include <string.h>

#include "launch.h"
#include "mpi_rows.h"

#define PEER_HAS_BLOCKING
#undef PEER_CONNECTS_AT_OPEN
#define PEER_CONNECTS_AT_OPEN true

typedef MPI_Request peer_req;

static void peer_version(char *text, size_t room)
{
	static char version[MPI_MAX_LIBRARY_VERSION_STRING];
	int len;

	MPI_Get_library_version(version, &len);
	for (char *c = version; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = ' ';
	snprintf(text, room, "%.*s", (int)room - 1, version);
}

/* mpirun has made the processes; which one is this, without asking MPI yet? */
static void peer_launch(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};

	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
		if (getenv(names[i])) {
			rank = atoi(getenv(names[i]));
			return;
		}
	die("mpirun", "does not tell the rank");
}

static void peer_open(void)
{
	int at, of;

	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &at);
	MPI_Comm_size(MPI_COMM_WORLD, &of);
	if (at != rank || of != ranks)
		die("mpirun", "started something else");
}

static void peer_await(int r)
{
	(void)r;
}

static void peer_connect(int r)
{
	(void)r;
}

static void peer_close(void)
{
	MPI_Finalize();
}

static inline int mpi_from(int from)
{
	return from == ANY ? MPI_ANY_SOURCE : from;
}

static inline void peer_isend(int to, const void *buf, size_t len, uint32_t tag, peer_req *r)
{
	MPI_Isend(buf, (int)len, MPI_CHAR, to, (int)tag, MPI_COMM_WORLD, r);
}

static inline void peer_irecv(int from, void *buf, size_t len, uint32_t tag, peer_req *r)
{
	MPI_Irecv(buf, (int)len, MPI_CHAR, mpi_from(from), (int)tag, MPI_COMM_WORLD, r);
}

static inline bool peer_test(peer_req *r)
{
	int done;

	MPI_Test(r, &done, MPI_STATUS_IGNORE);
	return done;
}

/* MPI_Wait() of some libraries never yields: alone with its processor it is the faster. */
static inline void mpi_yield(peer_req *r)
{
	unsigned polls = 0;

	while (!peer_test(r))
		idle(&polls);
}

static inline void peer_wait(peer_req *r)
{
	if (crowded)
		mpi_yield(r);
	else
		MPI_Wait(r, MPI_STATUS_IGNORE);
}

static inline void peer_wait_all(peer_req *r, unsigned n)
{
	if (!crowded) {
		MPI_Waitall((int)n, r, MPI_STATUSES_IGNORE);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		mpi_yield(&r[i]);
}

static inline void peer_send(int to, const void *buf, size_t len, uint32_t tag)
{
	peer_req r;

	if (!crowded) {
		MPI_Send(buf, (int)len, MPI_CHAR, to, (int)tag, MPI_COMM_WORLD);
		return;
	}
	peer_isend(to, buf, len, tag, &r);
	mpi_yield(&r);
}

static inline void peer_recv(int from, void *buf, size_t len, uint32_t tag)
{
	peer_req r;

	if (!crowded) {
		MPI_Recv(buf, (int)len, MPI_CHAR, mpi_from(from), (int)tag, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		return;
	}
	peer_irecv(from, buf, len, tag, &r);
	mpi_yield(&r);
}
