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
limit=120   # seconds for one program
failed=()

rc=0
scripts/deps.sh nccl || rc=$?
case $rc in
0) ;;
77) echo "skipped: check-nccl, which needs NCCL's source and CUDA's headers (see above)"; exit 0 ;;
*) exit $rc ;;
esac

read -r version src include <build/deps/nccl
out=$build/nccl/$version
mkdir -p "$out"
make -j"$(nproc)" -f tests/nccl/Makefile O="$out" NCCL_SRC="$src" NCCL_OBJ="$root/build/deps/nccl-obj-$version" \
	CUDA_INC="$include"

tests=("$@")
[ $# -gt 0 ] || for t in tests/nccl/*.c; do tests+=("$(basename "$t" .c)"); done
for t in "${tests[@]}"; do
	start=$SECONDS rc=0
	BUILD=$build timeout -k 5 $limit "$out/$t" >"$out/$t.log" 2>&1 || rc=$?
	if [ $rc = 0 ]; then
		echo "PASS  nccl-$version/$t, $((SECONDS - start)) s"
	else
		echo "FAIL  nccl-$version/$t ($rc)"
		tail -n 100 "$out/$t.log" | sed 's/^/      | /'
		failed+=("$t")
	fi
done
echo "check-nccl: NCCL $version, ${#tests[@]} programs, ${#failed[@]} failed: ${failed[*]:-none}"
[ ${#failed[@]} = 0 ]
