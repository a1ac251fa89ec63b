/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

bool tw_file_line(const char *path, const char *key, char *rest, size_t size)
{
	TW_NOT_CANCELLED;
	FILE *f = fopen(path, "re");
	size_t len = strlen(key);
	char line[256];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, key, len);
	if (found)
		snprintf(rest, size, "%s", line + len);
	if (f)
		fclose(f);
	return found;
}

bool tw_file_number(const char *path, const char *key, uint64_t *value)
{
	char text[64], *end;

	if (!tw_file_line(path, key, text, sizeof(text)))
		return false;
	*value = strtoull(text, &end, 10);
	return end != text;
}
