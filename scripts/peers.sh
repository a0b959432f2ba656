#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# peers.sh [PEER...]: other projects' own, unmodified programs on the software adapter, after "deps.sh peers".
# A peer is a function peer_NAME below; no argument runs all. Exits 1 if anything failed.
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
peers=(devinfo pyverbs perftest fi_pingpong)

devices=4
limit=120   # seconds that one program may take
passed=0
failed=()
children=()

# ---- the frame: run, bound, report

die() { echo "peers: $*" >&2; exit 1; }

pass() {
	passed=$((passed + 1))
	printf 'PASS  %-28s %s\n' "$1" "$2"
}

# fail NAME WHY [LOG...]
fail() {
	failed+=("$1")
	printf 'FAIL  %-28s %s\n' "$1" "$2"
	shift 2
	for log; do
		[ ! -e "$log" ] || { echo "      $log ends:"; tail -n 12 "$log" | sed 's/^/      | /'; }
	done
}

# start LOG COMMAND...: on the adapter, within the limit, in the background
start() {
	local out=$1
	shift
	timeout -k 5 "$limit" "$softefa" --devices $devices -- "$@" >"$out" 2>&1 &
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

# ---- the peers

# libibverbs' own listing: every device, by name
peer_devinfo() {
	local names want rc=0

	run "$logs/devinfo" ibv_devinfo -v || rc=$?
	names=$(sed -n 's/^hca_id:[ \t]*//p' "$logs/devinfo" | sort | xargs)
	want=$(seq -f 'efa_%g' 0 $((devices - 1)) | xargs)
	if [ $rc = 0 ] && [ "$names" = "$want" ]; then
		pass "ibv_devinfo -v" "$names"
	else
		fail "ibv_devinfo -v" "$(why $rc), devices: ${names:-none}; expected: $want" "$logs/devinfo"
	fi
}

# rdma-core's Python suites, with the bindings and libraries of the same source package
peer_pyverbs() {
	local suite

	# The suites ask "rdma link" which network device belongs to a port. EFA's ports have none.
	mkdir -p "$logs/bin"
	printf '#!/bin/sh\necho "[]"\n' >"$logs/bin/rdma"
	chmod +x "$logs/bin/rdma"
	for suite in efadv efa_srd device pd cq cq_events mr addr qp cqex qpex; do
		pyverbs_suite test_$suite
	done
}

pyverbs_suite() {
	local name=$1 log=$logs/$1 obj=$deps/rdma-core-obj prefix run bad skipped rc=0

	prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$obj/CMakeCache.txt")
	run "$log" env PATH="$logs/bin:$PATH" PYTHONPATH="$obj/python" LD_LIBRARY_PATH="$prefix/lib" \
		/usr/bin/python3 "$deps/rdma-core-src/tests/run_tests.py" -v "tests.$name" || rc=$?
	run=$(sed -n 's/^Ran \([0-9]*\) tests\{0,1\} in .*/\1/p' "$log")
	skipped=$(grep -c " skipped ['\"]" "$log") || true
	bad=$(grep -cE '^(ERROR|FAIL|UNEXPECTED SUCCESS): ' "$log") || true
	if [ -z "$run" ]; then
		fail "$name" "$(why $rc), no result" "$log"
		return
	fi
	set -- "$((run - bad - skipped)) passed, $bad failed, $skipped skipped"
	if [ $rc = 0 ] && [ "$bad" = 0 ] && [ "$run" -gt "$skipped" ]; then
		pass "$name" "$1"
	else
		fail "$name" "$1 ($(why $rc))"
		grep -E '^(ERROR|FAIL|UNEXPECTED SUCCESS): ' "$log" | sed 's/^/      /'
		echo "      log: $log"
	fi
	sed -n "s/.* skipped ['\"]\(.*\)['\"]\$/\1/p" "$log" | sort | uniq -c | sort -rn | sed 's/^ */      skipped /'
}

# perftest of the distribution, between two processes
peer_perftest() {
	perftest ib_send_lat -n 1000
	perftest ib_send_bw -n 1000
	perftest ib_read_bw -n 1000
}

# perftest PROGRAM ARGUMENT...: the last row of the result table must be there
perftest() {
	local name="$1 SRD" port row rc=0

	port=$(free_port)
	pair "$1" "$port" "" 127.0.0.1 "$@" -c SRD -d efa_0 -x 0 -F -p "$port" || rc=$?
	row=$(awk '/^ *#bytes/ { table = 1; next } table && $1 + 0 > 0 { row = $0 } END { print row }' "$logs/$1.client")
	if [ $rc != 0 ] || [ -z "$row" ]; then
		fail "$name" "$(why $rc), ${row:-no result}" "$logs/$1.client" "$logs/$1.server"
		return
	fi
	# shellcheck disable=SC2086  # columns
	set -- $1 $row
	case $1 in
	*_lat) pass "$name" "$2 bytes: typical $6 us, 99 % ${9} us" ;;
	*) pass "$name" "$2 bytes: average $5 MB/s" ;;
	esac
}

# libfabric of the distribution: its efa provider between two processes, data checked
peer_fi_pingpong() {
	fi_pingpong_ep rdm
	fi_pingpong_ep dgram
}

fi_pingpong_ep() {
	local name="fi_pingpong -p efa -e $1" log=fi_pingpong.$1 port row rc=0

	port=$(free_port)
	pair "$log" "$port" "-B $port" "-P $port 127.0.0.1" fi_pingpong -p efa -e "$1" -c -I 100 || rc=$?
	row=$(awk '$1 == "bytes" { table = 1; next } table && NF == 8 { row = $1 " bytes: " $7 " us, " $6 " MB/s" }
		END { print row }' "$logs/$log.client")
	if [ $rc = 0 ] && [ -n "$row" ]; then
		pass "$name" "$row"
	else
		fail "$name" "$(why $rc), ${row:-no result}" "$logs/$log.client" "$logs/$log.server"
	fi
}

# ---- main

[ -x "$softefa" ] || die "$softefa is missing: run make first"
mkdir -p "$logs"
trap '[ ${#children[@]} = 0 ] || kill "${children[@]}" 2>/dev/null || true' EXIT
trap 'exit 1' INT TERM
[ $# -gt 0 ] || set -- "${peers[@]}"
for peer; do
	[ "$(type -t "peer_$peer")" = function ] || die "no peer \"$peer\"; there are: ${peers[*]}"
	children=()
	"peer_$peer"
done
echo "peers: $passed passed, ${#failed[@]} failed$([ ${#failed[@]} = 0 ] || printf '; %s' "${failed[@]}")"
[ ${#failed[@]} = 0 ]
