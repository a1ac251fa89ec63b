/* SPDX-License-Identifier: BSD-2-Clause */
/* MCAPI 4.1, 4.2: nodes, endpoints, attributes. */
#include "mcapi/basic/basic.h"

TestSuite(mcapi_basic_node, .init = mcb_job, .timeout = MCB_TIMEOUT);

Test(mcapi_basic_node, beginning_and_end)
{
	mcapi_version_t v;

	mcb_st(MCAPI_ENO_FINAL, mcapi_finalize(&st));
	mcb_st(MCAPI_ENODE_NOTINIT, mcapi_get_node_id(&st));
	mcb_st(MCAPI_ENODE_NOTINIT, mcapi_create_endpoint(1, &st));
	mcb_st(MCAPI_EPARAM, mcapi_initialize(1, NULL, &st));
	mcb_st(MCAPI_ENODE_NOTVALID, mcapi_initialize(MCAPI_MAX_NODES, &v, &st));
	mcapi_initialize(1, &v, NULL);
	for (int i = 0; i < 3; i++) {
		mcb_init(MCAPI_MAX_NODES - 1);
		mcb_st(MCAPI_INITIALIZED, mcapi_initialize(1, &v, &st));
		mcb_ok(mcb_eq(mcapi_get_node_id(&st), MCAPI_MAX_NODES - 1));
		mcb_endpoint(7);
		mcb_final();
		mcb_st(MCAPI_ENO_FINAL, mcapi_finalize(&st));
	}
	mcapi_finalize(NULL);
}

Test(mcapi_basic_node, wrong_setting)
{
	mcapi_version_t v;

	setenv("TAGWIRE_NODES", "0-3=localhost,what", 1);
	mcb_st(MCAPI_ENO_INIT, mcapi_initialize(1, &v, &st));
	setenv("TAGWIRE_NODES", "9=192.0.2.1,0=localhost", 1);
	mcb_init(9);
	mcb_st(MCAPI_EEP_NOTALLOWED, mcapi_create_endpoint(1, &st));
	mcb_final();
	mcb_init(0);
	mcb_endpoint(1);
	mcb_final();
}

static void *twice(void *arg)
{
	mcapi_version_t v;

	mcb_st(MCAPI_INITIALIZED, mcapi_initialize(5, &v, &st));
	/* A thread that is no node acts for the first. */
	mcb_ok(mcb_eq(mcapi_get_node_id(&st), 5));
	return arg;
}

static int same_number(void *arg, int fd)
{
	mcapi_version_t v;

	(void)arg;
	mcb_hear(fd);
	mcb_st(MCAPI_INITIALIZED, mcapi_initialize(5, &v, &st));
	return 0;
}

Test(mcapi_basic_node, number_taken)
{
	struct twt_child c;
	pthread_t t;

	twt_spawn(&c, same_number, NULL);
	mcb_init(5);
	mcb_tell(c.fd);
	mcb_eq(twt_join(&c, TWT_LONG), 0);
	pthread_create(&t, NULL, twice, NULL);
	pthread_join(t, NULL);
	mcb_final();
}

Test(mcapi_basic_node, endpoints)
{
	mcapi_endpoint_t e, any;
	mcapi_request_t r;
	size_t size;

	mcb_init(3);
	e = mcb_endpoint(9);
	mcb_eq(e, 3 << 16 | 9);
	mcb_st(MCAPI_EENDP_ISCREATED, mcapi_create_endpoint(9, &st));
	mcb_st(MCAPI_EPORT_NOTVALID, mcapi_create_endpoint(-2, &st));
	mcb_st(MCAPI_EPORT_NOTVALID, mcapi_create_endpoint(65536, &st));
	mcb_endpoint(65535);
	mcb_endpoint(0);
	mcb_eq(mcb_get(3, 9), e);
	any = mcb_endpoint(MCAPI_PORT_ANY);
	mcb_ok(mcapi_delete_endpoint(any, &st));
	mcb_eq(mcb_endpoint(MCAPI_PORT_ANY), any);
	mcb_st(MCAPI_ENODE_NOTVALID, mcapi_get_endpoint(MCAPI_MAX_NODES, 1, &st));
	mcb_st(MCAPI_EPORT_NOTVALID, mcapi_get_endpoint(3, -1, &st));
	mcb_st(MCAPI_ENOT_OWNER, mcapi_delete_endpoint(4 << 16, &st));
	mcb_st(MCAPI_ENOT_ENDP, mcapi_delete_endpoint(3 << 16 | 10, &st));
	/* A get waits for the endpoint. */
	e = 77;
	mcb_ok(mcapi_get_endpoint_i(3, 10, &e, &r, &st));
	mcb_pending(r);
	mcb_eq(e, 77);
	mcb_endpoint(10);
	mcb_wait(r, MCAPI_SUCCESS);
	mcb_eq(e, 3 << 16 | 10);
	/* Its end can be seen again. */
	mcb_wait(r, MCAPI_SUCCESS);
	/* A cancelled one writes nothing. */
	e = 77;
	mcb_ok(mcapi_get_endpoint_i(3, 11, &e, &r, &st));
	mcb_ok(mcapi_cancel(&r, &st));
	mcb_endpoint(11);
	mcb_wait(r, MCAPI_EREQ_CANCELED);
	mcb_st(MCAPI_EREQ_CANCELED, mcapi_test(&r, &size, &st));
	mcb_st(MCAPI_ENOTREQ_HANDLE, mcapi_cancel(&r, &st));
	mcb_eq(e, 77);
	r = 12345;
	mcb_st(MCAPI_ENOTREQ_HANDLE, mcapi_test(&r, &size, &st));
	mcb_st(MCAPI_EPARAM, mcapi_test(&r, NULL, &st));
	mcb_final();
}

