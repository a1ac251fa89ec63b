/* SPDX-License-Identifier: BSD-2-Clause */
/* What MPI programs call most, by name: the rows that the Intel MPI Benchmarks made usual. */
#ifndef COMPARE_MPI_ROWS_H
#define COMPARE_MPI_ROWS_H

#include <mpi.h>
#include <stddef.h>
#include <string.h>

#define MPI_TAG 7

/* One turn of a row with messages of n bytes. Collectives of numbers have n / 8 of them. */
typedef void mpi_turn(char *send, char *receive, int n);

static int mpi_right(void)
{
	return (rank + 1) % ranks;
}

static int mpi_left(void)
{
	return (rank + ranks - 1) % ranks;
}

/* The ranks after the second are idle, as in the next row. */
static void mpi_pingpong(char *send, char *receive, int n)
{
	if (rank == 0) {
		MPI_Send(send, n, MPI_BYTE, 1, MPI_TAG, MPI_COMM_WORLD);
		MPI_Recv(receive, n, MPI_BYTE, 1, MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else if (rank == 1) {
		MPI_Recv(receive, n, MPI_BYTE, 0, MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(send, n, MPI_BYTE, 0, MPI_TAG, MPI_COMM_WORLD);
	}
}

static void mpi_pingping(char *send, char *receive, int n)
{
	MPI_Request r;

	if (rank > 1)
		return;
	MPI_Isend(send, n, MPI_BYTE, !rank, MPI_TAG, MPI_COMM_WORLD, &r);
	MPI_Recv(receive, n, MPI_BYTE, !rank, MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void mpi_sendrecv(char *send, char *receive, int n)
{
	MPI_Sendrecv(send, n, MPI_BYTE, mpi_right(), MPI_TAG, receive, n, MPI_BYTE, mpi_left(),
		     MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* With both neighbours. */
static void mpi_exchange(char *send, char *receive, int n)
{
	MPI_Request r[2];

	MPI_Isend(send, n, MPI_BYTE, mpi_left(), MPI_TAG, MPI_COMM_WORLD, &r[0]);
	MPI_Isend(send, n, MPI_BYTE, mpi_right(), MPI_TAG, MPI_COMM_WORLD, &r[1]);
	MPI_Recv(receive, n, MPI_BYTE, mpi_left(), MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Recv(receive + n, n, MPI_BYTE, mpi_right(), MPI_TAG, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void mpi_allreduce(char *send, char *receive, int n)
{
	MPI_Allreduce(send, receive, n / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void mpi_bcast(char *send, char *receive, int n)
{
	static int root;

	(void)receive;
	MPI_Bcast(send, n, MPI_BYTE, root, MPI_COMM_WORLD);
	root = (root + 1) % ranks; /* or the first one runs ahead */
}

static void mpi_alltoall(char *send, char *receive, int n)
{
	MPI_Alltoall(send, n, MPI_BYTE, receive, n, MPI_BYTE, MPI_COMM_WORLD);
}

static void mpi_allgather(char *send, char *receive, int n)
{
	MPI_Allgather(send, n, MPI_BYTE, receive, n, MPI_BYTE, MPI_COMM_WORLD);
}

static void mpi_reduce_scatter(char *send, char *receive, int n)
{
	int each = n / 8 / ranks;

	MPI_Reduce_scatter_block(send, receive, each ? each : 1, MPI_DOUBLE, MPI_SUM,
				 MPI_COMM_WORLD);
}

static void mpi_barrier(char *send, char *receive, int n)
{
	(void)send;
	(void)receive;
	(void)n;
	MPI_Barrier(MPI_COMM_WORLD);
}

static const struct mpi_row {
	const char *name;
	mpi_turn *turn;
} mpi_rows[] = {
	{"PingPong", mpi_pingpong},   {"PingPing", mpi_pingping},
	{"Sendrecv", mpi_sendrecv},   {"Exchange", mpi_exchange},
	{"Allreduce", mpi_allreduce}, {"Bcast", mpi_bcast},
	{"Alltoall", mpi_alltoall},   {"Allgather", mpi_allgather},
	{"Reduce_scatter", mpi_reduce_scatter}, {"Barrier", mpi_barrier},
};

#define PEER_HAS_ROWS

/* NULL: there is no such row. */
static mpi_turn *peer_row(const char *name)
{
	for (unsigned i = 0; i < sizeof mpi_rows / sizeof mpi_rows[0]; i++)
		if (!strcmp(mpi_rows[i].name, name))
			return mpi_rows[i].turn;
	return NULL;
}

#endif /* COMPARE_MPI_ROWS_H */
