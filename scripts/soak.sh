#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# soak.sh SECONDS: tests/soak on software devices in a domain of its own, with a control file that it rewrites.
# BUILD=DIR is where softefa is. Exits 1 when something was wrong, hung, grew or was left behind.
set -eu
build=${BUILD:-build} seconds=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

touch "$dir/faults"
timeout -k 5 $((seconds + 200)) "$build/softefa" --domain "soak-$$" --control "$dir/faults" -- \
	"$build/soak/softefa_soak" "$seconds" "$dir/faults" "$build/netbench" "$build/libnccl-net-efa.so"
