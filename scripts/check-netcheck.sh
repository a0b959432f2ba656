#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check-netcheck.sh: netcheck passes a correct plugin that is not ours, and each of its checks fails on a plugin that is
# wrong in what it looks at (tests/plugins/defects). BUILD=DIR is where all of them are; DEFECTS="C5. lose-zero" for
# the lines that hold one of these patterns.
set -eu
export LC_ALL=C

build=${BUILD:-build}
table=tests/plugins/defects
limit=8 # seconds for what hangs
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

say_failed() {
	echo "FAILED: $*"
	failed=1
}

# No FAIL, and no SKIP but of what a version has not, of softefa's faults, and of a host without devices.
correct() {
	local rc=0

	"$build/netcheck" --plugin "$build/plugins/tcpnet.so" --jobs "$(nproc)" --timeout 120 >"$work/correct" || rc=$?
	grep '^v[0-9]' "$work/correct" || true
	[ $rc = 0 ] || { sed 's/^/      | /' "$work/correct"; say_failed "the correct plugin ($rc)"; }
	grep -A1 '^SKIP' "$work/correct" | grep -v '^--' | paste - - | grep -vE ' C(05|81) | came with v[0-9]+$' &&
		say_failed "skipped on the correct plugin"
	TCPNET_DEVICES=0 "$build/netcheck" --plugin "$build/plugins/tcpnet.so" --check C05 --abi 12 | grep '^REPORT' ||
		say_failed "C05 on the correct plugin"
}

# defect NUMBER FAULT CHECK ABI TEXT: a line of the table that is printed, in a file.
defect() {
	local fault=$2 id=$3 abi=$4 text=$5 plugin=tcpnet launcher=() said verdict=ok

	case $fault in
	@deaf) plugin=deaf fault='' launcher=("$build/softefa" --domain "defects-$$-$1" --) ;;
	@*) plugin=${fault#@} fault='' ;;
	esac
	[ "$id" != C05 ] || export TCPNET_DEVICES=0
	said=$(TCPNET_FAULT=$fault DEAF_PLUGIN=$build/libnccl-net-efa.so "${launcher[@]}" "$build/netcheck" \
		--plugin "$build/plugins/$plugin.so" --abi "$abi" --check "$id" --timeout $limit 2>&1 |
		grep -A1 "^[A-Z]*  *v$abi  *$id " | sed 's/^ *//' | paste -s -d ' ')
	[[ $said == FAIL* && $said == *"$text"* ]] || verdict=WRONG
	printf '%-5s %-17s %s v%-2s %s\n' $verdict "$2" "$id" "$abi" "${said#* expected }" | cut -c 1-150 >"$work/line.$1"
}

defects() {
	local n=0 fault id abi text

	while read -r fault id abi text; do
		[[ $fault != '#'* ]] || continue
		echo "$id" >>"$work/proven"
		[ -z "${DEFECTS:-}" ] || grep -qE "${DEFECTS// /|}" <<<"$fault $id" || continue
		n=$((n + 1))
		defect $n "$fault" "$id" "$abi" "$text" &
		[ $((n % $(nproc))) != 0 ] || wait
	done <"$table"
	wait
	for ((i = 1; i <= n; i++)); do
		cat "$work/line.$i" || say_failed "no verdict on line $i of $table"
	done
	! grep -h '^WRONG' "$work"/line.* >/dev/null || say_failed "netcheck passed a defect, or failed for another reason"
	echo "$n defects"
}

[ -n "${DEFECTS:-}" ] || correct
defects
"$build/netcheck" --list | cut -d ' ' -f 1 | sort >"$work/all"
comm -23 "$work/all" <(sort -u "$work/proven") >"$work/unproven"
[ ! -s "$work/unproven" ] || say_failed "no defect for $(paste -s -d ' ' "$work/unproven")"
exit $failed