Test(mcapi_basic_node, limits)
{
	mcb_init(0);
	for (int i = 0; i < MCAPI_MAX_ENDPOINTS; i++)
		mcb_endpoint(i % 3 ? MCAPI_PORT_ANY : i);
	mcb_st(MCAPI_EENDP_LIMIT, mcapi_create_endpoint(60000, &st));
	mcb_st(MCAPI_EENDP_LIMIT, mcapi_create_endpoint(MCAPI_PORT_ANY, &st));
	mcb_ok(mcapi_delete_endpoint(0, &st));
	mcb_endpoint(60000);
	mcb_final();
	mcb_init(0);
	for (int i = 0; i < 65536; i++)
		mcb_ok(mcapi_delete_endpoint(mcb_endpoint(MCAPI_PORT_ANY), &st));
	mcb_final();
}

Test(mcapi_basic_node, attributes)
{
	uint32_t value = 5;
	mcapi_endpoint_t e, f;
	struct mcb_chan c;

	mcb_init(0);
	e = mcb_endpoint(1);
	f = mcb_endpoint(2);
	mcb_eq(mcb_attr(e, MCAPI_ATTR_NO_PRIORITIES), MCAPI_MAX_NO_PRIORITIES);
	mcb_eq(mcb_attr(e, MCAPI_ATTR_NO_BUFFERS), 128);
	mcb_eq(mcb_attr(e, MCAPI_ATTR_BUFFER_SIZE), MCAPI_MAX_MESSAGE_SIZE);
	mcb_eq(mcb_attr(e, MCAPI_ATTR_BUFFER_TYPE), MCAPI_FIFO_BUFFER);
	mcb_eq(mcb_attr(e, MCAPI_ATTR_MEMORY_TYPE), MCAPI_SHARED_MEMORY);
	mcb_eq((int)mcb_attr(e, MCAPI_ATTR_TIMEOUT), MCAPI_INFINITE);
	mcb_eq(mcb_attr(e, MCAPI_ATTR_ENDP_PRIO), 1);
	mcb_eq(mcb_attr(e, MCAPI_ATTR_ENDP_STATUS), MCAPI_CREATED);
	mcb_eq(mcb_attr(e, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 128);
	mcb_set_attr(e, MCAPI_ATTR_NO_BUFFERS, 2);
	mcb_set_attr(e, MCAPI_ATTR_ENDP_PRIO, 2);
	mcb_ok(mcapi_msg_send(f, e, "a", 1, 0, &st));
	mcb_eq(mcb_attr(e, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 1);
	mcb_st(MCAPI_EATTR_NUM, mcapi_get_endpoint_attribute(e, 9, &value, 4, &st));
	mcb_st(MCAPI_EATTR_SIZE, mcapi_get_endpoint_attribute(e, 1, &value, 8, &st));
	mcb_st(MCAPI_EPARAM, mcapi_get_endpoint_attribute(e, 1, NULL, 4, &st));
	mcb_st(MCAPI_ENOT_ENDP, mcapi_get_endpoint_attribute(44, 1, &value, 4, &st));
	mcb_st(MCAPI_ENOT_ENDP, mcapi_set_endpoint_attribute(44, 1, &value, 4, &st));
	mcb_st(MCAPI_EATTR_NUM, mcapi_set_endpoint_attribute(e, 9, &value, 4, &st));
	mcb_st(MCAPI_EATTR_SIZE, mcapi_set_endpoint_attribute(e, 1, &value, 2, &st));
	mcb_st(MCAPI_EREAD_ONLY,
	       mcapi_set_endpoint_attribute(e, MCAPI_ATTR_ENDP_STATUS, &value, 4, &st));
	mcb_pkt(&c);
	mcb_st(MCAPI_ECONNECTED, mcapi_set_endpoint_attribute(c.a, 1, &value, 4, &st));
	mcb_eq(mcb_attr(c.a, MCAPI_ATTR_ENDP_STATUS),
	       MCAPI_CREATED | MCAPI_CONNECTED | MCAPI_OPEN | MCAPI_PKT | MCAPI_SEND);
	mcb_eq(mcb_attr(c.b, MCAPI_ATTR_ENDP_STATUS),
	       MCAPI_CREATED | MCAPI_CONNECTED | MCAPI_OPEN | MCAPI_PKT | MCAPI_RECEIVE);
	mcb_final();
}
