/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fuzzer is one file with this function, as libFuzzer wants it. tests/fuzz/long
 * builds it with libFuzzer; make check links it with driver.c, which any
 * compiler can build.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* How many inputs make check runs, in about three seconds. */
extern const unsigned fuzz_inputs;

#define FUZZ_MUST(cond)                                                                            \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* The input, byte by byte; zeros at its end. */
struct input {
	const uint8_t *at;
	size_t left;
};

static inline uint8_t in_byte(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

static inline uint32_t in_word(struct input *in)
{
	uint32_t w = in_byte(in);

	w |= (uint32_t)in_byte(in) << 8;
	w |= (uint32_t)in_byte(in) << 16;
	return w | (uint32_t)in_byte(in) << 24;
}

#endif /* FUZZ_H */
