/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 7.3: the automotive use case. A control task gets flags from a TPU task,
 * which shares memory with it, and packets from a signal processing task; it
 * connects both channels. The tasks are nodes in threads of one process. The
 * endless loops of the text end here after some rounds.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "examples/mcapi_common.h"

enum { CNTRL_NODE, TPU_NODE, SIG_NODE };
enum { CNTRL_PORT_TPU = 1, CNTRL_PORT_SIG };
enum { TPU_PORT_CNTRL = 1 };
enum { SIG_PORT_CNTRL = 1 };

#define ROUNDS 2000
#define MEM_SIZE 32

struct SIG_DATA {
	int sample;
	double spectrum[16];
};

static void *Control_Task(void *arg)
{
	mcapi_endpoint_t tpu_endpt, tpu_remote_endpt = 0;
	mcapi_endpoint_t sig_endpt, sig_remote_endpt = 0;
	mcapi_endpoint_t tmp_endpt;
	mcapi_sclchan_recv_hndl_t tpu_chan;
	mcapi_pktchan_recv_hndl_t sig_chan;
	mcapi_request_t r1, r2;
	mcapi_version_t version;
	mcapi_status_t err, err2;
	atomic_char *sMem;
	size_t size;

	/* init the system */
	mcapi_initialize(CNTRL_NODE, &version, &err);
	CHECK_STATUS(err);
	/* first create two local endpoints */
	tpu_endpt = mcapi_create_endpoint(CNTRL_PORT_TPU, &err);
	CHECK_STATUS(err);
	sig_endpt = mcapi_create_endpoint(CNTRL_PORT_SIG, &err);
	CHECK_STATUS(err);
	/* now we get two remote endpoints */
	mcapi_get_endpoint_i(TPU_NODE, TPU_PORT_CNTRL, &tpu_remote_endpt, &r1, &err);
	CHECK_STATUS(err);
	mcapi_get_endpoint_i(SIG_NODE, SIG_PORT_CNTRL, &sig_remote_endpt, &r2, &err);
	CHECK_STATUS(err);
	/* wait on the endpoints */
	while (!(mcapi_test(&r1, &size, &err) && mcapi_test(&r2, &size, &err2)))
		;
	/* allocate shared memory and send the ptr to TPU task */
	sMem = calloc(1, MEM_SIZE);
	CHECK(sMem);
	atomic_store(&sMem[0], 0);
	tmp_endpt = mcapi_create_endpoint(MCAPI_PORT_ANY, &err);
	CHECK_STATUS(err);
	mcapi_msg_send(tmp_endpt, tpu_remote_endpt, &sMem, sizeof(sMem), 0, &err);
	CHECK_STATUS(err);
	/* connect the channels: sender first, the text has them the other way round */
	mcapi_connect_sclchan_i(tpu_remote_endpt, tpu_endpt, &r1, &err);
	CHECK_STATUS(err);
	mcapi_connect_pktchan_i(sig_remote_endpt, sig_endpt, &r2, &err);
	CHECK_STATUS(err);
	/* wait on the connections */
	while (!(mcapi_test(&r1, &size, &err) && mcapi_test(&r2, &size, &err2)))
		;
	/* now open the channels */
	mcapi_open_sclchan_recv_i(&tpu_chan, tpu_endpt, &r1, &err);
	CHECK_STATUS(err);
	mcapi_open_pktchan_recv_i(&sig_chan, sig_endpt, &r2, &err);
	CHECK_STATUS(err);
	/* wait on the channels */
	while (!(mcapi_test(&r1, &size, &err) && mcapi_test(&r2, &size, &err2)))
		;
	/* now ALL of the bootstrapping is finished */
	for (int round = 0; round < ROUNDS; round++) {
		struct SIG_DATA *sDat;
		uint8_t tFlag;

		/* wait for TPU to indicate it has updated shared memory */
		tFlag = mcapi_sclchan_recv_uint8(tpu_chan, &err);
		CHECK_STATUS(err);
		CHECK(tFlag == 1);
		CHECK(atomic_load(&sMem[0]) != 0);
		/* now get data from the signal processing task */
		mcapi_pktchan_recv(sig_chan, (void **)&sDat, &size, &err);
		CHECK_STATUS(err);
		CHECK(size == sizeof(*sDat) && sDat->sample == round);
		CHECK(sDat->spectrum[15] == round * 15.0);
		mcapi_pktchan_free(sDat, &err);
		CHECK_STATUS(err);
	}
	mcapi_sclchan_recv_close_i(tpu_chan, &r1, &err);
	CHECK_STATUS(err);
	finish(&r1);
	mcapi_pktchan_recv_close_i(sig_chan, &r2, &err);
	CHECK_STATUS(err);
	finish(&r2);
	mcapi_finalize(&err);
	CHECK_STATUS(err);
	/* The TPU may still be writing to it; whoever joins both frees it. */
	*(void **)arg = sMem;
	return NULL;
}

