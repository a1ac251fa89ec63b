/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does one thing that fails, for tests/launch/messages, which looks at what is said:
 *	says open BOARD ID	opens an endpoint and ends
 *	says busy		opens one id twice
 *	says busy-child		a child opens the id of its parent, which it names first
 *	says connect HOST ID FILTER	connects, once
 *	says again ID PID	connects to that endpoint of a process, kills it, and connects again
 *	says to-closed		connects to an id of this host that is not open
 *	says exchange		mx_job_exchange()
 *	says early-peer, says early-connect	asks for a rank before that
 *	says no-result, says no-memory	passes NULL for a result, or for the memory of a window
 *	says key-twice		registers two windows with one key
 *	says rejected		the text of MX_STATUS_REJECTED
 *	says rank N		connects to rank N of the job
 *	says wait HOST ID	connects to filter 1, says so, and waits for a message
 *	says wait-rank N	connects to rank N of the job for as long as that takes
 *	says look-up HOST	asks for its NIC id when no descriptor is left
 *	says late-rank		pan_init() with --panda-rank, after mx_job_exchange()
 *	says platform-rank P	pan_init() with --panda-rank=P
 *	says platform		sends to platform 1 of Panda, and returns when that has failed
 *	says platform-there	is a platform of Panda, says so, and waits for the end of its input
 *	says platform-holds N FILE	is a platform, of which N calls pan_start() when there is
 *				that file
 *	says platform-receives	the same, but waits for a message
 *	says platform-exchanges	as platform, and then waits for a message
 *	says serve FILTER	opens an endpoint, prints its id, and waits for the end of its input
 *	says squat ID		as another user, if it may, takes the TCP ports of an id, prints the
 *				id, and waits for the end of its input
 *	says hang-up ID [N]	ends every call, or N calls and then listens no more, at the TCP
 *				port of an id, which it prints
 *	says queues		two endpoints, one with receives and a message that waits; prints
 *				its id, and waits for the end of its input
 *	says node N OTHER	an MCAPI node that prints its process id and waits for an endpoint
 *				of another
 *	says port N OTHER PORT	the same, for that port of the other
 *	says holder N		an MRAPI node that has mutex 7, says so, and waits for the end of
 *				its input
 *	says locker N		an MRAPI node that finds mutex 7, says so, and waits for it
 *	says member N		an MRAPI node that says so, and waits for the end of its input
 */
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mcapi.h"
#include "mrapi.h"
#include "mx_extensions.h"
#include "pan_mp.h"

#define NOBODY 65534
#define PORT 20480 /* the default of TAGWIRE_PORT */
#define PORTS 8
#define PORT_STEP 1024

static mx_endpoint_t endpoint;

static void open_any(uint32_t filter)
{
	mx_init();
	mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, filter, NULL, 0, &endpoint);
}

static void busy_child(void)
{
	mx_init();
	mx_open_endpoint(0, 7, 1, NULL, 0, &endpoint);
	fprintf(stderr, "the parent is %d\n", (int)getpid());
	if (fork() == 0) {
		mx_init();
		mx_open_endpoint(0, 7, 1, NULL, 0, &endpoint);
		_exit(0);
	}
	wait(NULL);
}

static void connect_to(uint64_t nic, uint32_t id, uint32_t filter)
{
	mx_endpoint_addr_t to;

	mx_connect(endpoint, nic, id, filter, 5, &to);
}

static void connect_here(uint32_t more, uint32_t filter)
{
	mx_endpoint_addr_t me;
	uint64_t nic;
	uint32_t id;

	open_any(1);
	mx_get_endpoint_addr(endpoint, &me);
	mx_decompose_endpoint_addr(me, &nic, &id);
	connect_to(nic, id + more, filter);
}

/* Connects to a process, kills it, and connects until that fails. */
static void connect_again(uint32_t id, pid_t peer)
{
	uint64_t nic;

	open_any(1);
	mx_board_number_to_nic_id(0, &nic);
	connect_to(nic, id, 1);
	kill(peer, SIGKILL);
	for (;;)
		connect_to(nic, id, 1);
}

static void await_end(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

static void serve(uint32_t filter)
{
	mx_endpoint_addr_t me;
	uint64_t nic;
	uint32_t id;

	open_any(filter);
	mx_get_endpoint_addr(endpoint, &me);
	mx_decompose_endpoint_addr(me, &nic, &id);
	printf("%u\n", id);
	fflush(stdout);
	await_end();
}

/* One that another program has is taken as well. */
static int take_port(uint16_t port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 sa6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd = socket(AF_INET6, SOCK_STREAM, 0), off = 0, on = 1;

	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
		(void)!bind(fd, (struct sockaddr *)&sa6, sizeof(sa6));
	} else {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		(void)!bind(fd, (struct sockaddr *)&sa, sizeof(sa));
	}
	listen(fd, 1);
	return fd;
}

