/* SPDX-License-Identifier: BSD-2-Clause */
/* The entry of the shared object, and fabrics. */
#include <rdma/providers/fi_log.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "fi/fi.h"

static int fabric_close(struct fid *fid)
{
	struct tw_fi_fabric *f = tw_fi_from(struct tw_fi_fabric, fid);

	if (atomic_load(&f->refs))
		return -FI_EBUSY;
	free(f);
	return 0;
}

void tw_fi_explain(const char *format, ...)
{
	char text[1024];
	va_list args;

	if (!fi_log_enabled(&tw_fi_provider, FI_LOG_INFO, FI_LOG_CORE))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fi_log(&tw_fi_provider, FI_LOG_INFO, FI_LOG_CORE, __func__, __LINE__, "%s\n", text);
}

const char *tw_fi_text(int err, char *buf, size_t len)
{
	const char *text = fi_strerror(err);

	if (!buf || !len)
		return text;
	snprintf(buf, len, "%s", text);
	return buf;
}

static int no_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
			 void *context)
{
	(void)fabric, (void)info, (void)pep, (void)context;
	return -FI_ENOSYS;
}

static struct fi_ops fabric_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.control = tw_fi_no_control,
	.ops_open = tw_fi_no_ops,
};

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = tw_fi_domain_open,
	.passive_ep = no_passive_ep,
	.eq_open = tw_fi_eq_open,
	.wait_open = tw_fi_waitset_open,
	.trywait = tw_fi_trywait,
};

static int open_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct tw_fi_fabric *f;

	if (attr->name && strcmp(attr->name, TW_FI_NAME) != 0)
		return -FI_ENODATA;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -FI_ENOMEM;
	f->fid.fid = (struct fid){FI_CLASS_FABRIC, context, &fabric_fid_ops};
	f->fid.ops = &fabric_ops;
	f->fid.api_version = attr->api_version;
	*fabric = &f->fid;
	return 0;
}

static void cleanup(void)
{
}

struct fi_provider tw_fi_provider = {
	.version = TW_FI_VERSION,
	.name = TW_FI_NAME,
	.getinfo = tw_fi_getinfo,
	.fabric = open_fabric,
	.cleanup = cleanup,
};

/* The type that fi_info -e prints. The library itself parses the values. */
#define PARAM_STR FI_PARAM_STRING
#define PARAM_TRUST FI_PARAM_STRING
#define PARAM_LIST FI_PARAM_STRING
#define PARAM_NODES FI_PARAM_STRING
#define PARAM_PATH FI_PARAM_STRING
#define PARAM_RANK FI_PARAM_STRING
#define PARAM_PORTS FI_PARAM_STRING
#define PARAM_UINT FI_PARAM_INT
#define PARAM_SIZE FI_PARAM_SIZE_T
#define PARAM_BOOL FI_PARAM_BOOL

/* fi_info -e lists them. */
static void define_settings(void)
{
	tw_settings_prefix = "FI_";
#define TW_SETTING(ident, env, type, dflt, limits, text)                                           \
	fi_param_define(&tw_fi_provider, &env[sizeof("TAGWIRE_") - 1], PARAM_##type, "%s", text);
#include "base/settings.def"
#undef TW_SETTING
}

struct fi_provider *fi_prov_ini(void);
struct fi_provider *fi_prov_ini(void)
{
	/* That of the library it is loaded into, which passes over providers that are older than
	 * what a client asks for. */
	tw_fi_provider.fi_version = fi_version();
	define_settings();
	return &tw_fi_provider;
}
