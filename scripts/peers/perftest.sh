# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# perftest, between two processes. Part of peers.sh.
# shellcheck disable=SC2034,SC2154  # options, logs, deps: peers.sh's

# The distribution's
peer_perftest_distro() {
	perftest_dir=/usr/bin
	perftest ib_send_lat SRD -n 1000
	perftest ib_send_bw SRD -n 1000
	perftest ib_read_bw SRD -n 1000
}

# The newest. Two rules of libefa show in the arguments: every request is signaled, so that datagrams need -Q 1 (for
# SRD perftest does that by itself), and a write cannot be inline unless its queue pair was made so, which perftest
# does not know: -I 0.
peer_perftest() {
	local name

	perftest_dir=$deps/perftest
	options=(--profile efa2)
	for name in send_bw send_lat read_bw read_lat write_bw write_lat; do
		perftest_all "ib_$name"
	done
	perftest ib_send_lat UD -n 500
	perftest ib_send_lat UD -n 200 -e
	perftest ib_send_lat UD -n 20 -a
	perftest ib_send_bw UD -n 500 -Q 1
	perftest ib_send_bw UD -n 500 -Q 1 -q 4
	perftest ib_send_bw UD -n 200 -Q 1 -e
	perftest ib_send_bw UD -n 20 -Q 1 -a
	for name in efa0 efa1 efa3 efa4; do
		options=(--profile "$name")
		perftest ib_send_bw SRD -n 200
	done
}

# perftest_all PROGRAM: one size, all sizes; where it can, sleeping on events and on several queue pairs
perftest_all() {
	local args=()

	[ "$1" != ib_write_lat ] || args=(-I 0)
	perftest "$1" SRD -n 500 "${args[@]}"
	perftest "$1" SRD -n 20 -a "${args[@]}"
	[[ $1 = ib_write_* ]] || perftest "$1" SRD -n 200 -e # perftest has no events for writes
	[[ $1 = *_lat ]] || perftest "$1" SRD -n 200 -q 8
}

# perftest PROGRAM TRANSPORT ARGUMENT...: the last row of the result table must be there
perftest() {
	local program=$1 transport=$2 name="$1 $2${options[1]:+ ${options[1]}}" log port rows row rc=0
	shift 2

	name+=" ${*}"
	log=${name//[ \/]/_}
	port=$(free_port)
	pair "$log" "$port" "" 127.0.0.1 "$perftest_dir/$program" -c "$transport" -d efa_0 -x 0 -F -p "$port" "$@" || rc=$?
	rows=$(awk '/^ *#bytes/ { table = 1; next } table && $1 + 0 > 0' "$logs/$log.client")
	row=$(tail -n 1 <<<"$rows")
	if [ $rc != 0 ] || [ -z "$row" ]; then
		fail "$name" "$(why $rc), ${row:-no result}" "$logs/$log.client" "$logs/$log.server"
		return
	fi
	# shellcheck disable=SC2046,SC2086  # columns
	set -- $(wc -l <<<"$rows") $row
	case $program in
	*_lat) pass "$name" "$1 sizes to $2 bytes: typical $6 us, 99 % ${9} us" ;;
	*) pass "$name" "$1 sizes to $2 bytes: average $5 MB/s" ;;
	esac
}
