#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# demo.sh: the plugin moves verified data between processes on software EFA devices, through unmodified rdma-core.
# BUILD=DIR is where things were built, RDMA_CORE=PREFIX the rdma-core in use. Exits 1 if any element is wrong.
set -eu

cd "$(dirname "$0")/.."
build=${BUILD:-build}
plugin=$build/libnccl-net-efa.so
devices=4

lib=$(readlink -e "${RDMA_CORE:-build/deps/rdma-core}/lib/libefa.so.1")
abis=$(nm -D --defined-only "$plugin" | sed -n 's/.*ncclNetPlugin_//p' | sort -V | xargs)
version=${lib##*.so.1.}
echo "demo: rdma-core ${version#*.}, $devices software EFA devices, $plugin with net ABI $abis"

bench() { "$build/softefa" --devices $devices -- "$build/netbench" --plugin "$plugin" "$@"; }

bench --pattern ring --ranks 2 --min 8 --max 64M
bench --pattern alltoall --ranks 4 --min 8 --max 16M --factor 8
echo "demo: all data right"
