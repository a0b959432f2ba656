/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of NCCL_PROTO. */
#include "../../plugin/order.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "nccl_tuner_abi.h"

enum {
	LL = 1 << NCCL_TUNER_PROTO_LL,
	LL128 = 1 << NCCL_TUNER_PROTO_LL128,
	SIMPLE = 1 << NCCL_TUNER_PROTO_SIMPLE,
};

struct value {
	char text[48];
	unsigned allows;
};

ParameterizedTestParameters(order, nccl_proto_allows)
{
	static struct value values[] = {
		{"LL", LL},
		{"LL128", LL128},
		{"Simple", SIMPLE},
		{"simple", SIMPLE},
		{"ll,SIMPLE", LL | SIMPLE},
		{"LL,LL128,Simple", LL | LL128 | SIMPLE},
		{"^LL", LL128 | SIMPLE},
		{"^LL,LL128", SIMPLE},
		{"^Simple", LL | LL128},
		{"Simple;allreduce:LL", SIMPLE | LL},
		{"allreduce:^LL,LL128", SIMPLE},
		{"allreduce:Simple;^LL128", SIMPLE | LL},
		/* what NCCL would complain about */
		{"", 0},
		{"L", 0},
		{"LL12", 0},
		{"LL,", LL},
		{",,LL", LL},
		{"^", LL | LL128 | SIMPLE},
		{";;", 0},
		{":", 0},
		{"allreduce:", 0},
	};

	return cr_make_param_array(struct value, values, sizeof(values) / sizeof(values[0]));
}

ParameterizedTest(struct value *v, order, nccl_proto_allows)
{
	cr_assert(eq(uint, net_order_allowed(v->text), v->allows), "%s", v->text);
}
