/* SPDX-License-Identifier: BSD-2-Clause */
/* The version of Tagwire. The headers of all interfaces include this one. */
#ifndef TAGWIRE_H
#define TAGWIRE_H

/* The version of the headers: text, and the number major << 16 | minor << 8 | patch. */
#define TAGWIRE_VERSION "0.1.0"
#define TAGWIRE_VERSION_NUMBER 0x000100

/* Before a union without a name, which C99 does not have and compilers do. */
#ifdef __GNUC__
#define TAGWIRE_UNNAMED __extension__
#else
#define TAGWIRE_UNNAMED
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that the program runs with, which may be later. */
const char *tagwire_version(void);

#ifdef __cplusplus
}
#endif

#endif /* TAGWIRE_H */
