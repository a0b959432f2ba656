/* SPDX-License-Identifier: BSD-3-Clause */
/* The /sys tree in which libibverbs and others discover the devices. */
#ifndef SE_SYSFS_H
#define SE_SYSFS_H

#include <stddef.h>

#include "settings.h"

/*
 * Make the tree for @s, or find the one made before: it depends on nothing but the settings. Its
 * path is short, as the readers' buffers are. 0 or -errno, with the reason in @err.
 */
int se_sysfs_make(const struct se_settings *s, char *path, size_t pathlen, char *err,
		  size_t errlen);

#endif
