/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 7.4.3: multimedia. A general purpose processor sends data and code to a
 * DSP, here two processes, has it execute, and gets the result. The code is a
 * name for what the DSP can do: a FIR filter.
 */
#include <stdint.h>
#include <string.h>

#include "examples/mcapi_common.h"

enum { DSP_READY, DSP_DATA, DSP_CODE, DSP_TERMINATE, DSP_EXECUTE };

#define GPP_1 0	 /* 0-63 reserved for homogeneous MC */
#define DSP_1 64 /* 64+ used for DSP nodes */

#define PORT_COMMAND 0
#define PORT_DATA 1
#define PORT_DATA_RECV 2

#define SAMPLES 4096
#define TAPS 8
#define FRAMES 20

struct fir {
	char name[8];
	int32_t tap[TAPS];
};

static void filter(const struct fir *code, const int32_t *in, int32_t *out)
{
	for (int i = 0; i < SAMPLES; i++) {
		out[i] = 0;
		for (int t = 0; t < TAPS && t <= i; t++)
			out[i] += code->tap[t] * in[i - t];
	}
}

static mcapi_endpoint_t create(mcapi_port_t port)
{
	mcapi_status_t status;
	mcapi_endpoint_t endpoint = mcapi_create_endpoint(port, &status);

	CHECK_STATUS(status);
	return endpoint;
}

/* ------------------------------------------- General Purpose Processor Code */

static mcapi_endpoint_t command_endpoint, data_endpoint, data_recv_endpoint;
static mcapi_sclchan_send_hndl_t command_chan;
static mcapi_pktchan_send_hndl_t data_chan;
static mcapi_pktchan_recv_hndl_t data_recv_chan;

static mcapi_endpoint_t of_dsp(mcapi_port_t port)
{
	mcapi_status_t status;
	mcapi_endpoint_t endpoint = mcapi_get_endpoint(DSP_1, port, &status);

	CHECK_STATUS(status);
	return endpoint;
}

static void initialize_comms(void)
{
	mcapi_request_t request[3];
	mcapi_version_t version;
	mcapi_status_t status;

	mcapi_initialize(GPP_1, &version, &status);
	CHECK_STATUS(status);
	command_endpoint = create(PORT_COMMAND);
	data_endpoint = create(PORT_DATA);
	data_recv_endpoint = create(PORT_DATA_RECV);
	mcapi_connect_pktchan_i(data_endpoint, of_dsp(PORT_DATA), &request[0], &status);
	CHECK_STATUS(status);
	mcapi_connect_sclchan_i(command_endpoint, of_dsp(PORT_COMMAND), &request[1], &status);
	CHECK_STATUS(status);
	mcapi_connect_pktchan_i(of_dsp(PORT_DATA_RECV), data_recv_endpoint, &request[2], &status);
	CHECK_STATUS(status);
	for (int i = 0; i < 3; i++)
		finish(&request[i]);
	mcapi_open_pktchan_send_i(&data_chan, data_endpoint, &request[0], &status);
	CHECK_STATUS(status);
	mcapi_open_sclchan_send_i(&command_chan, command_endpoint, &request[1], &status);
	CHECK_STATUS(status);
	mcapi_open_pktchan_recv_i(&data_recv_chan, data_recv_endpoint, &request[2], &status);
	CHECK_STATUS(status);
	for (int i = 0; i < 3; i++)
		finish(&request[i]);
}

static void send_data(void *data, size_t size)
{
	mcapi_status_t status;

	mcapi_pktchan_send(data_chan, data, size, &status);
	CHECK_STATUS(status);
}

static void send_dsp_cmd(uint32_t cmd)
{
	mcapi_status_t status;

	mcapi_sclchan_send_uint32(command_chan, cmd, &status);
	CHECK_STATUS(status);
}

static void read_data(void **dst, size_t *size)
{
	mcapi_status_t status;

	mcapi_pktchan_recv(data_recv_chan, dst, size, &status);
	CHECK_STATUS(status);
}

static void shutdown_comms(void)
{
	mcapi_request_t request[3];
	mcapi_status_t status;

	mcapi_pktchan_recv_close_i(data_recv_chan, &request[0], &status);
	CHECK_STATUS(status);
	mcapi_pktchan_send_close_i(data_chan, &request[1], &status);
	CHECK_STATUS(status);
	mcapi_sclchan_send_close_i(command_chan, &request[2], &status);
	CHECK_STATUS(status);
	for (int i = 0; i < 3; i++)
		finish(&request[i]);
	mcapi_delete_endpoint(command_endpoint, &status);
	CHECK_STATUS(status);
	mcapi_delete_endpoint(data_endpoint, &status);
	CHECK_STATUS(status);
	mcapi_delete_endpoint(data_recv_endpoint, &status);
	CHECK_STATUS(status);
	mcapi_finalize(&status);
	CHECK_STATUS(status);
}

