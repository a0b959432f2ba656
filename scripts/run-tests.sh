#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# run-tests.sh TEST...: run Criterion programs one after the other, a line each, all of the output of those that fail.
# BUILD=DIR is where softefa is. What is in integration/ or nccl-*/ runs on software EFA devices, each program in a domain of its
# own, unless it starts softefa itself (netbench, netcheck, examples), or needs none (config); those of the core run on each kind of CQ
# (tests/lib/loop.h), those of the plugin's data path on one rail, and by each protocol on four.
# What is in conformance/ runs on devices of each kind that variants() lists; with SOFTEFA=0 on those of the machine.
# Exits 1 if a test failed, crashed, hung, or a program had none.
set -eu
shopt -s extglob
export LC_ALL=C

build=${BUILD:-build}
limit=300 # seconds for one program
failed=()
total=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# What softefa is told, a line each: nothing; then what changes the behaviour of the device, or its limits.
variants() {
	[ "${SOFTEFA:-1}" != 0 ] || { echo; return; }
	printf '%s\n' "" "--set reorder=0" "--set max_rdma_size=65536" "--profile "efa{0..4}
}

# run TEST [OPTION OF SOFTEFA]...
run() {
	local launcher=("$build/softefa" --domain "check-$$-${1##*/}" "${@:2}" --) jobs=()

	case $1 in
	*/conformance/*)
		jobs=(-j8) # they wait most of the time
		[ "${SOFTEFA:-1}" != 0 ] || launcher=()
		;;
	*/integration/@(netbench|netcheck|config_)* | */integration/examples) launcher=() ;;
	*/integration/* | */nccl-*/*) ;;
	*) launcher=() ;;
	esac
	timeout -k 5 $limit "${launcher[@]}" "$1" "${jobs[@]}" --verbose=0
}

count() { sed -n "s/.*Synthesis:.*$1: \([0-9]*\).*/\1/p" "$log" | tail -n 1; }

# one TEST [ARGUMENT OF SOFTEFA]...
one() {
	local start=$SECONDS rc=0 tests skips name=${1#"$build"/}${LOOP_CQ:+ $LOOP_CQ}${NCCL_EFA_PROTOCOL:+ $NCCL_EFA_PROTOCOL}${2:+ ${*:2}}

	run "$@" >"$log" 2>&1 || rc=$?
	tests=$(count Tested) skips=$(grep -c '^\[SKIP\]' "$log") || true
	if [ $rc != 0 ] || [ "${tests:-0}" = 0 ]; then
		echo "FAIL  $name ($rc)"
		sed 's/^/      | /' "$log"
		failed+=("$name")
		return
	fi
	total=$((total + tests)) skipped=$((skipped + skips))
	printf 'PASS  %-34s %4d tests%s, %d s\n' "$name" "$tests" "$([ "$skips" = 0 ] || echo ", $skips skipped")" $((SECONDS - start))
	[ "$skips" = 0 ] || sed -n 's/^\[SKIP\] [^ ]*: /skipped: /p' "$log" | sort | uniq -c | sed 's/^/      | /'
}

for test; do
	case $test in
	*/conformance/*)
		while read -ra options; do
			one "$test" "${options[@]}"
		done < <(variants)
		;;
	*/integration/core_*)
		one "$test"
		LOOP_CQ=direct one "$test"
		LOOP_CQ=classic one "$test"
		;;
	*/integration/plugin_@(data|fail|flow|group|random|abort))
		one "$test"
		export NCCL_EFA_RAILS=4 NCCL_EFA_MIN_STRIPE=4096
		for protocol in write read send; do
			# A send by messages is done when the peer has it, whatever becomes of it there.
			[[ $test-$protocol != *_fail-send ]] || continue
			NCCL_EFA_PROTOCOL=$protocol one "$test"
		done
		unset NCCL_EFA_RAILS NCCL_EFA_MIN_STRIPE
		;;
	*) one "$test" ;;
	esac
done
echo "tests: $total passed, $skipped skipped, ${#failed[@]} programs failed: ${failed[*]:-none}"
[ ${#failed[@]} = 0 ]
