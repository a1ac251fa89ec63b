/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 6.2.8: automotive, with MCAPI 7.5. A timer processing unit puts what it
 * measures into shared memory under a mutex; a signal processing task sends what
 * it computes over a packet channel; the control task takes both and computes the
 * carburetor's parameters. Three nodes, here processes. Where the text differs
 * from its own function lists: locks wait, the channel leads from the sender to
 * the receiver, the mutex is found by its id.
 */
#include <stdint.h>
#include <string.h>

#include "examples/mcapi_common.h"
#include "mrapi.h"

#define AUTO_USE_CASE_DOMAIN_ID 1

enum { CNTRL_NODE, TPU_NODE, SIG_NODE };

#define CNTRL_PORT_SIG 1
#define TPU_PORT_CNTRL 1
#define SIG_PORT_CNTRL 1

#define SMEM_MUTEX_ID 1
#define SHMEM_ID 1
#define SHMEM_SIZE 4096

#define ROUNDS 2000
#define SENSORS 16

/* What lies in the shared memory; whole whenever nobody has the mutex. */
struct measured {
	uint32_t revolutions, inverse; /* the second is the complement of the first */
	uint32_t sensor[SENSORS];
	uint32_t stop;
};

struct sig_data {
	uint32_t number;
	uint32_t spectrum[SENSORS];
};

static mrapi_status_t mrapi_status;
static mcapi_status_t err;

#define CHECK_MRAPI CHECK(mrapi_status == MRAPI_SUCCESS)

static void init_the_system(unsigned node)
{
	mrapi_parameters_t parms = 0;
	mrapi_info_t info;
	mcapi_version_t version;

	mcapi_initialize(node, &version, &err);
	CHECK_STATUS(err);
	mrapi_initialize(AUTO_USE_CASE_DOMAIN_ID, node, parms, &info, &mrapi_status);
	CHECK_MRAPI;
}

static void shut_down(void)
{
	mrapi_finalize(&mrapi_status);
	CHECK_MRAPI;
	mcapi_finalize(&err);
	CHECK_STATUS(err);
}

static mcapi_endpoint_t create(mcapi_port_t port)
{
	mcapi_endpoint_t endpoint = mcapi_create_endpoint(port, &err);

	CHECK_STATUS(err);
	return endpoint;
}

/* ------------------------------------------------------------ the control task */

static mrapi_mutex_hndl_t sMem_mutex;
static mrapi_shmem_hndl_t sMem;
static mcapi_pktchan_recv_hndl_t sig_chan;

/* Makes mutex and memory and sends the handle of the memory to the TPU task. */
static struct measured *share_memory(mcapi_endpoint_t tpu)
{
	struct measured *sPtr;

	sMem_mutex = mrapi_mutex_create(SMEM_MUTEX_ID, NULL, &mrapi_status);
	CHECK_MRAPI;
	sMem = mrapi_shmem_create(SHMEM_ID, SHMEM_SIZE, NULL, 0, NULL, 0, &mrapi_status);
	CHECK_MRAPI;
	sPtr = mrapi_shmem_attach(sMem, &mrapi_status);
	CHECK_MRAPI;
	sPtr->inverse = ~sPtr->revolutions;
	mcapi_msg_send(create(MCAPI_PORT_ANY), tpu, &sMem, sizeof(sMem), 1, &err);
	CHECK_STATUS(err);
	return sPtr;
}

static void open_channel(mcapi_endpoint_t sig_endpt, mcapi_endpoint_t sig_rmem_endpt)
{
	mcapi_request_t r1;
	size_t size;

	mcapi_connect_pktchan_i(sig_rmem_endpt, sig_endpt, &r1, &err);
	CHECK_STATUS(err);
	while (!mcapi_test(&r1, &size, &err))
		; /* KEEP WAITING */
	mcapi_open_pktchan_recv_i(&sig_chan, sig_endpt, &r1, &err);
	CHECK_STATUS(err);
	while (!mcapi_test(&r1, &size, &err))
		; /* KEEP WAITING */
}

/* One look at the shared memory; the measured speed. */
static uint32_t read_memory(struct measured *sPtr, uint32_t stop)
{
	mrapi_key_t lock_key;
	uint32_t speed;

	mrapi_mutex_lock(sMem_mutex, &lock_key, MRAPI_INFINITE, &mrapi_status);
	CHECK_MRAPI;
	speed = sPtr->revolutions;
	CHECK(sPtr->inverse == ~speed);
	for (int i = 0; i < SENSORS; i++)
		CHECK(sPtr->sensor[i] == speed * (uint32_t)i);
	sPtr->stop = stop;
	mrapi_mutex_unlock(sMem_mutex, &lock_key, &mrapi_status);
	CHECK_MRAPI;
	return speed;
}

