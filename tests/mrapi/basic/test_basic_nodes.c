/* SPDX-License-Identifier: BSD-2-Clause */
/* Nodes: threads and processes come and go. */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>

#include "mrapi/basic/basic.h"

TestSuite(basic_nodes, .init = basic_job, .timeout = TWT_TIMEOUT);

Test(basic_nodes, begin_and_end)
{
	mrapi_info_t info;
	mrapi_parameters_t parms = 0;

	IS(mrapi_finalize(&st), MRAPI_ERR_NODE_NOTINIT);
	IS(mrapi_node_id_get(&st), MRAPI_ERR_NODE_NOTINIT);
	IS(mrapi_initialize(1, 2, parms, NULL, &st), MRAPI_ERR_PARAMETER);
	IS(mrapi_initialize(1, MRAPI_MAX_NODE_ID + 1, parms, &info, &st), MRAPI_ERR_NODE_INVALID);
	IS(mrapi_initialize(MRAPI_MAX_DOMAIN_ID + 1, 1, parms, &info, &st),
	   MRAPI_ERR_DOMAIN_INVALID);
	for (int i = 0; i < 20; i++) {
		OK(mrapi_initialize(7, 9, parms, &info, &st));
		CHECK(info.mrapi_version == 0x93 && info.number_of_nodes >= 64);
		OK(CHECK(mrapi_node_id_get(&st) == 9));
		OK(CHECK(mrapi_domain_id_get(&st) == 7));
		IS(mrapi_initialize(7, 10, parms, &info, &st), MRAPI_ERR_NODE_INITIALIZED);
		IS(mrapi_initialize(7, 10, parms, NULL, &st), MRAPI_ERR_PARAMETER);
		OK(mrapi_finalize(&st));
	}
	IS(mrapi_finalize(&st), MRAPI_ERR_NODE_NOTINIT);
}

static void *second_node(void *arg)
{
	mrapi_info_t info;

	(void)arg;
	/* Not a node yet: it acts for the first. */
	OK(CHECK(mrapi_node_id_get(&st) == 1));
	IS(mrapi_initialize(1, 1, NULL, &info, &st), MRAPI_ERR_NODE_INITIALIZED);
	OK(mrapi_initialize(1, 2, NULL, &info, &st));
	OK(CHECK(mrapi_node_id_get(&st) == 2));
	return NULL; /* without finalizing */
}

Test(basic_nodes, threads)
{
	pthread_t t;

	basic_node(1);
	for (int i = 0; i < 3; i++) {
		CHECK(pthread_create(&t, NULL, second_node, NULL) == 0);
		pthread_join(t, NULL);
	}
	basic_end();
}

static int child_node(void *arg, int fd)
{
	mrapi_info_t info;
	mrapi_uint_t pid = 0;
	char go;

	(void)arg;
	IS(mrapi_node_id_get(&st), MRAPI_ERR_NODE_NOTINIT); /* forked: no node */
	IS(mrapi_initialize(1, 1, NULL, &info, &st), MRAPI_ERR_NODE_INITIALIZED);
	basic_node(2);
	OK(mrapi_node_get_attribute(1, MRAPI_NODE_PID, &pid, sizeof(pid), &st));
	CHECK(pid == (mrapi_uint_t)getppid());
	CHECK(twt_put(fd, "r", 1) == 0);
	twt_get(fd, &go, 1);
	return 0;
}

Test(basic_nodes, processes)
{
	struct twt_child child;
	char ready;

	basic_node(1);
	twt_spawn(&child, child_node, NULL);
	CHECK(twt_get(child.fd, &ready, 1) == 0);
	CHECK(twt_put(child.fd, "g", 1) == 0);
	CHECK(twt_join(&child, TWT_LONG) == 0);
	/* It left without finalizing; its number is free. */
	twt_spawn(&child, child_node, NULL);
	CHECK(twt_get(child.fd, &ready, 1) == 0);
	CHECK(twt_put(child.fd, "g", 1) == 0);
	CHECK(twt_join(&child, TWT_LONG) == 0);
	basic_end();
}

Test(basic_nodes, attributes)
{
	mrapi_node_attributes_t a;
	mrapi_uint_t v = 0;

	OK(mrapi_node_init_attributes(&a, &st));
	IS(mrapi_node_init_attributes(NULL, &st), MRAPI_ERR_PARAMETER);
	IS(mrapi_node_set_attribute(&a, MRAPI_NODE_PID, &v, sizeof(v), &st),
	   MRAPI_ERR_ATTR_READONLY);
	IS(mrapi_node_set_attribute(&a, 999, &v, sizeof(v), &st), MRAPI_ERR_ATTR_NUM);
	IS(mrapi_node_get_attribute(1, MRAPI_NODE_DOMAIN, &v, sizeof(v), &st),
	   MRAPI_ERR_NODE_NOTINIT);
	basic_node(1);
	OK(mrapi_node_get_attribute(1, MRAPI_NODE_DOMAIN, &v, sizeof(v), &st));
	CHECK(v == 1);
	IS(mrapi_node_get_attribute(1, MRAPI_NODE_DOMAIN, &v, 1, &st), MRAPI_ERR_ATTR_SIZE);
	basic_end();
}

static void left_behind(void)
{
	char line[256], job[64];
	FILE *f = fopen("/proc/net/unix", "r");

	snprintf(job, sizeof(job), "mrapi-%s-", getenv("TAGWIRE_JOB"));
	while (f && fgets(line, sizeof(line), f))
		CHECK(strstr(line, job) == NULL);
	if (f)
		fclose(f);
}

Test(basic_nodes, nothing_is_left)
{
	mrapi_mutex_hndl_t m;

	basic_node(1);
	OK(m = mrapi_mutex_create(5, NULL, &st));
	basic_end();
	left_behind();
	/* The next program may create the same id. */
	basic_node(1);
	OK(m = mrapi_mutex_create(5, NULL, &st));
	(void)m;
	basic_end();
	left_behind();
}

Test(basic_nodes, display_status)
{
	char text[MRAPI_MAX_STATUS_SIZE];

	for (int i = 0; i <= MRAPI_ERR_ATOM_OP_FAILED; i++)
		CHECK(!strncmp(mrapi_display_status(i, text, sizeof(text)), "MRAPI_", 6));
	CHECK(!strcmp(mrapi_display_status(12345, text, sizeof(text)), "UNKNOWN"));
	CHECK(!strcmp(mrapi_display_status(-1, text, 4), "UNK"));
	CHECK(!mrapi_display_status(0, NULL, 4));
}
