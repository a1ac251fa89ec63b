/* SPDX-License-Identifier: BSD-2-Clause */
/* The arithmetic of atomics, and what an access to a window needs. */
#include <string.h>

#include "engine/window_internal.h"

static const struct {
	uint8_t size;
	bool real;
} types[TW_ATOMIC_TYPES] = {
	[TW_ATOMIC_INT8] = {1, false},	[TW_ATOMIC_UINT8] = {1, false},
	[TW_ATOMIC_INT16] = {2, false}, [TW_ATOMIC_UINT16] = {2, false},
	[TW_ATOMIC_INT32] = {4, false}, [TW_ATOMIC_UINT32] = {4, false},
	[TW_ATOMIC_INT64] = {8, false}, [TW_ATOMIC_UINT64] = {8, false},
	[TW_ATOMIC_FLOAT] = {4, true},	[TW_ATOMIC_DOUBLE] = {8, true},
};

uint32_t tw_atomic_size(enum tw_atomic_type type)
{
	return type < TW_ATOMIC_TYPES ? types[type].size : 0;
}

static bool bitwise(enum tw_atomic_op op)
{
	return op == TW_ATOMIC_BOR || op == TW_ATOMIC_BAND || op == TW_ATOMIC_BXOR ||
	       op == TW_ATOMIC_MSWAP;
}

bool tw_atomic_exists(enum tw_atomic_op op, enum tw_atomic_type type)
{
	return op < TW_ATOMIC_OPS && type < TW_ATOMIC_TYPES && !(bitwise(op) && types[type].real);
}

unsigned tw_atomic_rights(enum tw_atomic_op op, bool result)
{
	return TW_WINDOW_ATOMIC | (op == TW_ATOMIC_READ || result ? TW_WINDOW_READ : 0);
}

enum tw_status tw_window_check(unsigned rights, uint64_t size, unsigned wanted, uint64_t offset,
			       uint64_t len)
{
	if (wanted & ~rights)
		return TW_S_NO_RIGHT;
	return tw_window_within(offset, len, size) ? TW_S_OK : TW_S_OUT_OF_WINDOW;
}

/* An element, its bits from the low end. */
union element {
	uint64_t bits;
	int8_t int8;
	uint8_t uint8;
	int16_t int16;
	uint16_t uint16;
	int32_t int32;
	uint32_t uint32;
	int64_t int64;
	uint64_t uint64;
	float real32;
	double real64;
};

/* Each returns whether to store r. Sums and products wrap around. */
#define COMPUTES(type, member, wide)                                                               \
	static bool compute_##member(enum tw_atomic_op op, union element old, union element x,     \
				     union element y, union element *r)                            \
	{                                                                                          \
		type a = old.member, b = x.member, c = y.member;                                   \
                                                                                                   \
		*r = x;                                                                            \
		switch (op) {                                                                      \
		case TW_ATOMIC_MIN:                                                                \
			return b < a;                                                              \
		case TW_ATOMIC_MAX:                                                                \
			return b > a;                                                              \
		case TW_ATOMIC_SUM:                                                                \
			r->member = (type)((wide)a + (wide)b);                                     \
			return true;                                                               \
		case TW_ATOMIC_PROD:                                                               \
			r->member = (type)((wide)a * (wide)b);                                     \
			return true;                                                               \
		case TW_ATOMIC_LOR:                                                                \
			r->member = a != 0 || b != 0;                                              \
			return true;                                                               \
		case TW_ATOMIC_LAND:                                                               \
			r->member = a != 0 && b != 0;                                              \
			return true;                                                               \
		case TW_ATOMIC_LXOR:                                                               \
			r->member = (a != 0) != (b != 0);                                          \
			return true;                                                               \
		case TW_ATOMIC_CSWAP:                                                              \
			return c == a;                                                             \
		case TW_ATOMIC_CSWAP_NE:                                                           \
			return c != a;                                                             \
		case TW_ATOMIC_CSWAP_LE:                                                           \
			return c <= a;                                                             \
		case TW_ATOMIC_CSWAP_LT:                                                           \
			return c < a;                                                              \
		case TW_ATOMIC_CSWAP_GE:                                                           \
			return c >= a;                                                             \
		case TW_ATOMIC_CSWAP_GT:                                                           \
			return c > a;                                                              \
		default:                                                                           \
			return op == TW_ATOMIC_WRITE;                                              \
		}                                                                                  \
	}

