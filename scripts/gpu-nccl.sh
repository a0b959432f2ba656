#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# gpu-nccl.sh: two ranks of a stock NCCL on one GPU, over the plugin on software EFAs, by each protocol; 5 minutes at most.
# BUILD=DIR has the plugin and softefa. CUDA_HOME and NCCL_HOME may say where CUDA's runtime and NCCL are; where there is no NCCL, it comes
# from PyPI into build/deps. Exit code 0: all right; 1: not so; 77: not run, and the reason is the last line.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
build=$(cd "${BUILD:-build}" && pwd)
limit=300 # seconds for all
logs=$build/gpu/nccl-logs

not_run() { echo "not run: $*"; exit 77; }

# with_file FILE DIR...: the first DIR that has it
with_file() { local d; for d in "${@:2}"; do [ ! -e "$d/$1" ] || { echo "$d"; return; }; done; }
# library DIR NAME: the folder below DIR that has a library of this name
library() { local d; for d in lib64 lib; do ! compgen -G "$1/$d/$2*" >/dev/null || { echo "$1/$d"; return; }; done; }

# ---- CUDA's runtime and NCCL

cuda=$(with_file include/cuda_runtime_api.h ${CUDA_HOME:+"$CUDA_HOME"} /usr/local/cuda /usr)
[ -n "$cuda" ] || not_run "no CUDA: no cuda_runtime_api.h in CUDA_HOME, /usr/local/cuda or /usr"
cuda_lib=$(library "$cuda" libcudart.so)
[ -n "$cuda_lib" ] || not_run "no CUDA: no libcudart.so in $cuda"
major=$(sed -n 's/^#define *CUDART_VERSION *\([0-9]*\)[0-9]\{3\}.*/\1/p' "$cuda/include/cuda_runtime_api.h")

deps=$PWD/build/deps/nccl-cu$major
fetch_nccl() {
	rm -rf "$deps.new"
	python3 -m pip download -q --no-deps --only-binary :all: -d "$deps.new" "nvidia-nccl-cu$major" >"$deps.log" 2>&1 &&
		python3 -m zipfile -e "$deps.new"/*.whl "$deps.new" && rm -rf "$deps" && mv "$deps.new" "$deps"
}
nccl=$(with_file include/nccl.h ${NCCL_HOME:+"$NCCL_HOME"} "$cuda" /usr "$deps/nvidia/nccl")
[ -n "$nccl" ] || fetch_nccl || not_run "no NCCL: NCCL_HOME is not set, and pip cannot fetch nvidia-nccl-cu$major ($deps.log)"
[ -n "$nccl" ] || nccl=$deps/nvidia/nccl
nccl_lib=$(library "$nccl" libnccl.so.2)
[ -n "$nccl_lib" ] || not_run "no NCCL: no libnccl.so.2 in $nccl"

# ---- the program, and whether there is a GPU

mkdir -p "$build/gpu" "$logs"
rm -f "$logs"/*
${CC:-cc} -std=c11 -O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE -isystem "$nccl/include" -isystem "$cuda/include" -o "$build/gpu/nccl" \
	tests/gpu/nccl.c "$(compgen -G "$nccl_lib/libnccl.so.2*" | head -n 1)" -L"$cuda_lib" -lcudart \
	-Wl,-rpath,"$nccl_lib:$cuda_lib"
echo "gpu-nccl: built with CUDA $major in $cuda, NCCL $(strings "$nccl_lib"/libnccl.so.2 | sed -n 's/^NCCL version \([0-9].*\)/\1/p' | head -n 1) in $nccl"

# ---- the runs

export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} NCCL_NET_PLUGIN=$build/libnccl-net-efa.so NCCL_NET=EFA NCCL_SOCKET_IFNAME=lo \
	NCCL_MNNVL_ENABLE=0 NCCL_NVLS_ENABLE=0 NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV NCCL_MAX_NCHANNELS=2

failed=0
# one NAME MODE "SETTINGS OF SOFTEFA" [KEY=VALUE]...
one() {
	local name=$1 mode=$2 device=$3 start=$SECONDS rc=0 left=$((limit - SECONDS)) reason=

	shift 3
	[ $left -gt 0 ] || { echo "FAIL  $name: no time left of $limit s"; failed=$((failed + 1)); return; }
	# shellcheck disable=SC2086 # the settings are words
	timeout -k 5 $left env NCCL_DEBUG_FILE="$logs/$name.%p" "$@" "$build/softefa" --domain "gpu-nccl-$$" $device -- \
		"$build/gpu/nccl" "$mode" >"$logs/$name.out" 2>&1 || rc=$?
	if [ $rc = 77 ]; then
		tail -n 1 "$logs/$name.out"
		exit 77
	fi
	if [ $rc != 0 ]; then
		reason="exit code $rc"
	elif ! grep -qs 'Using network EFA' "$logs/$name".[0-9]* || ! grep -qs 'via NET/EFA/' "$logs/$name".[0-9]*; then
		reason="NCCL's log does not say that the plugin carried the data"
	elif [ "$mode" != abort ] && grep -s 'WARN.*NET/EFA' "$logs/$name".[0-9]* | grep -v 'lets NCCL use LL' >>"$logs/$name.out"; then
		reason="the plugin warned"
	fi
	if [ -n "$reason" ]; then
		echo "FAIL  $name: $reason"
		tail -n 20 "$logs/$name.out" | sed 's/^/      | /'
		failed=$((failed + 1))
	else
		echo "PASS  $name: $(grep -c '^right' "$logs/$name.out") ranks, $((SECONDS - start)) s"
	fi
}

# LL and LL128 need a NIC that places data in order: softefa then is one, and says nothing of it.
one Simple collectives "" NCCL_PROTO=Simple
one default collectives ""
one LL collectives "--set reorder=0" NCCL_PROTO=LL NCCL_EFA_IN_ORDER=yes
one LL128 collectives "--set reorder=0" NCCL_PROTO=LL128 NCCL_EFA_IN_ORDER=yes
one rails collectives "" NCCL_EFA_RAILS=4 NCCL_EFA_MIN_STRIPE=4096
one abort abort ""
echo "gpu-nccl: $failed of 6 failed, $SECONDS s; logs are in $logs"
[ $failed = 0 ]
