/* SPDX-License-Identifier: BSD-2-Clause */
/* What is said of peers: the text, and that it is said once for each peer and cause. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/report.h"
#include "base/settings.h"
#include "lib/twt.h"

Test(report, text, .timeout = TWT_TIMEOUT)
{
	const char *who = "endpoint 3 of beta:0";
	char text[TW_REPORT_SIZE];

	tw_report_text(text, sizeof(text), who, "it is not open", "start it");
	cr_assert_str_eq(text, "endpoint 3 of beta:0: it is not open; start it");
	tw_report_text(text, sizeof(text), who, "it is not open", NULL);
	cr_assert_str_eq(text, "endpoint 3 of beta:0: it is not open");
}

/* Standard error from here on; read_lines() ends that. */
static int begin(int fds[2])
{
	int before = dup(STDERR_FILENO);

	cr_assert_eq(pipe(fds), 0);
	cr_assert_geq(dup2(fds[1], STDERR_FILENO), 0);
	close(fds[1]);
	return before;
}

static unsigned read_lines(int fds[2], int before)
{
	char text[8192] = "";
	unsigned lines = 0;

	dup2(before, STDERR_FILENO);
	cr_assert_geq(read(fds[0], text, sizeof(text) - 1), 0);
	for (const char *c = text; *c; c++)
		lines += *c == '\n';
	close(fds[0]);
	close(before);
	return lines;
}

Test(report, once, .timeout = TWT_TIMEOUT)
{
	int fds[2], before;

	tw_clock_init();
	before = begin(fds);
	for (int i = 0; i < 10000; i++) {
		tw_report(TW_LOG_ERROR, "endpoint 1 of beta", "another key", "copy it");
		tw_report(TW_LOG_ERROR, "endpoint 2 of beta", "another key", "copy it");
		tw_report(TW_LOG_ERROR, "endpoint 2 of beta", "no answer", "start it");
		tw_report(TW_LOG_WARN, "endpoint 3 of beta", "no answer", "start it");
	}
	cr_assert_eq(read_lines(fds, before), 3u, "of two causes and two peers; no warnings");
}

/* More peers than are remembered: still each is said, and nothing breaks. */
Test(report, many, .timeout = TWT_TIMEOUT)
{
	int fds[2], before;
	char who[32];

	tw_clock_init();
	before = begin(fds);
	for (uint32_t i = 0; i < 100; i++) {
		snprintf(who, sizeof(who), "endpoint %u of beta", i);
		tw_report(TW_LOG_ERROR, who, "no answer", NULL);
		tw_report(TW_LOG_ERROR, who, "no answer", NULL);
	}
	cr_assert_eq(read_lines(fds, before), 100u);
}

/* A program that tries again and again hears once what is wrong with its settings. */
Test(report, invalid_setting, .timeout = TWT_TIMEOUT)
{
	int fds[2], before;

	setenv("TAGWIRE_LOG", "99", 1);
	before = begin(fds);
	for (int i = 0; i < 5; i++)
		cr_assert_not(tw_settings_begin());
	setenv("TAGWIRE_LOG", "98", 1);
	cr_assert_not(tw_settings_begin());
	cr_assert_eq(read_lines(fds, before), 2u);
}
