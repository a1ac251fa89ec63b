/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Other hosts, as far as they are known: as they have told, by addresses that were seen, and
 * before these by the hosts file, with one line for each board of a host,
 *
 *	NAME[:BOARD] ADDRESS
 *
 * with an address or a name that the resolver knows. It adds names and takes
 * precedence over the resolver. The rest of a line after # is a comment.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "naming/hosts.h"

#define MOST 4096 /* of those that were told; the oldest is forgotten for one more */
#define HOST_LINE 1024 /* bytes of a line that are read: a name and an address */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
TW_MUTEX_OVER_FORK(hosts, &mutex)
static struct tw_known *known;
static unsigned nknown, nfixed; /* those of the hosts file come first */
static unsigned oldest;		/* of the others */

static bool same(const struct tw_known *a, const struct tw_known *b)
{
	if (!*a->name && !*b->name)
		return a->nic_id == b->nic_id;
	return a->board == b->board && strcasecmp(a->name, b->name) == 0;
}

/* Under the mutex. */
static struct tw_known *place_for(const struct tw_known *k)
{
	struct tw_known *more;

	for (unsigned i = 0; i < nknown; i++)
		if (same(&known[i], k))
			return &known[i];
	if (nknown - nfixed == MOST)
		return &known[nfixed + oldest++ % MOST];
	more = realloc(known, (nknown + 1) * sizeof(*more));
	if (!more)
		return NULL;
	known = more;
	known[nknown].fixed = false;
	nfixed += k->fixed;
	return &known[nknown++];
}

enum tw_err tw_hosts_add(const struct tw_known *k)
{
	struct tw_known *to;

	tw_mutex_lock(&mutex);
	to = place_for(k);
	if (to && !to->fixed)
		*to = *k;
	tw_mutex_unlock(&mutex);
	return to ? TW_OK : TW_ENOMEM;
}

bool tw_hosts_find(const char *name, uint32_t board, struct tw_known *out)
{
	bool found = false;

	tw_mutex_lock(&mutex);
	for (unsigned i = 0; i < nknown && !(found && (out->best || board != TW_BEST_BOARD)); i++) {
		const struct tw_known *k = &known[i];

		if (strcasecmp(k->name, name) != 0 ||
		    (k->board != board && (board != TW_BEST_BOARD || (k->board && !k->best))))
			continue;
		*out = *k;
		found = true;
	}
	tw_mutex_unlock(&mutex);
	return found;
}

bool tw_hosts_find_nic(uint64_t nic_id, struct tw_known *out)
{
	bool found = false;

	tw_mutex_lock(&mutex);
	for (unsigned i = 0; i < nknown && !(found && *out->name); i++)
		if (known[i].nic_id == nic_id) {
			*out = known[i];
			found = true;
		}
	tw_mutex_unlock(&mutex);
	return found;
}

/* Parses a line; false if it is invalid. */
static bool host_parse(char *line, struct tw_known *k)
{
	static const char space[] = " \t\r\n";
	char *save, *name, *address;

	name = strtok_r(line, space, &save);
	address = name ? strtok_r(NULL, space, &save) : NULL;
	memset(k, 0, sizeof(*k));
	if (!name)
		return true;
	if (!address || strtok_r(NULL, space, &save) || !tw_name_parse(name, k->name, &k->board) ||
	    tw_resolve(address, false, &k->address) != TW_OK)
		return false;
	if (k->board == TW_BEST_BOARD)
		k->board = 0;
	k->fixed = true;
	k->nic_id = tw_nic_at(&k->address);
	return true;
}

static enum tw_err hosts_unreadable(const char *path)
{
	tw_log(TW_LOG_ERROR, "cannot read TAGWIRE_PEERS=%s: %m", path);
	return TW_EPROTO;
}

/*
 * The next line, without its comment. False: there is none. *fits: false if it is too long, or has
 * a NUL.
 */
static bool host_line(FILE *f, char line[HOST_LINE], bool *fits)
{
	bool comment = false;
	size_t n = 0;
	int c;

	*fits = true;
	while ((c = fgetc(f)) != EOF && c != '\n') {
		comment |= c == '#';
		if (comment)
			continue;
		*fits &= c && n + 1 < HOST_LINE;
		if (*fits)
			line[n++] = (char)c;
	}
	line[n] = 0;
	return c != EOF || n;
}

/* An endpoint that was left behind may still look for one. */
static void hosts_forget(void)
{
	tw_mutex_lock(&mutex);
	free(known);
	known = NULL;
	nknown = nfixed = oldest = 0;
	tw_mutex_unlock(&mutex);
}

enum tw_err tw_hosts_load(const char *path)
{
	char line[HOST_LINE];
	enum tw_err err = TW_OK;
	unsigned number = 0;
	struct tw_known k;
	bool fits;
	FILE *f;

	hosts_forget();
	if (!*path)
		return TW_OK;
	f = fopen(path, "re");
	if (!f)
		return hosts_unreadable(path);
	while (err == TW_OK && host_line(f, line, &fits)) {
		number++;
		if (!fits || !host_parse(line, &k)) {
			tw_log(TW_LOG_ERROR, "%s:%u: not NAME[:BOARD] ADDRESS, or unknown", path,
			       number);
			err = TW_EPROTO;
		} else if (*k.name) {
			err = tw_hosts_add(&k);
		}
	}
	/* A directory opens. */
	if (err == TW_OK && ferror(f))
		err = hosts_unreadable(path);
	fclose(f);
	return err;
}
