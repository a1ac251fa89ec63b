/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters behind dynamic attributes (MRAPI 4.6.3 to 4.6.5). Sources count in 64
 * bits; the attribute shows the low 32 bits of what was counted while it was started.
 * The callback thread detects rollovers: it reads a counter again when its fastest
 * source could have rolled over. A node keeps its count over stop and start.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/file.h"
#include "base/sys.h"
#include "mrapi/meta/rsrc.h"

#define LIVENESS_NS 5000000ull /* minimum interval between two reads */
#define PAGES_PER_S (1ull << 28)
#define LOADS_PER_CYCLE 4ull /* above what any processor does */

struct counter {
	struct tw_list link;
	mrapi_rsrc_type_t type;
	unsigned index;
	mrapi_uint_t num;
	uint32_t me;
	bool running;
	uint64_t before; /* counted before the last start */
	uint64_t from;	 /* the source's value at that start */
	uint64_t rolled; /* rollovers reported */
	int fd[2];	 /* hardware counters: accesses, misses */
	void (*rollover)(void);
};

static struct tw_list counters = {&counters, &counters};

bool tw_mrapi_attr_dynamic(mrapi_rsrc_type_t type, mrapi_uint_t num)
{
	if (type == MRAPI_RSRC_MEM)
		return num == MRAPI_RSRC_MEM_ALLOCATIONS;
	if (type == MRAPI_RSRC_CACHE)
		return num == MRAPI_RSRC_CACHE_HITS || num == MRAPI_RSRC_CACHE_MISSES;
	return type == MRAPI_RSRC_CPU &&
	       (num == MRAPI_RSRC_CPU_CYCLES || num == MRAPI_RSRC_CPU_BUSY);
}

/* ------------------------------------------------------------------- sources */

