/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hosts file: one line for each board of a host,
 *
 *	NAME[:BOARD] ADDRESS
 *
 * with an address or a name that the resolver knows. It adds names and takes
 * precedence over the resolver. The rest of a line after # is a comment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "naming/hosts.h"

struct entry {
	char name[256];
	unsigned long board;
	uint64_t nic_id;
};
static struct entry *entries;
static unsigned nentries;

/* Parses a line; false if it is invalid. */
static bool parse(char *line, struct entry *e)
{
	static const char space[] = " \t\r\n";
	char *save, *name, *address, *colon, *end;

	line[strcspn(line, "#")] = 0;
	name = strtok_r(line, space, &save);
	address = name ? strtok_r(NULL, space, &save) : NULL;
	memset(e, 0, sizeof(*e));
	if (!name)
		return true;
	if (!address || strtok_r(NULL, space, &save) || strlen(name) >= sizeof(e->name))
		return false;
	colon = strrchr(name, ':');
	if (colon) {
		e->board = strtoul(colon + 1, &end, 10);
		if (colon == name || colon[1] < '0' || colon[1] > '9' || *end)
			return false;
		*colon = 0;
	}
	strcpy(e->name, name);
	return tw_resolve(address, &e->nic_id) == TW_OK;
}

static bool add(const struct entry *e)
{
	struct entry *more = realloc(entries, (nentries + 1) * sizeof(*more));

	if (!more)
		return false;
	entries = more;
	entries[nentries++] = *e;
	return true;
}

enum tw_err tw_hosts_load(const char *path)
{
	enum tw_err err = TW_OK;
	unsigned number = 0;
	char line[1024];
	struct entry e;
	FILE *f;

	free(entries);
	entries = NULL;
	nentries = 0;
	if (!*path)
		return TW_OK;
	f = fopen(path, "re");
	if (!f) {
		tw_log(TW_LOG_ERROR, "cannot read TAGWIRE_PEERS=%s", path);
		return TW_EPROTO;
	}
	while (err == TW_OK && fgets(line, sizeof(line), f)) {
		number++;
		if (!parse(line, &e)) {
			tw_log(TW_LOG_ERROR, "%s:%u: not NAME[:BOARD] ADDRESS, or unknown", path,
			       number);
			err = TW_EPROTO;
		} else if (*e.name && !add(&e)) {
			err = TW_ENOMEM;
		}
	}
	fclose(f);
	return err;
}

bool tw_hosts_nic(const char *host, unsigned long board, uint64_t *nic_id)
{
	for (unsigned i = 0; i < nentries; i++)
		if (entries[i].board == board && strcmp(entries[i].name, host) == 0) {
			*nic_id = entries[i].nic_id;
			return true;
		}
	return false;
}

bool tw_hosts_name(uint64_t nic_id, char *name, unsigned len)
{
	for (unsigned i = 0; i < nentries; i++)
		if (entries[i].nic_id == nic_id) {
			snprintf(name, len, "%s:%lu", entries[i].name, entries[i].board);
			return true;
		}
	return false;
}