static void Control_Task(void)
{
	mcapi_endpoint_t sig_endpt, tpu_rmem_endpt, sig_rmem_endpt;
	mcapi_request_t r1, r2;
	struct measured *sPtr;
	uint32_t speed = 0;
	size_t tSize;

	init_the_system(CNTRL_NODE);
	sig_endpt = create(CNTRL_PORT_SIG);
	mcapi_get_endpoint_i(TPU_NODE, TPU_PORT_CNTRL, &tpu_rmem_endpt, &r1, &err);
	CHECK_STATUS(err);
	mcapi_get_endpoint_i(SIG_NODE, SIG_PORT_CNTRL, &sig_rmem_endpt, &r2, &err);
	CHECK_STATUS(err);
	while (!(mcapi_test(&r1, &tSize, &err) && mcapi_test(&r2, &tSize, &err)))
		; /* KEEP WAITING */
	sPtr = share_memory(tpu_rmem_endpt);
	open_channel(sig_endpt, sig_rmem_endpt);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t now = read_memory(sPtr, 0);
		struct sig_data *sDat;

		CHECK(now >= speed);
		speed = now;
		mcapi_pktchan_recv(sig_chan, (void **)&sDat, &tSize, &err);
		CHECK_STATUS(err);
		CHECK(tSize == sizeof(*sDat) && sDat->number == i);
		for (uint32_t k = 0; k < SENSORS; k++)
			CHECK(sDat->spectrum[k] == (i ^ k));
		/* Compute new carb params & update carb */
		mcapi_pktchan_free(sDat, &err);
		CHECK_STATUS(err);
	}
	while (read_memory(sPtr, 0) == 0)
		usleep(1000); /* the TPU task may come up late */
	read_memory(sPtr, 1);
	mrapi_shmem_detach(sMem, &mrapi_status);
	CHECK_MRAPI;
	while (mrapi_shmem_delete(sMem, &mrapi_status), mrapi_status == MRAPI_ERR_SHM_ATTACH)
		usleep(1000); /* the TPU task is about to leave */
	CHECK_MRAPI;
	mrapi_mutex_delete(sMem_mutex, &mrapi_status);
	CHECK_MRAPI;
	shut_down();
}

/* ---------------------------------------------------------------- the TPU task */

/* One more revolution; false when the control task has seen enough. */
static int measure(struct measured *sPtr)
{
	mrapi_key_t lock_key;
	int on;

	mrapi_mutex_lock(sMem_mutex, &lock_key, MRAPI_INFINITE, &mrapi_status);
	CHECK_MRAPI;
	sPtr->revolutions++;
	for (int i = 0; i < SENSORS; i++)
		sPtr->sensor[i] = sPtr->revolutions * (uint32_t)i;
	sPtr->inverse = ~sPtr->revolutions;
	on = !sPtr->stop;
	mrapi_mutex_unlock(sMem_mutex, &lock_key, &mrapi_status);
	CHECK_MRAPI;
	return on;
}

static void TPU_Task(void)
{
	mcapi_endpoint_t cntrl_endpt;
	struct measured *sPtr;
	size_t msgSize;

	init_the_system(TPU_NODE);
	cntrl_endpt = create(TPU_PORT_CNTRL);
	mcapi_msg_recv(cntrl_endpt, &sMem, sizeof(sMem), &msgSize, &err);
	CHECK_STATUS(err);
	CHECK(msgSize == sizeof(sMem));
	sPtr = mrapi_shmem_attach(sMem, &mrapi_status);
	CHECK_MRAPI;
	sMem_mutex = mrapi_mutex_get(SMEM_MUTEX_ID, &mrapi_status);
	CHECK_MRAPI;
	while (measure(sPtr))
		;
	mrapi_shmem_detach(sMem, &mrapi_status);
	CHECK_MRAPI;
	shut_down();
}

/* ------------------------------------------------- the signal processing task */

static void SIG_task(void)
{
	mcapi_endpoint_t cntrl_endpt;
	mcapi_pktchan_send_hndl_t cntrl_chan;
	mcapi_request_t r1;

	init_the_system(SIG_NODE);
	cntrl_endpt = create(SIG_PORT_CNTRL);
	/* The connection is handled by the control task. */
	mcapi_open_pktchan_send_i(&cntrl_chan, cntrl_endpt, &r1, &err);
	/* It may be asked for before the connection is there: then it is not over. */
	CHECK(err == MCAPI_SUCCESS || err == MCAPI_ENOT_CONNECTED);
	finish(&r1);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct sig_data sDat = {.number = i};

		for (uint32_t k = 0; k < SENSORS; k++)
			sDat.spectrum[k] = i ^ k;
		do
			mcapi_pktchan_send(cntrl_chan, &sDat, sizeof(sDat), &err);
		while (err == MCAPI_ENO_BUFFER);
		CHECK_STATUS(err);
	}
	mcapi_pktchan_send_close_i(cntrl_chan, &r1, &err);
	CHECK_STATUS(err);
	finish(&r1);
	shut_down();
}

int main(void)
{
	struct twt_child task[3];

	job_of_its_own("mrapi-6-2");
	start_process(&task[0], Control_Task);
	start_process(&task[1], TPU_Task);
	start_process(&task[2], SIG_task);
	join_processes(task, 3);
	return 0;
}
