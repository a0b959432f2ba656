#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nccl.sh [TEST...]: NCCL's own host code over the plugin on software devices, without a GPU. Builds it where that is
# not done, then runs all programs of tests/nccl/, or those named. BUILD=DIR is where the plugin and softefa are.
# NCCL_SRC=DIR is another version of NCCL than the archive's. Exits 0 with the word "skipped" where NCCL's source
# cannot be had, 1 if anything else went wrong.
set -eu
export LC_ALL=C

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
build=$(readlink -m "${BUILD:-build}")

rc=0
scripts/deps.sh nccl || rc=$?
case $rc in
0) ;;
77) echo "skipped: check-nccl, which needs NCCL's source and CUDA's headers (see above)"; exit 0 ;;
*) exit $rc ;;
esac

read -r version src include <build/deps/nccl
out=$build/nccl-$version
mkdir -p "$out"
make -j"$(nproc)" -f tests/nccl/Makefile O="$out" NCCL_SRC="$src" NCCL_OBJ="$root/build/deps/nccl-obj-$version" \
	CUDA_INC="$include" TEST_LIB="$build/test/lib.a"

tests=("$@")
[ $# -gt 0 ] || for t in tests/nccl/*.c; do tests+=("$(basename "$t" .c)"); done
BUILD=$build exec scripts/run-tests.sh "${tests[@]/#/$out/}"