static void squat(uint32_t id)
{
	if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) != 0)
		return;
	for (unsigned i = 0; i < PORTS; i++)
		take_port((uint16_t)(PORT + id + i * PORT_STEP));
	printf("%u\n", id);
	fflush(stdout);
	await_end();
}

/* As a program does that cannot take a call. */
static void hang_up(uint32_t id, unsigned times)
{
	int fd = take_port((uint16_t)(PORT + id)), caller;

	printf("%u\n", id);
	fflush(stdout);
	while (times-- && (caller = accept(fd, NULL, NULL)) >= 0)
		close(caller);
	close(fd);
	pause();
}

static void queues(void)
{
	static char data[100];
	mx_segment_t seg = {data, sizeof(data)};
	mx_endpoint_addr_t to;
	mx_endpoint_t other;
	mx_request_t r;
	mx_status_t status;
	uint32_t there = 0, id;
	uint64_t nic;

	open_any(1);
	mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 1, NULL, 0, &other);
	mx_get_endpoint_addr(other, &to);
	mx_decompose_endpoint_addr(to, &nic, &id);
	mx_connect(endpoint, nic, id, 1, 5, &to);
	for (uint64_t i = 1; i <= 5; i++)
		mx_irecv(other, &seg, 1, 0x10 + i, 0xff, NULL, &r);
	mx_isend(endpoint, &seg, 1, to, 0x1234567, NULL, &r);
	while (!there)
		mx_iprobe(other, 0, 0, &status, &there);
	printf("%u\n", id);
	fflush(stdout);
	await_end();
}

static void look_up(char *host)
{
	struct rlimit limit = {0, 0};
	uint64_t nic;

	mx_init();
	setrlimit(RLIMIT_NOFILE, &limit);
	mx_hostname_to_nic_id(host, &nic);
}

static void late_rank(void)
{
	char *argv[] = {"says", "--panda-rank=1/2", NULL};
	int argc = 2;

	open_any(1);
	mx_job_exchange(endpoint);
	pan_init(&argc, argv);
}

static void platform_rank(const char *place)
{
	char option[64], *argv[] = {"says", option, NULL};
	int argc = 2;

	snprintf(option, sizeof(option), "--panda-rank=%s", place);
	pan_init(&argc, argv);
}

static void begin_platform(void)
{
	pan_init(NULL, NULL);
	pan_mp_init(NULL, NULL);
	pan_mp_register_port(NULL);
	pan_start();
}

static void platform(void)
{
	begin_platform();
	pan_mp_finish_send(pan_mp_send(1, 1, "hello", 6, PAN_MP_NORMAL));
}

static void platform_there(void)
{
	begin_platform();
	puts("platform");
	fflush(stdout);
	await_end();
}

static void platform_holds(int which, const char *file)
{
	pan_init(NULL, NULL);
	pan_mp_init(NULL, NULL);
	while (pan_my_pid() == which && access(file, F_OK) != 0)
		usleep(100000);
	pan_start();
	pan_end();
}

static void platform_receives(void)
{
	pan_mp_finish_receive(pan_mp_receive(1), NULL, NULL);
}

static void wait_for(char *host, uint32_t id)
{
	mx_endpoint_addr_t to;
	mx_request_t r;
	mx_status_t status;
	uint32_t done;
	uint64_t nic;

	open_any(1);
	mx_hostname_to_nic_id(host, &nic);
	puts("connects");
	fflush(stdout);
	mx_connect(endpoint, nic, id, 1, MX_INFINITE, &to);
	mx_irecv(endpoint, NULL, 0, 1, ~0ull, NULL, &r);
	puts("connected");
	fflush(stdout);
	mx_wait(endpoint, &r, MX_INFINITE, &status, &done);
}

static void connect_to_rank(uint32_t rank, uint32_t timeout)
{
	mx_endpoint_addr_t addr;

	open_any(1);
	mx_job_exchange(endpoint);
	mx_job_connect(endpoint, rank, 1, timeout, &addr);
}

static void node(unsigned number, unsigned other, unsigned port)
{
	mcapi_version_t version;
	mcapi_status_t status;

	mcapi_initialize(number, &version, &status);
	mcapi_create_endpoint(1, &status);
	printf("node %u waits: %d\n", number, (int)getpid());
	fflush(stdout);
	mcapi_get_endpoint(other, port, &status);
}

static bool begin_member(mrapi_node_t number)
{
	mrapi_parameters_t parameters = 0;
	mrapi_status_t status;
	mrapi_info_t info;

	mrapi_initialize(1, number, &parameters, &info, &status);
	return status == MRAPI_SUCCESS;
}

static void member(mrapi_node_t number)
{
	if (!begin_member(number))
		return;
	puts("member");
	fflush(stdout);
	await_end();
}

static void holder(mrapi_node_t number)
{
	mrapi_mutex_hndl_t mutex;
	mrapi_status_t status;
	mrapi_key_t key;

	if (!begin_member(number))
		return;
	mutex = mrapi_mutex_create(7, NULL, &status);
	mrapi_mutex_lock(mutex, &key, MRAPI_TIMEOUT_INFINITE, &status);
	puts("holds");
	fflush(stdout);
	await_end();
}

