/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control file: fault rules (rule.h), one a line, that may change while the program runs. Its
 * path is in SOFTEFA_CONTROL. It is read when a look at it shows another inode, size or time: at
 * each command of the application, so that what was written before a command holds for it, and
 * every few milliseconds.
 *
 * A line that makes no sense is reported on stderr, the others count. All rules of the file are
 * void while it does not exist. To change it in one step write another one and rename it.
 */
#ifndef SE_CONTROL_H
#define SE_CONTROL_H

/* Are the rules up to date? Those of the settings come in by the first call. Engine lock held. */
void se_control_check(void);
/* After fork(): begin anew. */
void se_control_forget(void);

#endif
