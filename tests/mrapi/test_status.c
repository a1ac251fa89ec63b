/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.7 Statuses as text; the spellings of decision and header. */
#include <stdio.h>
#include <unistd.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_status, .init = twc_job, .timeout = MR_TIMEOUT);

/* Needs no node. Every status has a name of its own that fits. */
Test(mrapi_status, names)
{
	static char text[MRAPI_ERR_ATOM_OP_FAILED + 1][MRAPI_MAX_STATUS_SIZE];

	for (int s = 0; s <= MRAPI_ERR_ATOM_OP_FAILED; s++) {
		memset(text[s], 'x', MRAPI_MAX_STATUS_SIZE);
		twc_check(mrapi_display_status(s, text[s], MRAPI_MAX_STATUS_SIZE) == text[s]);
		twc_eq(strncmp(text[s], "MRAPI_", 6), 0);
		twc_check(memchr(text[s], '\0', MRAPI_MAX_STATUS_SIZE));
		twc_eq(strcmp(text[s], mr_name(s)), 0);
		for (int t = 0; t < s; t++)
			twc_check(strcmp(text[s], text[t]));
	}
}

/* Of a status that is spelt several ways, a spelling of the specification's. */
Test(mrapi_status, specified_names)
{
	static const struct {
		mrapi_status_t status;
		const char *name;
	} as[] = {{MRAPI_ERR_SHM_ID_INVALID, "MRAPI_ERR_SHMEM_ID_INVALID"},
		  {MRAPI_ERR_SHMEM_INVALID, "MRAPI_ERR_SHM_INVALID"},
		  {MRAPI_ERR_NODE_INITFAILED, "MRAPI_ENO_INIT"},
		  {MRAPI_ERR_RMEM_TYPENOTVALID, "MRAPI_ERR_RMEM_ATYPE_INVALID"}};
	char text[MRAPI_MAX_STATUS_SIZE];

	for (int i = 0; i < 4; i++) {
		mrapi_display_status(as[i].status, text, sizeof(text));
		twc_eq(strcmp(text, as[i].name), 0);
	}
}

/* The types that both of the association's interfaces share. */
Test(mrapi_status, shared_types)
{
	mca_request_t any = 0;
	mrapi_request_t *one = &any;

	twc_eq(sizeof(any), sizeof(*one));
}

Test(mrapi_status, unknown)
{
	static const mrapi_status_t unknown[] = {-1, MRAPI_ERR_ATOM_OP_FAILED + 1, 123456,
						 -2147483647};
	char text[MRAPI_MAX_STATUS_SIZE];

	for (int i = 0; i < 4; i++) {
		mrapi_display_status(unknown[i], text, sizeof(text));
		twc_eq(strcmp(text, "UNKNOWN"), 0);
	}
}

Test(mrapi_status, small_buffers)
{
	char text[20];

	for (size_t size = 1; size < 16; size++) {
		memset(text, 'x', sizeof(text));
		mrapi_display_status(MRAPI_SUCCESS, text, size);
		twc_eq(strncmp(text, "MRAPI_SUCCESS", size - 1), 0);
		twc_eq(text[size < 14 ? size - 1 : 13], 0);
		twc_eq(text[size], 'x');
	}
	memset(text, 'x', sizeof(text));
	twc_check(!mrapi_display_status(MRAPI_SUCCESS, text, 0));
	twc_eq(text[0], 'x');
	twc_check(!mrapi_display_status(MRAPI_SUCCESS, NULL, 10));
}

