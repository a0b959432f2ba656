#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check-plugin.sh: netcheck on the plugin, on softefa, which delivers in any order: each version of the ABI by each protocol,
# on one rail and on four. BUILD=DIR is where they are; the verdicts of each run go to DIR/verdicts/*.xml as well.
# check-plugin.sh tsan THREAD: ranks as threads, netcheck and plugin from the build directory THREAD, with ThreadSanitizer.
# And LL and LL128, which it forbids unless the NIC vouches for order, on one that does.
# A check that is skipped and could have run is as bad as one that fails.
set -eu
export LC_ALL=C

build=${BUILD:-build}
subjects=$build
newest=12
bad=0
log=$(mktemp)
device=() # settings of softefa
trap 'rm -f "$log"' EXIT
mkdir -p "$build/verdicts"

# What cannot be otherwise: members that old tables do not have, or that the plugin leaves out. Memory of a GPU has a
# run of its own.
fine() { grep -vE '^(came with v|the table has no makeVDevice|no DMABUF in ptrSupport|takes two processes)'; }
skipped() { awk '/^SKIP/ { skip = 1; next } skip { sub(/^ +/, ""); print; skip = 0 }' "$log" | fine; }

# run NAME OPTION...
run() {
	local name=$1 start=$SECONDS rc=0

	shift
	timeout -k 5 900 "$build/softefa" --domain "check-plugin-$$-$name" --devices 4 "${device[@]}" -- "$subjects/netcheck" \
		--plugin "$subjects/libnccl-net-efa.so" --junit "$build/verdicts/$name.xml" \
		--jobs "$(nproc)" --timeout 120 "$@" >"$log" 2>&1 || rc=$?
	if [ $rc != 0 ] || ! grep -q '^v[0-9].*passed' "$log"; then
		echo "FAIL  $name ($rc)"
		sed 's/^/      | /' "$log"
		bad=1
	elif skipped >/dev/null; then
		echo "FAIL  $name: skipped for want of"
		skipped | sort | uniq -c | sed 's/^/      | /'
		bad=1
	else
		sed -n "s/^\(v[0-9].*passed.*\)/PASS  $name  \1/p" "$log"
		echo "      $((SECONDS - start)) s"
	fi
}

if [ "${1:-}" = tsan ]; then
	subjects=$2
	# What softefa does in the place of a device is no thread of the program.
	export TSAN_OPTIONS=ignore_noninstrumented_modules=1:exitcode=66
	export NCCL_EFA_PROTOCOL
	for NCCL_EFA_PROTOCOL in write read send; do
		run tsan-$NCCL_EFA_PROTOCOL --abi $newest --mode threads --ranks 3
	done
	exit $bad
fi

export NCCL_EFA_PROTOCOL NCCL_EFA_RAILS NCCL_EFA_MIN_STRIPE=4096
for NCCL_EFA_PROTOCOL in write read send; do
	for NCCL_EFA_RAILS in 1 4; do
		run $NCCL_EFA_PROTOCOL-$NCCL_EFA_RAILS
	done
done
NCCL_EFA_PROTOCOL='write' NCCL_EFA_RAILS=1 LD_LIBRARY_PATH=$build/cuda run gpu-memory --check C44
device=(--set caps=0x7f)
for NCCL_EFA_RAILS in 1 4; do
	NCCL_EFA_PROTOCOL='write' run lines-$NCCL_EFA_RAILS --abi $newest --check C68,C69
	! grep -A 1 '^REPORT' "$log" || bad=1 # that it is forbidden: the title of a check has the word too
done
exit $bad
