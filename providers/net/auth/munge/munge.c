/* SPDX-License-Identifier: BSD-2-Clause */
/* The module for MUNGE. Its daemon is asked in the call, which waits for it. */
#include <munge.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/thread.h"
#include "providers/net/auth/crypto.h"

static bool munge_explain(munge_err_t err, munge_ctx_t ctx, char *why, unsigned len)
{
	const char *text = ctx ? munge_ctx_strerror(ctx) : NULL;

	if (err == EMUNGE_SUCCESS)
		return true;
	snprintf(why, len, "%s", text ? text : munge_strerror(err));
	return false;
}

/* Encrypted, whatever the daemon does by default, and for this user only. */
static munge_err_t restrict_to_user(munge_ctx_t ctx)
{
	munge_err_t err = munge_ctx_set(ctx, MUNGE_OPT_CIPHER_TYPE, MUNGE_CIPHER_AES128);

	if (err == EMUNGE_SUCCESS)
		err = munge_ctx_set(ctx, MUNGE_OPT_MAC_TYPE, MUNGE_MAC_SHA256);
	if (err == EMUNGE_SUCCESS)
		err = munge_ctx_set(ctx, MUNGE_OPT_UID_RESTRICTION, tw_sys_euid());
	return err;
}

static bool encode(char *text, size_t room, const uint8_t key[TW_NET_KEY], char *why, unsigned len)
{
	TW_NOT_CANCELLED;
	munge_ctx_t ctx = munge_ctx_create();
	munge_err_t err = ctx ? restrict_to_user(ctx) : EMUNGE_NO_MEMORY;
	char *cred = NULL;
	bool good;

	if (err == EMUNGE_SUCCESS)
		err = munge_encode(&cred, ctx, key, TW_NET_KEY);
	if (err == EMUNGE_SUCCESS && strlen(cred) >= room)
		err = EMUNGE_OVERFLOW;
	good = munge_explain(err, ctx, why, len);
	if (good)
		strcpy(text, cred);
	free(cred);
	munge_ctx_destroy(ctx);
	return good;
}

static bool decode(const char *text, uint8_t key[TW_NET_KEY], char *why, unsigned len)
{
	TW_NOT_CANCELLED;
	munge_ctx_t ctx = munge_ctx_create();
	int size = 0;
	void *data = NULL;
	uid_t uid;
	gid_t gid;
	bool good = munge_explain(munge_decode(text, ctx, &data, &size, &uid, &gid), ctx, why, len);

	if (good && (uid != tw_sys_euid() || size != TW_NET_KEY)) {
		snprintf(why, len, "it is of user %u", (unsigned)uid);
		good = false;
	}
	if (good)
		memcpy(key, data, TW_NET_KEY);
	if (data && size > 0)
		explicit_bzero(data, (size_t)size);
	free(data);
	munge_ctx_destroy(ctx);
	return good;
}

extern const struct tw_net_munge tw_net_munge;
const struct tw_net_munge tw_net_munge = {
	.version = TW_NET_MUNGE_VERSION,
	.encode = encode,
	.decode = decode,
};