/* One status spelt several ways. */
Test(mrapi_status, aliases)
{
	twc_eq(MRAPI_ENO_INIT, MRAPI_ERR_NODE_INITFAILED);
	twc_eq(MRAPI_ERR_MUTEX_EXISTS, MRAPI_EXISTS);
	twc_eq(MRAPI_ERR_SEM_EXISTS, MRAPI_EXISTS);
	twc_eq(MRAPI_ERR_RWL_EXISTS, MRAPI_EXISTS);
	twc_eq(MRAPI_ERR_SHM_EXISTS, MRAPI_EXISTS);
	twc_eq(MRAPI_ERR_SHMEM_EXISTS, MRAPI_EXISTS);
	twc_eq(MRAPI_ERR_RMEM_EXISTS, MRAPI_EXISTS);
	twc_eq(MRAPI_ERR_MUTEX_LOCKED, MRAPI_ELOCKED);
	twc_eq(MRAPI_ERR_SEM_LOCKED, MRAPI_ELOCKED);
	twc_eq(MRAPI_ERR_RWL_LOCKED, MRAPI_ELOCKED);
	twc_eq(MRAPI_ERR_SHM_INVALID, MRAPI_ERR_SHMEM_INVALID);
	twc_eq(MRAPI_ERR_SHM_ID_INVALID, MRAPI_ERR_SHMEM_ID_INVALID);
	twc_eq(MRAPI_ERR_SHM_NODES_INCOMPAT, MRAPI_ERR_SHMEM_NODES_INCOMPAT);
	twc_eq(MRAPI_ERR_SHM_NODE_NOTSHARED, MRAPI_ERR_SHMEM_NODE_NOTSHARED);
	twc_eq(MRAPI_ERR_SHM_ATTACHED, MRAPI_ERR_SHMEM_ATTACHED);
	twc_eq(MRAPI_ERR_SHM_NOTATTACHED, MRAPI_ERR_SHMEM_NOTATTACHED);
	twc_eq(MRAPI_ERR_SHM_ATTACH, MRAPI_ERR_SHMEM_ATTACH);
	twc_eq(MRAPI_ERR_RMEM_TYPENOTVALID, MRAPI_ERR_RMEM_ATYPE_INVALID);
	twc_eq(MRAPI_ERR_RMEM_TYPEROTVALID, MRAPI_ERR_RMEM_ATYPE_INVALID);
	twc_eq(MRAPI_ERR_RMEM_ATYPE_NOTVALID, MRAPI_ERR_RMEM_ATYPE_INVALID);
	twc_eq(MRAPI_SUCCESS, 0);
	/* What wait_any names when it names no request; nothing that filters. */
	twc_eq(MRAPI_NONE, (mrapi_uint_t)-1);
	twc_eq(MRAPI_RSRC_NONE, 0);
	twc_eq(MRAPI_INFINITE, 0xffffffff);
	twc_eq(MRAPI_TIMEOUT_INFINITE, MRAPI_INFINITE);
	twc_eq(MRAPI_TIMEOUT_IMMEDIATE, 0);
}

/* What is written to standard error while remote memory is attached and read. */
static size_t said(int level)
{
	static char memory[64], text[4096];
	FILE *file = tmpfile();
	int out = dup(STDERR_FILENO);
	mrapi_rmem_hndl_t h;
	char in[8];
	size_t n;

	twc_check(file && out >= 0);
	mrapi_set_debug_level(level);
	twc_check(dup2(fileno(file), STDERR_FILENO) >= 0);
	h = mr_val(mrapi_rmem_create(1, memory, MRAPI_RMEM_ATYPE_ANY, NULL, sizeof(memory), &mr_st));
	mr_ok(mrapi_rmem_attach(h, &mr_st));
	mr_ok(mrapi_rmem_read(h, 0, in, sizeof(in), 0, sizeof(in), 1, 0, 0, &mr_st));
	mr_ok(mrapi_rmem_detach(h, &mr_st));
	mr_ok(mrapi_rmem_delete(h, &mr_st));
	twc_check(dup2(out, STDERR_FILENO) >= 0);
	rewind(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	close(out);
	/* By which way it is read is told to those who want everything. */
	twc_eq(strstr(text, "mrapi: remote memory") != NULL, level >= 4);
	return n;
}

/* A variant in use. */
Test(mrapi_status, debug_level)
{
	mr_up(MR_NODE);
	for (int level = -1; level <= 5; level++)
		twc_eq(said(level) > 0, level >= 4);
	twc_eq(said(0), 0);
	mr_down();
}