/* Waits for the connection, which the control task makes. */
static void wait_until_connected(mcapi_endpoint_t endpt)
{
	mcapi_attr_endp_status state = 0;
	mcapi_status_t err;

	while (!(state & MCAPI_CONNECTED)) {
		mcapi_get_endpoint_attribute(endpt, MCAPI_ATTR_ENDP_STATUS, &state, sizeof(state),
					     &err);
		CHECK_STATUS(err);
	}
}

static void *TPU_Task(void *arg)
{
	mcapi_endpoint_t cntrl_endpt, cntrl_remote_endpt;
	mcapi_sclchan_send_hndl_t cntrl_chan;
	mcapi_version_t version;
	mcapi_request_t r1;
	mcapi_status_t err;
	atomic_char *sMem;
	size_t msgSize;

	(void)arg;
	mcapi_initialize(TPU_NODE, &version, &err);
	CHECK_STATUS(err);
	cntrl_endpt = mcapi_create_endpoint(TPU_PORT_CNTRL, &err);
	CHECK_STATUS(err);
	mcapi_get_endpoint_i(CNTRL_NODE, CNTRL_PORT_TPU, &cntrl_remote_endpt, &r1, &err);
	CHECK_STATUS(err);
	/* wait on the remote endpoint */
	finish(&r1);
	/* now get the shared mem ptr */
	mcapi_msg_recv(cntrl_endpt, &sMem, sizeof(sMem), &msgSize, &err);
	CHECK_STATUS(err);
	CHECK(msgSize == sizeof(sMem) && sMem);
	CHECK(!atomic_load(&sMem[0])); /* what its maker wrote, for this task, too */
	/* open the channel; the connection is handled by the control task */
	wait_until_connected(cntrl_endpt);
	mcapi_open_sclchan_send_i(&cntrl_chan, cntrl_endpt, &r1, &err);
	CHECK_STATUS(err);
	finish(&r1);
	/* ALL bootstrapping is finished, begin processing */
	for (int round = 0; round < ROUNDS; round++) {
		/* do something that updates shared mem */
		atomic_store(&sMem[0], 1);
		/* indicate that sMem has been updated */
		mcapi_sclchan_send_uint8(cntrl_chan, 1, &err);
		CHECK_STATUS(err);
	}
	mcapi_sclchan_send_close_i(cntrl_chan, &r1, &err);
	CHECK_STATUS(err);
	finish(&r1);
	mcapi_finalize(&err);
	CHECK_STATUS(err);
	return NULL;
}

static void *SIG_Task(void *arg)
{
	mcapi_endpoint_t cntrl_endpt, cntrl_remote_endpt;
	mcapi_pktchan_send_hndl_t cntrl_chan;
	mcapi_version_t version;
	mcapi_request_t r1;
	mcapi_status_t err;

	(void)arg;
	mcapi_initialize(SIG_NODE, &version, &err);
	CHECK_STATUS(err);
	cntrl_endpt = mcapi_create_endpoint(SIG_PORT_CNTRL, &err);
	CHECK_STATUS(err);
	mcapi_get_endpoint_i(CNTRL_NODE, CNTRL_PORT_SIG, &cntrl_remote_endpt, &r1, &err);
	CHECK_STATUS(err);
	finish(&r1);
	wait_until_connected(cntrl_endpt);
	mcapi_open_pktchan_send_i(&cntrl_chan, cntrl_endpt, &r1, &err);
	CHECK_STATUS(err);
	finish(&r1);
	/* All bootstrap is finished, now begin processing */
	for (int round = 0; round < ROUNDS; round++) {
		struct SIG_DATA sDat = {round, {0}};

		/* Read sensor & process signal */
		for (int i = 0; i < 16; i++)
			sDat.spectrum[i] = (double)round * i;
		/* send the data to the control process, when it has room */
		mcapi_pktchan_send_i(cntrl_chan, &sDat, sizeof(sDat), &r1, &err);
		CHECK_STATUS(err);
		finish(&r1);
	}
	mcapi_pktchan_send_close_i(cntrl_chan, &r1, &err);
	CHECK_STATUS(err);
	finish(&r1);
	mcapi_finalize(&err);
	CHECK_STATUS(err);
	return NULL;
}

int main(void)
{
	static void *(*const task[])(void *) = {Control_Task, TPU_Task, SIG_Task};
	void *sMem = NULL;
	pthread_t id[3];

	job_of_its_own("mcapi_7_3");
	alarm((unsigned)TWT_LONG);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&id[i], NULL, task[i], &sMem) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_join(id[i], NULL) == 0);
	free(sMem);
	return 0;
}