static void perform_multimedia_function(void)
{
	struct fir code = {"fir", {1, -2, 3, -4, 5, -6, 7, -8}};
	static int32_t data[SAMPLES], expected[SAMPLES];
	mcapi_status_t status;

	initialize_comms();
	for (int frame = 0; frame < FRAMES; frame++) {
		void *result;
		size_t size;

		for (int i = 0; i < SAMPLES; i++)
			data[i] = (i * 7919 + frame) % 1000;
		code.tap[0] = frame;
		filter(&code, data, expected);
		send_dsp_cmd(DSP_DATA);
		send_data(data, sizeof(data));
		send_dsp_cmd(DSP_CODE);
		send_data(&code, sizeof(code));
		send_dsp_cmd(DSP_EXECUTE);
		read_data(&result, &size);
		CHECK(size == sizeof(expected) && memcmp(result, expected, size) == 0);
		mcapi_pktchan_free(result, &status);
		CHECK_STATUS(status);
	}
	send_dsp_cmd(DSP_TERMINATE);
	shutdown_comms();
}

/* ------------------------------------------------------------------ DSP Code */

static mcapi_endpoint_t dsp_command_endpoint, dsp_data_endpoint, dsp_data_send_endpoint;
static mcapi_sclchan_recv_hndl_t dsp_command_chan;
static mcapi_pktchan_recv_hndl_t dsp_data_chan;
static mcapi_pktchan_send_hndl_t dsp_data_send_chan;

/* The text opens without waiting for the connection; that is told, and works. */
static void check_open(mcapi_status_t status)
{
	if (status != MCAPI_ENOT_CONNECTED)
		CHECK_STATUS(status);
}

static void dsp_initialize(void)
{
	mcapi_request_t request[3];
	mcapi_version_t version;
	mcapi_status_t status;

	mcapi_initialize(DSP_1, &version, &status);
	CHECK_STATUS(status);
	dsp_command_endpoint = create(PORT_COMMAND);
	dsp_data_endpoint = create(PORT_DATA);
	dsp_data_send_endpoint = create(PORT_DATA_RECV);
	mcapi_open_pktchan_recv_i(&dsp_data_chan, dsp_data_endpoint, &request[0], &status);
	check_open(status);
	mcapi_open_sclchan_recv_i(&dsp_command_chan, dsp_command_endpoint, &request[1], &status);
	check_open(status);
	mcapi_open_pktchan_send_i(&dsp_data_send_chan, dsp_data_send_endpoint, &request[2],
				  &status);
	check_open(status);
	for (int i = 0; i < 3; i++)
		finish(&request[i]);
}

static void dsp_shutdown(void)
{
	mcapi_request_t request[3];
	mcapi_status_t status;

	mcapi_pktchan_recv_close_i(dsp_data_chan, &request[0], &status);
	CHECK_STATUS(status);
	mcapi_sclchan_recv_close_i(dsp_command_chan, &request[1], &status);
	CHECK_STATUS(status);
	mcapi_pktchan_send_close_i(dsp_data_send_chan, &request[2], &status);
	CHECK_STATUS(status);
	for (int i = 0; i < 3; i++)
		finish(&request[i]);
	mcapi_delete_endpoint(dsp_command_endpoint, &status);
	CHECK_STATUS(status);
	mcapi_delete_endpoint(dsp_data_endpoint, &status);
	CHECK_STATUS(status);
	mcapi_delete_endpoint(dsp_data_send_endpoint, &status);
	CHECK_STATUS(status);
	mcapi_finalize(&status);
	CHECK_STATUS(status);
}

static uint32_t receive_dsp_cmd(void)
{
	mcapi_status_t status;
	uint32_t cmd = mcapi_sclchan_recv_uint32(dsp_command_chan, &status);

	CHECK_STATUS(status);
	return cmd;
}

static void receive_buffer(void **buffer, size_t expected)
{
	mcapi_status_t status;
	size_t size;

	if (*buffer) {
		mcapi_pktchan_free(*buffer, &status);
		CHECK_STATUS(status);
	}
	mcapi_pktchan_recv(dsp_data_chan, buffer, &size, &status);
	CHECK_STATUS(status);
	CHECK(size == expected);
}

static void dsp_command_loop(void)
{
	void *data_buffer = NULL, *code_buffer = NULL;
	static int32_t result_buffer[SAMPLES];
	uint32_t command = DSP_READY;
	mcapi_status_t status;

	dsp_initialize();
	while (command != DSP_TERMINATE) {
		switch (command) {
		case DSP_DATA:
			receive_buffer(&data_buffer, sizeof(result_buffer));
			break;
		case DSP_CODE:
			receive_buffer(&code_buffer, sizeof(struct fir));
			break;
		case DSP_EXECUTE:
			CHECK(data_buffer && code_buffer && !strcmp(code_buffer, "fir"));
			filter(code_buffer, data_buffer, result_buffer);
			mcapi_pktchan_send(dsp_data_send_chan, result_buffer, sizeof(result_buffer),
					   &status);
			CHECK_STATUS(status);
			break;
		default:
			break;
		}
		command = receive_dsp_cmd();
	}
	mcapi_pktchan_free(data_buffer, &status);
	CHECK_STATUS(status);
	mcapi_pktchan_free(code_buffer, &status);
	CHECK_STATUS(status);
	dsp_shutdown();
}

int main(void)
{
	struct twt_child child[2];

	job_of_its_own("mcapi_7_4");
	start_process(&child[0], perform_multimedia_function);
	start_process(&child[1], dsp_command_loop);
	join_processes(child, 2);
	return 0;
}
