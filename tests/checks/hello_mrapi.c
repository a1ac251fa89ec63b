/* SPDX-License-Identifier: BSD-2-Clause */
/* The least MRAPI program: a node locks a mutex. */
#include <mrapi.h>
#include <stdio.h>

int main(void)
{
	mrapi_parameters_t parameters = 0;
	mrapi_mutex_hndl_t mutex;
	mrapi_status_t status;
	mrapi_info_t info;
	mrapi_key_t key;
	char text[MRAPI_MAX_STATUS_SIZE];

	mrapi_initialize(1, 1, &parameters, &info, &status);
	mutex = mrapi_mutex_create(MRAPI_MUTEX_ID_ANY, NULL, &status);
	mrapi_mutex_lock(mutex, &key, MRAPI_INFINITE, &status);
	mrapi_mutex_unlock(mutex, &key, &status);
	if (status != MRAPI_SUCCESS) {
		fprintf(stderr, "got %s\n", mrapi_display_status(status, text, sizeof(text)));
		return 1;
	}
	mrapi_finalize(&status);
	return 0;
}
