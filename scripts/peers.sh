#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# peers.sh [PEER...]: other projects' own, unmodified programs and tests on the software adapter, after "deps.sh
# peers". A peer is a function peer_NAME in peers/*.sh; no argument runs all. Prints what passed, failed and was
# skipped, and why; exits 1 if anything failed, ended without a result, or a peer ran nothing.
# BUILD=DIR is where softefa is (default build), SOFTEFA=PROGRAM another launcher with its command line.
set -eu
export LC_ALL=C
# Nobody else's devices: other programs on this machine may use softefa at the same time.
export SOFTEFA_DOMAIN=${SOFTEFA_DOMAIN:-peers-$$}

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(readlink -m "${BUILD:-$root/build}")
softefa=${SOFTEFA:-$build/softefa}
deps=$root/build/deps
logs=$build/peers
peers=(devinfo core_releases pyverbs pyverbs_distro perftest perftest_distro fabtests pingpong_distro python_efa python_libsrd)

devices=4
options=()  # more of the launcher's
limit=120   # seconds that one program may take
passed=0 failed=0 skipped=0   # of the peer that is running
children=()
table=()

# ---- the frame: run, bound, report

die() { echo "peers: $*" >&2; exit 1; }

# pass NAME WHAT
pass() {
	passed=$((passed + 1))
	printf 'PASS  %-34s %s\n' "$1" "$2"
}

# fail NAME WHY [LOG...]
fail() {
	failed=$((failed + 1))
	explain "$@"
}

explain() {
	printf 'FAIL  %-34s %s\n' "$1" "$2"
	shift 2
	for log; do
		[ ! -e "$log" ] || { echo "      $log ends:"; tail -n 12 "$log" | sed 's/^/      | /'; }
	done
}

# suite NAME RC PASSED FAILED SKIPPED LOG: the result of a program that runs many tests; no result is a failure
suite() {
	local name=$1 rc=$2 counts="$3 passed, $4 failed, $5 skipped"

	passed=$((passed + $3)) failed=$((failed + $4)) skipped=$((skipped + $5))
	if [ "$rc" = 0 ] && [ "$4" = 0 ] && [ "$3" -gt 0 ]; then
		printf 'PASS  %-34s %s\n' "$name" "$counts"
	else
		[ "$4" != 0 ] || failed=$((failed + 1))
		explain "$name" "$counts ($(why "$rc")), log: $6"
	fi
}

# reasons: lines of stdin, each why a test was skipped, grouped
reasons() { sort | uniq -c | sort -rn | sed 's/^ */      skipped /'; }

# start LOG COMMAND...: on the adapter, within the limit, in the background
start() {
	local out=$1
	shift
	timeout -k 5 "$limit" "$softefa" --devices $devices ${options[@]+"${options[@]}"} -- "$@" >"$out" 2>&1 &
	children+=($!)
}

# run LOG COMMAND...: the same to its end. In the background too, so that a signal to this script ends it.
run() {
	start "$@"
	wait $!
}

listening() { grep -qi ": [0-9A-F]*:$(printf %04X "$1") [0-9A-F]*:0000 0A " /proc/net/tcp /proc/net/tcp6; }

free_port() {
	local port

	while port=$((RANDOM % 20000 + 10000)); listening $port; do :; done
	echo $port
}

# pair NAME PORT SERVER_ARGS CLIENT_ARGS COMMAND...: the same COMMAND as server, then as client. Output goes to
# NAME.server and NAME.client; true if both exit 0.
pair() {
	local name=$1 port=$2 server_args=$3 client_args=$4 server tries rc=0
	shift 4

	# The arguments are lists of words without blanks.
	# shellcheck disable=SC2086
	start "$logs/$name.server" "$@" $server_args
	server=$!
	for ((tries = 0; tries < 100; tries++)); do
		if listening "$port" || ! kill -0 $server 2>/dev/null; then break; fi
		sleep 0.1
	done
	# shellcheck disable=SC2086
	run "$logs/$name.client" "$@" $client_args || rc=$?
	[ $rc = 0 ] || kill $server 2>/dev/null || true
	wait $server || rc=$?
	return $rc
}

# why RC: an exit status in words
why() {
	case $1 in
	124 | 137) echo "no end within $limit s" ;;
	129 | 13? | 14? | 15?) echo "killed by signal $(($1 - 128))" ;;
	*) echo "exit status $1" ;;
	esac
}

# stand_in NAME: a command of that name, which is stdin, stands before the system's in $logs/bin
stand_in() {
	mkdir -p "$logs/bin"
	cat >"$logs/bin/$1"
	chmod +x "$logs/bin/$1"
}

# newest_prefix: where the rdma-core is that build/deps was built with
newest_prefix() { sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$deps/rdma-core-obj/CMakeCache.txt"; }

for part in rdma-core perftest libfabric python; do
	# shellcheck source=/dev/null
	. "$root/scripts/peers/$part.sh"
done

# ---- main

# one PEER: run it, and a row for the table
one() {
	local start=$SECONDS

	passed=0 failed=0 skipped=0 children=() options=()
	echo "---- $1"
	"peer_$1"
	if [ $((passed + failed)) = 0 ]; then
		fail "$1" "ran nothing"
	fi
	table+=("$(printf '%-20s %8d %8d %8d %8d' "$1" $passed $failed $skipped $((SECONDS - start)))")
}

# total: the table of all, and its sum; false if anything failed
total() {
	printf '\n%-20s %8s %8s %8s %8s\n' peer passed failed skipped seconds
	printf '%s\n' "${table[@]}"
	printf '%s\n' "${table[@]}" | awk '{ p += $2; f += $3; s += $4 }
		END { print "peers: " p " passed, " f + 0 " failed, " s " skipped"; exit f > 0 }'
}

[ -x "$softefa" ] || die "$softefa is missing: run make first"
mkdir -p "$logs"
trap '[ ${#children[@]} = 0 ] || kill "${children[@]}" 2>/dev/null || true' EXIT
trap 'exit 1' INT TERM
[ $# -gt 0 ] || set -- "${peers[@]}"
for peer; do
	[ "$(type -t "peer_$peer")" = function ] || die "no peer \"$peer\"; there are: ${peers[*]}"
done
for peer; do
	one "$peer"
done
total
