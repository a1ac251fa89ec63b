/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/report.h"

#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/settings.h"

#define KEPT 64 /* reports that are remembered; the oldest is forgotten first */
#define AGAIN_US 60000000ull

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside; /* see tw_mutex_lock_once() */
static struct {
	uint64_t what; /* a hash of who and cause; 0: unused */
	uint64_t said; /* tick of tw_clock() */
	uint32_t held_back;
} kept[KEPT];

void tw_report_text(char *out, size_t size, const char *who, const char *cause, const char *advice)
{
	snprintf(out, size, "%s: %s%s%s", who, cause, advice ? "; " : "", advice ? advice : "");
}

static unsigned report_find(uint64_t what)
{
	unsigned oldest = 0;

	for (unsigned i = 0; i < KEPT; i++) {
		if (kept[i].what == what)
			return i;
		if (kept[i].said < kept[oldest].said)
			oldest = i;
	}
	kept[oldest].what = 0;
	return oldest;
}

/* Whether it is to be said now; *held_back: how often it was not. */
static bool is_due(uint64_t what, uint32_t *held_back)
{
	uint64_t now = tw_clock();
	unsigned i;
	bool due;

	if (!tw_mutex_lock_once(&mutex, &inside)) {
		*held_back = 0;
		return true;
	}
	i = report_find(what);
	due = kept[i].what != what || now - kept[i].said >= tw_clock_us(AGAIN_US);
	*held_back = kept[i].what == what ? kept[i].held_back : 0;
	if (due) {
		kept[i].what = what;
		kept[i].said = now;
		kept[i].held_back = 0;
	} else {
		kept[i].held_back++;
	}
	tw_mutex_unlock_once(&mutex, &inside);
	return due;
}

static uint64_t report_hash(const char *who, const char *cause)
{
	return tw_hash_text(tw_hash_text(TW_HASH_START, who), cause) | 1;
}

bool tw_report_said(const char *who, const char *cause)
{
	uint64_t what = report_hash(who, cause);
	bool said = false;

	if (!tw_mutex_lock_once(&mutex, &inside))
		return false;
	for (unsigned i = 0; i < KEPT; i++)
		said |= kept[i].what == what;
	tw_mutex_unlock_once(&mutex, &inside);
	return said;
}

void tw_report(enum tw_log_level level, const char *who, const char *cause, const char *advice)
{
	uint64_t what = report_hash(who, cause);
	char text[TW_REPORT_SIZE];
	uint32_t held_back;

	if ((unsigned)level > tw_settings.log || !is_due(what, &held_back))
		return;
	tw_report_text(text, sizeof(text), who, cause, advice);
	if (held_back)
		tw_log(level, "%s (said again after %u more of them)", text, held_back);
	else
		tw_log(level, "%s", text);
}

void tw_report_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	inside = false;
}

void tw_report_in_use(const char *what, uint32_t number, int holder)
{
	char who[32], cause[64] = "another process has this number";

	snprintf(who, sizeof(who), "%s %u", what, number);
	if (holder == TW_REPORT_OTHER_HOST)
		snprintf(cause, sizeof(cause), "a process of another host has this number");
	else if (holder)
		snprintf(cause, sizeof(cause), "process %d has this number", holder);
	tw_report(TW_LOG_ERROR, who, cause,
		  "use another one, or keep jobs apart by another TAGWIRE_JOB");
}

void tw_report_range(const char *what, uint32_t number, uint32_t most)
{
	bool begun = tw_settings_begin();
	char who[32], cause[64];

	snprintf(who, sizeof(who), "%s %u", what, number);
	snprintf(cause, sizeof(cause), "the number is out of range: numbers are 0 to %u", most);
	tw_report(TW_LOG_ERROR, who, cause, NULL);
	if (begun)
		tw_settings_end();
}