/* Milliseconds in which a processor was busy, from /proc/stat. */
static bool busy_ms(unsigned cpu, uint64_t *value)
{
	unsigned long long t[8] = {0};
	char line[256], name[16];
	bool found;

	snprintf(name, sizeof(name), "cpu%u ", cpu);
	found = tw_file_line("/proc/stat", name, line, sizeof(line)) &&
		sscanf(line, "%llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
		       &t[4], &t[5], &t[6], &t[7]) >= 3;
	/* All columns but idle and iowait. */
	*value = (t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
	return found;
}

/* Pages allocated from a NUMA node, from its numastat. */
static bool allocations(unsigned node, uint64_t *value)
{
	uint64_t local, other;
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/numastat", node);
	if (!tw_file_number(path, "local_node ", &local) ||
	    !tw_file_number(path, "other_node ", &other))
		return false;
	*value = local + other;
	return true;
}

static int open_hardware(uint64_t cache, uint64_t result)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HW_CACHE,
		.size = sizeof(attr),
		.config = cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | result << 16,
		.inherit = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return tw_fd_own((int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

/* The kernel names the first and the last level only. */
static mrapi_status_t open_cache(struct counter *c, const struct tw_mrapi_rsrc *f)
{
	bool first = f->value[MRAPI_RSRC_CACHE_LEVEL] == 1;

	if (!first && !f->last_level)
		return MRAPI_ERR_NOT_SUPPORTED;
	c->fd[0] = open_hardware(first ? PERF_COUNT_HW_CACHE_L1D : PERF_COUNT_HW_CACHE_LL,
				 PERF_COUNT_HW_CACHE_RESULT_ACCESS);
	if (c->fd[0] >= 0)
		c->fd[1] = open_hardware(first ? PERF_COUNT_HW_CACHE_L1D : PERF_COUNT_HW_CACHE_LL,
					 PERF_COUNT_HW_CACHE_RESULT_MISS);
	if (c->fd[0] >= 0 && c->fd[1] >= 0)
		return MRAPI_SUCCESS;
	return errno == EBUSY ? MRAPI_ERR_RSRC_COUNTER_INUSE : MRAPI_ERR_NOT_SUPPORTED;
}

static bool cache_count(const struct counter *c, uint64_t *value)
{
	uint64_t accesses, misses;

	if (tw_sys_read(c->fd[0], &accesses, sizeof(accesses)) != sizeof(accesses) ||
	    tw_sys_read(c->fd[1], &misses, sizeof(misses)) != sizeof(misses))
		return false;
	*value = c->num == MRAPI_RSRC_CACHE_MISSES ? misses
		 : accesses > misses		   ? accesses - misses
						   : 0;
	return true;
}

/* The source's present value. */
static bool sample(const struct counter *c, uint64_t *value)
{
	if (c->type == MRAPI_RSRC_CACHE)
		return cache_count(c, value);
	if (c->type == MRAPI_RSRC_MEM)
		return allocations(c->index, value);
	if (c->num == MRAPI_RSRC_CPU_BUSY)
		return busy_ms(c->index, value);
	*value = tw_clock();
	return true;
}

/* ------------------------------------------------------------------ counters */

/* Caches of all levels have the same attribute numbers. */
static unsigned counter_index_of(const struct tw_mrapi_rsrc *f)
{
	return f->type == MRAPI_RSRC_CACHE
		       ? f->index + ((unsigned)f->value[MRAPI_RSRC_CACHE_LEVEL] << 24)
		       : f->index;
}

static struct counter *counter_find(const struct tw_mrapi_rsrc *f, mrapi_uint_t num, uint32_t me)
{
	tw_list_walk(&counters, struct counter, c, link) {
		if (c->type == f->type && c->num == num && c->index == counter_index_of(f) &&
		    c->me == me)
			return c;
	}
	return NULL;
}

/* The entry of a counter in the job; a free one for NULL. Under the admin lock. */
static struct tw_mrapi_count *counter_entry(const struct counter *c)
{
	struct tw_mrapi_segment *seg = tw_mrapi.seg;

	for (uint32_t i = 0; i < seg->counts; i++) {
		struct tw_mrapi_count *e = &seg->count[i];
		bool used = atomic_load(&e->node) != 0;

		if (c ? used && e->type == c->type && e->num == c->num && e->index == c->index
		      : !used)
			return e;
	}
	return !c && seg->counts < TW_MRAPI_COUNTS ? &seg->count[seg->counts++] : NULL;
}

/* Claims the counter for its node; false if another node has it or the table is full. */
static bool counter_reserve(const struct counter *c)
{
	struct tw_mrapi_count *e = NULL;

	tw_mrapi_admin_lock();
	if (!counter_entry(c) && (e = counter_entry(NULL))) {
		e->type = c->type;
		e->num = c->num;
		e->index = c->index;
		atomic_store(&e->node, c->me);
	}
	tw_mrapi_admin_unlock();
	return e != NULL;
}

static void counter_give_back(const struct counter *c)
{
	struct tw_mrapi_count *e;

	tw_mrapi_admin_lock();
	e = counter_entry(c);
	/* The end of the node may have released it already. */
	if (e && atomic_load(&e->node) == c->me)
		atomic_store(&e->node, 0);
	tw_mrapi_admin_unlock();
}

static struct counter *counter_make(const struct tw_mrapi_rsrc *f, mrapi_uint_t num, uint32_t me)
{
	struct counter *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->type = f->type;
	c->index = counter_index_of(f);
	c->num = num;
	c->me = me;
	c->fd[0] = c->fd[1] = -1;
	tw_list_add_tail(&counters, &c->link);
	return c;
}

static void close_hardware(struct counter *c)
{
	tw_fd_close(c->fd[0]);
	tw_fd_close(c->fd[1]);
	c->fd[0] = c->fd[1] = -1;
}

mrapi_status_t tw_mrapi_counter_start(const struct tw_mrapi_rsrc *f, mrapi_uint_t num, uint32_t me,
				      void (*rollover)(void))
{
	struct counter *c = counter_find(f, num, me);
	mrapi_status_t status = MRAPI_SUCCESS;

	if (c && c->running)
		return MRAPI_ERR_RSRC_STARTED;
	if (!f->here)
		return MRAPI_ERR_NOT_SUPPORTED;
	if (!c)
		c = counter_make(f, num, me);
	if (!c)
		return MRAPI_ERR_MEM_LIMIT;
	if (!counter_reserve(c))
		return MRAPI_ERR_RSRC_COUNTER_INUSE;
	if (f->type == MRAPI_RSRC_CACHE)
		status = open_cache(c, f);
	if (status == MRAPI_SUCCESS && !sample(c, &c->from))
		status = MRAPI_ERR_NOT_SUPPORTED;
	if (status != MRAPI_SUCCESS) {
		close_hardware(c);
		counter_give_back(c);
		return status;
	}
	c->rollover = rollover;
	c->rolled = c->before >> 32;
	c->running = true;
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mrapi_counter_reset(const struct tw_mrapi_rsrc *f, mrapi_uint_t num, uint32_t me,
				      void (*unused)(void))
{
	struct counter *c = counter_find(f, num, me);

	(void)unused;
	if (!c)
		return MRAPI_SUCCESS; /* the source is not available */
	c->before = c->rolled = 0;
	if (c->running)
		sample(c, &c->from);
	return MRAPI_SUCCESS;
}

/* The total so far. */
static uint64_t total(const struct counter *c)
{
	uint64_t now = c->from;

	if (!c->running)
		return c->before;
	sample(c, &now);
	/* The source restarts when a processor goes off line and returns. */
	return c->before + (now > c->from ? now - c->from : 0);
}

mrapi_status_t tw_mrapi_counter_read(const struct tw_mrapi_rsrc *f, mrapi_uint_t num, uint32_t me,
				     mrapi_uint_t *value)
{
	struct counter *c = counter_find(f, num, me);

	if (!c || !c->running)
		return MRAPI_ERR_RSRC_NOTSTARTED;
	*value = (mrapi_uint_t)total(c);
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mrapi_counter_stop(const struct tw_mrapi_rsrc *f, mrapi_uint_t num, uint32_t me,
				     void (*unused)(void))
{
	struct counter *c = counter_find(f, num, me);

	(void)unused;
	if (!c || !c->running)
		return MRAPI_ERR_RSRC_NOTSTARTED;
	c->before = total(c);
	c->running = false;
	close_hardware(c);
	counter_give_back(c);
	return MRAPI_SUCCESS;
}

/* The source's highest rate, per second. */
static uint64_t fastest(const struct counter *c)
{
	uint64_t hz = tw_clock_us(1000000);

	if (c->type == MRAPI_RSRC_MEM)
		return PAGES_PER_S;
	if (c->type == MRAPI_RSRC_CACHE)
		return hz * LOADS_PER_CYCLE * (uint64_t)sysconf(_SC_NPROCESSORS_CONF);
	return c->num == MRAPI_RSRC_CPU_BUSY ? 1000 : hz;
}

bool tw_mrapi_counters_due(struct tw_mrapi_owner *owner, void (**rollover)(void),
			   uint64_t *deadline)
{
	tw_list_walk(&counters, struct counter, c, link) {
		uint64_t sum = c->rollover ? total(c) : 0, left;

		if (!c->rollover)
			continue;
		if (sum >> 32 > c->rolled) {
			c->rolled++;
			*owner = tw_mrapi_owner(c->me);
			*rollover = c->rollover;
			return true;
		}
		if (!c->running)
			continue;
		left = ((1ull << 32) - (uint32_t)sum) * 1000000000 / fastest(c);
		*deadline = tw_min(*deadline, tw_clock_ns() + tw_max(left, LIVENESS_NS));
	}
	return false;
}

void tw_mrapi_counters_end(uint32_t me)
{
	tw_list_walk(&counters, struct counter, c, link) {
		if (me && c->me != me)
			continue;
		close_hardware(c);
		tw_list_del(&c->link);
		free(c);
	}
}
