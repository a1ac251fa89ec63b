/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 3.7: attributes of objects to be created, and the calls that are alike for objects
 * of several kinds. A structure has a magic number of its kind, so that an uninitialized one
 * is refused, and the object's flags.
 */
#include "mrapi/mrapi_internal.h"

#define MARK 0x6d726100u

/* The flag of an attribute; 0 if objects of that kind do not have it. */
static unsigned flag_of(enum tw_mrapi_kind kind, mrapi_uint_t num)
{
	if (num == MRAPI_MUTEX_RECURSIVE)
		return kind == TW_MRAPI_MUTEX ? TW_MRAPI_RECURSIVE : 0;
	if (num == MRAPI_ERROR_EXT)
		return kind < TW_MRAPI_LOCKS ? TW_MRAPI_EXT : 0;
	return num == MRAPI_DOMAIN_SHARED ? TW_MRAPI_DOMAIN_SHARED : 0;
}

static bool read_only(enum tw_mrapi_kind kind, mrapi_uint_t num)
{
	return num == MRAPI_OBJECT_ID || (kind == TW_MRAPI_SHMEM && num == MRAPI_SHMEM_SIZE) ||
	       (kind == TW_MRAPI_RMEM && (num == MRAPI_RMEM_SIZE || num == MRAPI_RMEM_ACCESS_TYPE));
}

mrapi_status_t tw_mrapi_attr_init(enum tw_mrapi_kind kind, uint32_t *attributes)
{
	if (!tw_mrapi_me())
		return MRAPI_ERR_NODE_NOTINIT;
	if (!attributes)
		return MRAPI_ERR_PARAMETER;
	attributes[0] = MARK | kind;
	attributes[1] = TW_MRAPI_DOMAIN_SHARED;
	attributes[2] = attributes[3] = 0;
	return MRAPI_SUCCESS;
}

bool tw_mrapi_attr_flags(enum tw_mrapi_kind kind, const void *attributes, unsigned *flags)
{
	const uint32_t *a = attributes;

	*flags = a ? a[1] : TW_MRAPI_DOMAIN_SHARED;
	return !a || a[0] == (MARK | kind);
}

mrapi_status_t tw_mrapi_attr_set(enum tw_mrapi_kind kind, uint32_t *attributes, mrapi_uint_t num,
				 const void *value, size_t size)
{
	unsigned flag = flag_of(kind, num);
	mrapi_boolean_t on;

	if (!tw_mrapi_me())
		return MRAPI_ERR_NODE_NOTINIT;
	if (!attributes || !value || attributes[0] != (MARK | kind))
		return MRAPI_ERR_PARAMETER;
	if (read_only(kind, num))
		return MRAPI_ERR_ATTR_READONLY;
	if (!flag)
		return MRAPI_ERR_ATTR_NUM;
	if (size != sizeof(on))
		return MRAPI_ERR_ATTR_SIZE;
	memcpy(&on, value, sizeof(on));
	attributes[1] = on ? attributes[1] | flag : attributes[1] & ~flag;
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mrapi_attr_put(void *value, size_t size, const void *from, size_t from_size)
{
	if (size != from_size)
		return MRAPI_ERR_ATTR_SIZE;
	memcpy(value, from, size);
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mrapi_attr_get(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o, mrapi_uint_t num,
				 void *value, size_t size)
{
	unsigned flag = flag_of(kind, num);
	mrapi_boolean_t on = (o->flags & flag) != 0;

	if (!value)
		return MRAPI_ERR_PARAMETER;
	if (num == MRAPI_OBJECT_ID)
		return tw_mrapi_attr_put(value, size, &o->id, sizeof(o->id));
	if (!flag)
		return MRAPI_ERR_ATTR_NUM;
	return tw_mrapi_attr_put(value, size, &on, sizeof(on));
}

/* 4.2.1: no node attribute can be set. Works without a node. */
void mrapi_node_init_attributes(mrapi_node_attributes_t *attributes, mrapi_status_t *status)
{
	if (attributes)
		*attributes = (mrapi_node_attributes_t){{MARK, 0, 0, 0}};
	tw_mrapi_set_status(status, attributes ? MRAPI_SUCCESS : MRAPI_ERR_PARAMETER);
}

void mrapi_node_set_attribute(mrapi_node_attributes_t *attributes, mrapi_uint_t attribute_num,
			      const void *attribute, size_t attribute_size, mrapi_status_t *status)
{
	bool known = attribute_num == MRAPI_OBJECT_ID || attribute_num == MRAPI_NODE_DOMAIN ||
		     attribute_num == MRAPI_NODE_PID;

	(void)attribute_size;
	if (!attributes || !attribute || attributes->opaque[0] != MARK)
		tw_mrapi_set_status(status, MRAPI_ERR_PARAMETER);
	else
		tw_mrapi_set_status(status, known ? MRAPI_ERR_ATTR_READONLY : MRAPI_ERR_ATTR_NUM);
}

#define MAKE(name, kind)                                                                           \
	void mrapi_##name##_init_attributes(mrapi_##name##_attributes_t *attributes,               \
					    mrapi_status_t *status)                                \
	{                                                                                          \
		tw_mrapi_set_status(                                                               \
			status, tw_mrapi_attr_init(kind, attributes ? attributes->opaque : NULL)); \
	}                                                                                          \
	void mrapi_##name##_set_attribute(mrapi_##name##_attributes_t *attributes,                 \
					  mrapi_uint_t attribute_num, const void *attribute,       \
					  size_t attribute_size, mrapi_status_t *status)           \
	{                                                                                          \
		tw_mrapi_set_status(                                                               \
			status, tw_mrapi_attr_set(kind, attributes ? attributes->opaque : NULL,    \
						  attribute_num, attribute, attribute_size));      \
	}

#define MAKE_LOCK(name, kind)                                                                      \
	MAKE(name, kind)                                                                           \
	void mrapi_##name##_get_attribute(mrapi_##name##_hndl_t name, mrapi_uint_t attribute_num,  \
					  void *attribute, size_t attribute_size,                  \
					  mrapi_status_t *status)                                  \
	{                                                                                          \
		tw_mrapi_set_status(status, tw_mrapi_obj_attr(kind, name, attribute_num,           \
							      attribute, attribute_size));         \
	}                                                                                          \
	mrapi_##name##_hndl_t mrapi_##name##_get(mrapi_##name##_id_t name##_id,                    \
						 mrapi_status_t *status)                           \
	{                                                                                          \
		mrapi_##name##_hndl_t handle = 0;                                                  \
                                                                                                   \
		tw_mrapi_set_status(status,                                                        \
				    tw_mrapi_obj_get(tw_mrapi_me(), kind, name##_id, &handle));    \
		return handle;                                                                     \
	}                                                                                          \
	void mrapi_##name##_delete(mrapi_##name##_hndl_t name, mrapi_status_t *status)             \
	{                                                                                          \
		tw_mrapi_set_status(status, tw_mrapi_obj_delete(kind, name));                      \
	}

MAKE_LOCK(mutex, TW_MRAPI_MUTEX)
MAKE_LOCK(sem, TW_MRAPI_SEM)
MAKE_LOCK(rwl, TW_MRAPI_RWL)
MAKE(rmem, TW_MRAPI_RMEM)

void mrapi_shmem_delete(mrapi_shmem_hndl_t shmem, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, tw_mrapi_obj_delete(TW_MRAPI_SHMEM, shmem));
}