static void locker(mrapi_node_t number)
{
	mrapi_status_t status = MRAPI_ERR_MUTEX_ID_INVALID;
	mrapi_mutex_hndl_t mutex = 0;
	mrapi_key_t key;

	if (!begin_member(number))
		return;
	while (status != MRAPI_SUCCESS)
		mutex = mrapi_mutex_get(7, &status);
	puts("waits");
	fflush(stdout);
	mrapi_mutex_lock(mutex, &key, MRAPI_TIMEOUT_INFINITE, &status);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	uint64_t nic = 0, key = 5;
	mx_endpoint_addr_t to;
	uint32_t id;

	if (!strcmp(what, "open") && argc == 4) {
		mx_init();
		mx_open_endpoint((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]), 1, NULL, 0,
				 &endpoint);
	} else if (!strcmp(what, "busy")) {
		mx_init();
		mx_open_endpoint(0, 7, 1, NULL, 0, &endpoint);
		mx_open_endpoint(0, 7, 1, NULL, 0, &endpoint);
	} else if (!strcmp(what, "busy-child")) {
		busy_child();
	} else if (!strcmp(what, "connect") && argc == 5) {
		open_any(1);
		mx_hostname_to_nic_id(argv[2], &nic);
		connect_to(nic, (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]));
	} else if (!strcmp(what, "again") && argc == 4) {
		connect_again((uint32_t)atoi(argv[2]), (pid_t)atoi(argv[3]));
	} else if (!strcmp(what, "to-closed")) {
		connect_here(1, 1);
	} else if (!strcmp(what, "exchange")) {
		open_any(1);
		mx_job_exchange(endpoint);
	} else if (!strcmp(what, "early-peer")) {
		open_any(1);
		mx_job_peer(0, &nic, &id);
	} else if (!strcmp(what, "early-connect")) {
		open_any(1);
		mx_job_connect(endpoint, 0, 1, 1, &to);
	} else if (!strcmp(what, "no-result")) {
		open_any(1);
		mx_get_fd(endpoint, NULL);
	} else if (!strcmp(what, "no-memory")) {
		open_any(1);
		mx_window_register(endpoint, NULL, 64, MX_WINDOW_READ, &key);
	} else if (!strcmp(what, "key-twice")) {
		open_any(1);
		mx_window_register(endpoint, &nic, 8, MX_WINDOW_READ, &key);
		mx_window_register(endpoint, &nic, 8, MX_WINDOW_READ, &key);
	} else if (!strcmp(what, "rejected")) {
		fprintf(stderr, "%s\n", mx_strstatus(MX_STATUS_REJECTED));
	} else if (!strcmp(what, "rank") && argc > 2) {
		connect_to_rank((uint32_t)atoi(argv[2]), 1);
	} else if (!strcmp(what, "wait-rank") && argc > 2) {
		connect_to_rank((uint32_t)atoi(argv[2]), MX_INFINITE);
	} else if (!strcmp(what, "wait") && argc == 4) {
		wait_for(argv[2], (uint32_t)atoi(argv[3]));
	} else if (!strcmp(what, "look-up") && argc == 3) {
		look_up(argv[2]);
	} else if (!strcmp(what, "late-rank")) {
		late_rank();
	} else if (!strcmp(what, "platform")) {
		platform();
	} else if (!strcmp(what, "platform-rank") && argc == 3) {
		platform_rank(argv[2]);
	} else if (!strcmp(what, "platform-there")) {
		platform_there();
	} else if (!strcmp(what, "platform-holds") && argc == 4) {
		platform_holds(atoi(argv[2]), argv[3]);
	} else if (!strcmp(what, "platform-receives")) {
		begin_platform();
		puts("platform");
		fflush(stdout);
		platform_receives();
	} else if (!strcmp(what, "platform-exchanges")) {
		platform();
		platform_receives();
	} else if (!strcmp(what, "serve") && argc == 3) {
		serve((uint32_t)atoi(argv[2]));
	} else if (!strcmp(what, "squat") && argc == 3) {
		squat((uint32_t)atoi(argv[2]));
	} else if (!strcmp(what, "hang-up") && argc > 2) {
		hang_up((uint32_t)atoi(argv[2]), argc > 3 ? (unsigned)atoi(argv[3]) : UINT32_MAX);
	} else if (!strcmp(what, "queues")) {
		queues();
	} else if (!strcmp(what, "node") && argc == 4) {
		node((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]), 1);
	} else if (!strcmp(what, "port") && argc == 5) {
		node((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]));
	} else if (!strcmp(what, "holder") && argc == 3) {
		holder((mrapi_node_t)atoi(argv[2]));
	} else if (!strcmp(what, "locker") && argc == 3) {
		locker((mrapi_node_t)atoi(argv[2]));
	} else if (!strcmp(what, "member") && argc == 3) {
		member((mrapi_node_t)atoi(argv[2]));
	}
	return 0;
}
