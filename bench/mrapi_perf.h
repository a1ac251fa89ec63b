/* SPDX-License-Identifier: BSD-2-Clause */
/* Plans and reports are in mrapi_perf.c, measurements in mrapi_work.c. */
#ifndef BENCH_MRAPI_PERF_H
#define BENCH_MRAPI_PERF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli.h"
#include "mrapi.h"
#include "series.h"
#include "table.h"

#define PIECE 64u  /* bytes of a strided access */
#define BUFFERS 2u /* of a stream, each filled while the other is read */
#define MAX_SIZE (256u << 20)

struct options {
	bool locks, rmem, no_bind;
	struct bench_range sizes;
	uint32_t stride;
	unsigned rounds;
	double seconds;
	enum table_format format;
};
extern struct options opt;

/* A figure: runs something n times; seconds. In up to three ways. */
enum way { MRAPI, BARE, MX, WAYS };
struct figure {
	double (*run[WAYS])(const struct figure *f, uint64_t n); /* NULL: there is none */
	const char *what;
	uint32_t size, stride;
	mrapi_rmem_hndl_t rmem;
	bool shared, write, stream;
	uint64_t n[WAYS];
	struct bench_series time[WAYS], ratio[WAYS]; /* ratio: of MRAPI to that */
};

double work_lock(const struct figure *f, uint64_t n);
double work_lock_bare(const struct figure *f, uint64_t n);
double work_contended(const struct figure *f, uint64_t n);
double work_contended_bare(const struct figure *f, uint64_t n);
double work_rmem(const struct figure *f, uint64_t n);
/* Memory that both have mapped, and memory of the other alone. */
double work_copy(const struct figure *f, uint64_t n);
double work_vm(const struct figure *f, uint64_t n);
/* MX messages of that size, several on the way. */
double work_mx(const struct figure *f, uint64_t n);
/* In that way; a stream's bytes are new each time, and looked at where they arrive. */
double work(const struct figure *f, enum way way, uint64_t n);
void work_make(char *buf, uint32_t size, uint64_t i);
void work_look(const char *buf, uint32_t size);

/* Forks the other process, which follows until work_end(); each bound to a core. */
void work_start(void);
void work_end(void);

/* mrapi_beside.c: MX beside MRAPI, between the two. */
struct mx_name {
	uint64_t nic;
	uint32_t id;
};
struct mx_name beside_open(void);
/* Sends or receives n messages; a stream's in turns from or to BUFFERS places. */
void beside_move(const struct mx_name *peer, bool send, bool stream, char *buf, uint32_t size,
		 uint64_t n);
void beside_close(void);

#define OK(call)                                                                                   \
	do {                                                                                       \
		mrapi_status_t st;                                                                 \
		char text[MRAPI_MAX_STATUS_SIZE];                                                  \
		call;                                                                              \
		if (st != MRAPI_SUCCESS)                                                           \
			bench_fail("%s: %s", #call, mrapi_display_status(st, text, sizeof(text))); \
	} while (0)

#endif /* BENCH_MRAPI_PERF_H */
