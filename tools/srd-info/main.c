/* SPDX-License-Identifier: BSD-3-Clause */
/* srd-info: which EFAs and GPUs there are, what they can, and what is between them. */
#include <stdio.h>

#include "common/options.h"
#include "common/say.h"
#include "info.h"

struct wishes {
	const char *device;
	bool json, env;
};

#define AT(field) offsetof(struct wishes, field)

static const struct option_row rows[] = {
	{"device", 'd', OPTION_STRING, "NAME", AT(device), 0, 0, NULL,
	 "only this RDMA device (default: all)"},
	{"json", 'j', OPTION_ON, NULL, AT(json), 0, 0, NULL, "print JSON"},
	{"env", 'e', OPTION_ON, NULL, AT(env), 0, 0, NULL,
	 "print the environment variables of libsrd and of the NCCL plugin instead"},
	{"help", 'h', OPTION_HELP, NULL, 0, 0, 0, NULL, "this text"},
};

int main(int argc, char **argv)
{
	const struct options options = {
		.rows = rows,
		.count = sizeof(rows) / sizeof(rows[0]),
		.intro = "usage: srd-info [options]\n"
			 "EFA devices, what they can, and where they are: on the PCI bus, and to "
			 "each GPU.\n\n",
		.notes = "",
	};
	static struct info info;
	struct wishes wishes = {0};
	int rc;

	say_init("srd-info");
	rc = options_parse(&options, &wishes, argc, argv);
	if (rc)
		return rc < 0 ? 2 : 0;
	if (wishes.env) {
		info_print_env(wishes.json);
		return 0;
	}
	rc = info_gather(&info, wishes.device);
	if (wishes.json)
		info_print_json(&info);
	else
		info_print(&info);
	if (rc)
		say("%s: no such RDMA device%s%s", wishes.device, info.no_libs[0] ? ": " : "",
		    info.no_libs);
	return rc ? 1 : 0;
}
