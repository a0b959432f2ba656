#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# sweep.sh DIR [OPTION OF run.sh]...: collectives, sizes, registered buffers or not, NCCL's choice of protocol or Simple, one after
# the other; text and JSON into DIR, each judged by check.py. With FLOORS=TYPE also by expected/TYPE.json.
# TESTS, SIZES (options of nccl-tests) and LIMIT, seconds for one run, may be set. Exit code: 1 if any of them is not right; 2: refused.
set -eu
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
read -ra tests <<<"${TESTS:-all_reduce_perf all_gather_perf reduce_scatter_perf broadcast_perf alltoall_perf sendrecv_perf}"
read -ra sizes <<<"${SIZES:--b 8 -e 8G -f 2}"
limit=${LIMIT:-900}

[ $# -ge 1 ] || { echo "usage: sweep.sh DIR [OPTION OF run.sh]..." >&2; exit 3; }
dir=$1
shift
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
judge=("$here/check.py")
[ -z "${FLOORS:-}" ] || judge+=(--type "$FLOORS")

# one NAME TEST REGISTERED [OPTION OF run.sh]...
one() {
	local name=$1 test=$2 registered=$3 rc=0 verdict

	shift 3
	rm -f "$dir/$name.json"
	timeout -k 10 "$limit" "$here/run.sh" "$@" -- "$test" "${sizes[@]}" -g 1 -c 1 -n 20 -R "$registered" \
		-J "$dir/$name.json" >"$dir/$name.txt" 2>"$dir/$name.log" || rc=$?
	if [ $rc = 2 ] && grep -q '^run.sh: refused' "$dir/$name.log"; then
		grep '^run.sh: refused' "$dir/$name.log" >&2
		exit 2
	fi
	if [ $rc = 0 ] && verdict=$("${judge[@]}" "$dir/$name.txt"); then
		printf 'PASS  %s\n' "${verdict#"$dir"/}"
		return
	fi
	printf 'FAIL  %s (%s)\n' "$name" $rc
	{ [ $rc != 0 ] || echo "$verdict"; tail -n 5 "$dir/$name.log"; } | sed 's/^/      | /'
	failed=$((failed + 1))
}

failed=0
for test in "${tests[@]}"; do
	for registered in 0 1; do
		one "$test-R$registered" "$test" $registered "$@"
		one "$test-R$registered-simple" "$test" $registered "$@" --env NCCL_PROTO=Simple
	done
done
echo "sweep: $((${#tests[@]} * 4)) runs, $failed not right; all of it in $dir"
[ $failed = 0 ]