COMPUTES(int8_t, int8, uint32_t)
COMPUTES(uint8_t, uint8, uint32_t)
COMPUTES(int16_t, int16, uint32_t)
COMPUTES(uint16_t, uint16, uint32_t)
COMPUTES(int32_t, int32, uint32_t)
COMPUTES(uint32_t, uint32, uint32_t)
COMPUTES(int64_t, int64, uint64_t)
COMPUTES(uint64_t, uint64, uint64_t)
COMPUTES(float, real32, float)
COMPUTES(double, real64, double)

static bool compute(enum tw_atomic_op op, enum tw_atomic_type type, union element old,
		    union element x, union element y, union element *r)
{
	static bool (*const by_type[TW_ATOMIC_TYPES])(enum tw_atomic_op, union element,
						      union element, union element,
						      union element *) = {
		[TW_ATOMIC_INT8] = compute_int8,     [TW_ATOMIC_UINT8] = compute_uint8,
		[TW_ATOMIC_INT16] = compute_int16,   [TW_ATOMIC_UINT16] = compute_uint16,
		[TW_ATOMIC_INT32] = compute_int32,   [TW_ATOMIC_UINT32] = compute_uint32,
		[TW_ATOMIC_INT64] = compute_int64,   [TW_ATOMIC_UINT64] = compute_uint64,
		[TW_ATOMIC_FLOAT] = compute_real32, [TW_ATOMIC_DOUBLE] = compute_real64};

	switch (op) {
	case TW_ATOMIC_BOR:
		r->bits = old.bits | x.bits;
		return true;
	case TW_ATOMIC_BAND:
		r->bits = old.bits & x.bits;
		return true;
	case TW_ATOMIC_BXOR:
		r->bits = old.bits ^ x.bits;
		return true;
	case TW_ATOMIC_MSWAP:
		r->bits = (x.bits & y.bits) | (old.bits & ~y.bits);
		return true;
	default:
		return by_type[type](op, old, x, y, r);
	}
}

#define REPLACES(type)                                                                             \
	__atomic_compare_exchange_n((type##_t *)at, &old->type, new->type, false, __ATOMIC_SEQ_CST, \
				    __ATOMIC_SEQ_CST)

/* Stores if what is there is still old; else old becomes that. */
static bool window_atomic_replace(void *at, uint32_t size, union element *old,
				  const union element *new)
{
	if ((uintptr_t)at & (size - 1)) {
		memcpy(at, new, size);
		return true;
	}
	switch (size) {
	case 1:
		return REPLACES(uint8);
	case 2:
		return REPLACES(uint16);
	case 4:
		return REPLACES(uint32);
	default:
		return REPLACES(uint64);
	}
}

static union element window_atomic_load(const void *at, uint32_t size)
{
	union element e = {.bits = 0};

	memcpy(&e, at, size);
	return e;
}

void tw_atomic_wire(void *elements, uint32_t len, enum tw_atomic_type type)
{
	uint32_t size = types[type].size;
	char *e = elements;

	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
		return;
	for (uint32_t i = 0; i < len; i += size)
		for (uint32_t low = i, high = i + size - 1; low < high; low++, high--) {
			char byte = e[low];

			e[low] = e[high];
			e[high] = byte;
		}
}

void tw_atomic_apply(char *memory, char *result, const struct tw_window_msg *m, const char *operand)
{
	enum tw_atomic_op op = (enum tw_atomic_op)m->op;
	enum tw_atomic_type type = (enum tw_atomic_type)m->type;
	uint32_t size = types[type].size, n = tw_atomic_operands(op);

	for (uint32_t i = 0; i < m->len; i += size) {
		union element x = {.bits = 0}, y = x, new,
			      old = window_atomic_load(memory + i, size);

		if (n > 0)
			x = window_atomic_load(operand + i, size);
		if (n > 1)
			y = window_atomic_load(operand + m->len + i, size);
		tw_atomic_wire(&x, size, type);
		tw_atomic_wire(&y, size, type);
		while (compute(op, type, old, x, y, &new) &&
		       !window_atomic_replace(memory + i, size, &old, &new))
			;
		if (result) {
			tw_atomic_wire(&old, size, type);
			memcpy(result + i, &old, size);
		}
	}
}
