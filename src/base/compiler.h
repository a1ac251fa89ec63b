/* SPDX-License-Identifier: BSD-2-Clause */
/* Compiler idioms used everywhere. */
#ifndef TW_COMPILER_H
#define TW_COMPILER_H

#include <stddef.h>
#include <stdint.h>

/* A lock of libatomic's would be one process's own, in shared memory too. */
_Static_assert(__GCC_ATOMIC_INT_LOCK_FREE == 2 && __GCC_ATOMIC_LLONG_LOCK_FREE == 2,
	       "the processor has atomic words of 32 and 64 bits");

#define TW_NARROW (sizeof(void *) < 8) /* addresses of 32 bits */
#define TW_LINE 64		       /* bytes of a cache line */
#define TW_PAGE 4096

#if defined(__x86_64__) && defined(__LP64__)
#define TW_AMD64 1
#else
#define TW_AMD64 0
#endif

/* Two members are in different lines even where these have 128 bytes, or are fetched in pairs. */
#define tw_apart(type, a, b)                                                                       \
	_Static_assert(offsetof(type, a) / (2 * TW_LINE) != offsetof(type, b) / (2 * TW_LINE),     \
		       "a line each")

/* After a structure that hosts of any byte order exchange: it is little-endian. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define TW_WIRE
#elif defined(__clang__)
#error "on big-endian processors this needs gcc, which converts between byte orders"
#else
#define TW_WIRE __attribute__((scalar_storage_order("little-endian")))
/* Structures of the wire are also handed on as bytes. */
#pragma GCC diagnostic ignored "-Wscalar-storage-order"
#endif

#define tw_likely(x) __builtin_expect(!!(x), 1)
#define tw_unlikely(x) __builtin_expect(!!(x), 0)
#define tw_aligned_line __attribute__((aligned(TW_LINE)))
#define tw_printf(fmt, args) __attribute__((format(printf, fmt, args)))
#define tw_noinline __attribute__((noinline))
#define tw_inline inline __attribute__((always_inline))
/*
 * A function of a header, copied into every file that calls it. With -Os the linker keeps
 * one copy.
 */
#ifdef __OPTIMIZE_SIZE__
#define tw_shared __attribute__((weak, visibility("hidden"), noinline))
#else
#define tw_shared static inline
#endif

/*
 * Fetches a cache line for writing. __builtin_prefetch() does that only where the target is
 * known to have the instruction; every 64-bit x86 processor accepts it, and the oldest
 * ignore it.
 */
static inline void tw_prefetch_own(const void *p)
{
#ifdef __x86_64__
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

#if defined(__SANITIZE_THREAD__)
#define TW_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TW_TSAN 1
#endif
#endif
#ifndef TW_TSAN
#define TW_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TW_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TW_ASAN 1
#endif
#endif
#ifndef TW_ASAN
#define TW_ASAN 0
#endif

/*
 * Reads a word that other threads write, as an atomic load would; of that compilers make an
 * instruction of its own.
 */
#if TW_AMD64 && !TW_TSAN
#define tw_peek(word) (*(const uint64_t *)(const void *)(word))
#else
#define tw_peek(word) atomic_load_explicit(word, memory_order_acquire)
#endif

/* Hides the origin of a value from the compiler. */
#define tw_opaque(x) __asm__("" : "+r"(x))

/* Tells the compiler what the code makes sure of. */
#define tw_assume(x) ((x) ? (void)0 : __builtin_unreachable())

#define tw_container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define tw_countof(array) (sizeof(array) / sizeof((array)[0]))

#define tw_min(a, b)                                                                               \
	({                                                                                         \
		__typeof__(a) tw_a = (a);                                                          \
		__typeof__(b) tw_b = (b);                                                          \
		tw_a < tw_b ? tw_a : tw_b;                                                         \
	})
#define tw_max(a, b)                                                                               \
	({                                                                                         \
		__typeof__(a) tw_a = (a);                                                          \
		__typeof__(b) tw_b = (b);                                                          \
		tw_a > tw_b ? tw_a : tw_b;                                                         \
	})

#endif /* TW_COMPILER_H */
