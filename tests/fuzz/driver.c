/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a fuzzer without libFuzzer: the inputs of its corpus, then such as come
 * from changing and joining them at random. The seed says which. Their number is
 * fixed, so that two runs have the same inputs, but with --seconds the time is.
 * The input that went wrong is printed, and left in the file named at the end.
 *
 *   fuzz_ring [--seed N] [--seconds N] [--corpus DIR]
 */
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "lib/twt.h"

#define INPUTS 512
#define LONGEST 4096

static struct {
	uint8_t *data;
	size_t len;
} inputs[INPUTS];
static unsigned ninputs;
static unsigned long long runs;
static uint64_t seed = 1, rng;
static uint8_t now[LONGEST];
static size_t now_len;

static void keep_culprit(int sig)
{
	static const char name[] = "fuzz-culprit";
	FILE *f = fopen(name, "w");

	if (f) {
		fwrite(now, 1, now_len, f);
		fclose(f);
	}
	fprintf(stderr, "seed %llu, input %llu, which is in %s:\n", (unsigned long long)seed, runs,
		f ? name : "no file");
	for (size_t i = 0; i < now_len; i++)
		fprintf(stderr, "%02x%s", now[i], i % 32 == 31 || i + 1 == now_len ? "\n" : "");
	signal(sig, SIG_DFL);
	raise(sig);
}

static void add(const uint8_t *data, size_t len)
{
	if (ninputs == INPUTS || !(inputs[ninputs].data = malloc(len + 1)))
		return;
	memcpy(inputs[ninputs].data, data, len);
	inputs[ninputs++].len = len;
}

static void load(const char *dir)
{
	struct dirent **names;
	int n = scandir(dir, &names, NULL, alphasort);

	if (n < 0) {
		perror(dir);
		exit(2);
	}
	for (int i = 0; i < n; free(names[i++])) {
		char path[800];
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
		if (names[i]->d_name[0] == '.' || !(f = fopen(path, "r")))
			continue;
		add(now, fread(now, 1, sizeof(now), f));
		fclose(f);
	}
	free(names);
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)((twt_random(&rng) >> 32) * n >> 32);
}

static void mutate(void)
{
	unsigned i = below(ninputs);

	now_len = inputs[i].len;
	memcpy(now, inputs[i].data, now_len);
	for (unsigned n = 1 + below(8); n; n--) {
		uint32_t at = below((uint32_t)now_len + 1), room = (uint32_t)(LONGEST - now_len);

		switch (below(5)) {
		case 0: /* bits */
			if (at < now_len)
				now[at] ^= (uint8_t)(1u << below(8));
			break;
		case 1: /* a byte */
			if (at < now_len)
				now[at] = (uint8_t)twt_random(&rng);
			break;
		case 2: /* more bytes */
			for (unsigned k = below(16); k && room; k--, room--)
				now[now_len++] = (uint8_t)twt_random(&rng);
			break;
		case 3: /* the end of another */
			i = below(ninputs);
			if (inputs[i].len > at) {
				memcpy(now + at, inputs[i].data + at, inputs[i].len - at);
				now_len = inputs[i].len;
			}
			break;
		default: /* another behind it */
			i = below(ninputs);
			if (inputs[i].len <= room) {
				memcpy(now + now_len, inputs[i].data, inputs[i].len);
				now_len += inputs[i].len;
			}
		}
	}
}

int main(int argc, char **argv)
{
	const char *corpus = NULL, *name = strrchr(argv[0], '/');
	char path[500];
	double seconds = 0, end;

	name = name ? name + 1 : argv[0];
	for (int i = 1; i + 1 < argc; i += 2)
		if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--seconds"))
			seconds = strtod(argv[i + 1], NULL);
		else if (!strcmp(argv[i], "--corpus"))
			corpus = argv[i + 1];
	if (!corpus) {
		const char *src = getenv("srcdir");

		snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/%s", src ? src : ".", name);
		corpus = path;
	}
	signal(SIGABRT, keep_culprit);
	signal(SIGSEGV, keep_culprit);
	signal(SIGBUS, keep_culprit);
	load(corpus);
	for (unsigned i = 0; i < ninputs; i++, runs++) {
		now_len = inputs[i].len;
		memcpy(now, inputs[i].data, now_len);
		LLVMFuzzerTestOneInput(now, now_len);
	}
	add((const uint8_t *)"", 0);
	rng = seed;
	end = twt_now() + seconds;
	for (; seconds > 0 ? twt_now() < end : runs < fuzz_inputs; runs++) {
		mutate();
		LLVMFuzzerTestOneInput(now, now_len);
	}
	printf("%s: seed %llu: %llu inputs, of which %u are of the corpus\n", name,
	       (unsigned long long)seed, runs, ninputs - 1);
	return ninputs > 1 ? 0 : 1;
}
