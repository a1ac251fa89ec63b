/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of message calls. */
#include "fi/fi.h"

struct fi_ops_msg tw_fi_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = tw_fi_recv,
	.recvv = tw_fi_recvv,
	.recvmsg = tw_fi_recvmsg,
	.send = tw_fi_send,
	.sendv = tw_fi_sendv,
	.sendmsg = tw_fi_sendmsg,
	.inject = tw_fi_inject,
	.senddata = tw_fi_senddata,
	.injectdata = tw_fi_injectdata,
};

struct fi_ops_tagged tw_fi_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = tw_fi_trecv,
	.recvv = tw_fi_trecvv,
	.recvmsg = tw_fi_trecvmsg,
	.send = tw_fi_tsend,
	.sendv = tw_fi_tsendv,
	.sendmsg = tw_fi_tsendmsg,
	.inject = tw_fi_tinject,
	.senddata = tw_fi_tsenddata,
	.injectdata = tw_fi_tinjectdata,
};
