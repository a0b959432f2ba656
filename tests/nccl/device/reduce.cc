/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on types. Integers are unsigned here, as in NCCL's functions: what is signed shows in
 * the argument alone. Sums and products of 16-bit floats round once, by way of float.
 */
#include "reduce.h"

#include <algorithm>
#include <cmath>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <string.h>
#include <type_traits>

#include "device.h"

template <typename T>
constexpr bool is_short_float =
	std::is_same<T, half>::value || std::is_same<T, __nv_bfloat16>::value;
template <typename T>
constexpr bool is_float = std::is_floating_point<T>::value || is_short_float<T>;
/* In which arithmetic is exact, or rounds as the device does. */
template <typename T> using wide = std::conditional_t<is_short_float<T>, float, T>;

static float widen(half x)
{
	return __half2float(x);
}

static float widen(__nv_bfloat16 x)
{
	return __bfloat162float(x);
}

template <typename T> static T widen(T x)
{
	return x;
}

template <typename T> static T narrow(wide<T> x)
{
	if constexpr (std::is_same<T, half>::value)
		return __float2half_rn(x);
	else if constexpr (std::is_same<T, __nv_bfloat16>::value)
		return __float2bfloat16_rn(x);
	else
		return x;
}

template <typename T> static T scalar(uint64_t arg)
{
	T x;

	memcpy((void *)&x, &arg, sizeof(x));
	return x;
}

struct sum {
	template <typename T> static T join(T a, T b, uint64_t)
	{
		return narrow<T>(wide<T>(widen(a) + widen(b)));
	}
};

struct prod {
	template <typename T> static T join(T a, T b, uint64_t)
	{
		return narrow<T>(wide<T>(widen(a) * widen(b)));
	}
};

/* Floats: arg's lowest bit says maximum. Integers: by arg's bits the order of all is that of <. */
struct min_max {
	template <typename T> static T join(T a, T b, uint64_t arg)
	{
		if constexpr (is_float<T>)
			return narrow<T>(arg & 1 ? std::fmax(widen(a), widen(b))
						 : std::fmin(widen(a), widen(b)));
		else
			return (T)(a ^ (T)arg) < (T)(b ^ (T)arg) ? a : b;
	}
};

template <typename T, typename Op>
static void join_all(void *acc, const void *x, size_t n, uint64_t arg)
{
	T *to = (T *)acc;
	const T *from = (const T *)x;

	for (size_t i = 0; i < n; i++)
		to[i] = Op::join(to[i], from[i], arg);
}

template <typename T> static void scale_all(void *x, size_t n, uint64_t arg)
{
	T *at = (T *)x;

	for (size_t i = 0; i < n; i++)
		at[i] = narrow<T>(wide<T>(widen(at[i]) * widen(scalar<T>(arg))));
}

/* arg: twice the divisor, and 1 if x is signed. */
template <typename T> static void divide_all(void *x, size_t n, uint64_t arg)
{
	using S = std::make_signed_t<T>;
	T *at = (T *)x;

	for (size_t i = 0; i < n; i++)
		at[i] = arg & 1 ? (T)((S)at[i] / (int64_t)(arg >> 1)) : (T)(at[i] / (arg >> 1));
}

template <typename T> static bool find(struct reduction *red, int op)
{
	switch (op) {
	case ncclDevSum:
		*red = {sizeof(T), 0, NULL, join_all<T, sum>, NULL};
		return true;
	case ncclDevProd:
		*red = {sizeof(T), 0, NULL, join_all<T, prod>, NULL};
		return true;
	case ncclDevMinMax:
		*red = {sizeof(T), 0, NULL, join_all<T, min_max>, NULL};
		return true;
	case ncclDevPreMulSum:
		*red = {sizeof(T), 0, scale_all<T>, join_all<T, sum>, NULL};
		return true;
	case ncclDevSumPostDiv:
		if constexpr (!is_float<T>) {
			*red = {sizeof(T), 0, NULL, join_all<T, sum>, divide_all<T>};
			return true;
		}
		return false;
	default:
		return false;
	}
}

bool reduction_find(struct reduction *red, int op, int type)
{
	switch (type) {
	case ncclInt8:
	case ncclUint8:
		return find<uint8_t>(red, op);
	case ncclInt32:
	case ncclUint32:
		return find<uint32_t>(red, op);
	case ncclInt64:
	case ncclUint64:
		return find<uint64_t>(red, op);
	case ncclFloat16:
		return find<half>(red, op);
	case ncclBfloat16:
		return find<__nv_bfloat16>(red, op);
	case ncclFloat32:
		return find<float>(red, op);
	case ncclFloat64:
		return find<double>(red, op);
	default:
		return false;
	}
}

struct reduction reduction_none(void)
{
	return {1, 0, NULL, NULL, NULL};
}
