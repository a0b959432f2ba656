# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# libfabric's efa provider: the distribution's, and the newest with its own tests. Part of peers.sh.
# shellcheck disable=SC2034,SC2154  # options, logs, deps: peers.sh's

# Between two processes, data checked.
peer_pingpong_distro() {
	fi_pingpong_ep /usr/bin rdm
	fi_pingpong_ep /usr/bin dgram
}

# fi_pingpong_ep DIR ENDPOINT
fi_pingpong_ep() {
	local port

	port=$(free_port)
	fi_pair "fi_pingpong -e $2" "$port" "-B $port" "-P $port 127.0.0.1" "$1/fi_pingpong" -p efa -e "$2" -c -I 100
}

# fi_pair NAME PORT SERVER_ARGS CLIENT_ARGS COMMAND...: must end with the last row of a result table
fi_pair() {
	local name=$1 log=${1// /_} row rc=0
	shift

	pair "$log" "$@" || rc=$?
	row=$(awk '$1 == "bytes" { table = 1; next } table && NF >= 7 { row = $0 } END { print row }' "$logs/$log.client")
	# shellcheck disable=SC2086  # columns
	set -- $row
	if [ $rc = 0 ] && [ $# -ge 7 ]; then
		pass "$name" "$1 bytes: ${*: -2:1} us, ${*: -3:1} MB/s"
	else
		fail "$name" "$(why $rc), ${row:-no result}" "$logs/$log.client" "$logs/$log.server"
	fi
}

# What is not run of libfabric's own suite, by pytest's -k: whole files and names that stand for hundreds of
# combinations of the same program (ranges of sizes, depths of queues, iterations), what moves gigabytes, and what
# needs hw_counters of packets, which softefa does not have: datagrams are run apart. And whether memory survives a fork
# (fork_huge_page), the suite asks the machine's kernel, in whose place softefa answers its programs alone.
fabtests_not='range or small_tx_rx or use_fi_more or 1G or standard or mr_exhaustion or shared_ctx or fork_support
	or fork_huge_page or dgram or device_selection or 1024-1048576 or 2048-1048576'

# Its tests of all kinds of messages, on both fabrics, between two processes that take each other for other hosts.
peer_fabtests() {
	local bin=$deps/libfabric/bin log=$logs/fabtests port rc=0

	options=(--profile efa2)
	port=$(free_port)
	fi_pair "fi_dgram_pingpong -k" "$port" "-E=$port" "-E=$port 127.0.0.1" "$bin/fi_dgram_pingpong" -k -p efa -I 100
	fi_pingpong_ep "$bin" rdm
	fi_pingpong_ep "$bin" dgram

	# They reach the two hosts by ssh.
	stand_in ssh <<-'EOF'
		#!/bin/bash
		while [[ ${1:-} = -* ]]; do
			[ "$1" != -o ] || shift
			shift
		done
		shift
		exec bash -c "$*"
	EOF
	limit=1200 run "$log" env -C "$deps/libfabric-src/fabtests/pytest" PATH="$logs/bin:$PATH" PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -m pytest -p no:cacheprovider -n 3 -rsfE --tb=short --provider efa --strict-fabtests-mode \
		--server-id 127.0.0.1 --client-id 127.0.0.2 --oob-address-exchange --binpath "$bin" --timeout 200 \
		-m 'not cuda_memory and not neuron_memory' -k "not (${fabtests_not//$'\n'/})" efa || rc=$?
	pytest_result fabtests "$log" $rc
}

# pytest_result NAME LOG RC
pytest_result() {
	local counts

	# Of the closing line: "= 1 failed, 96 passed, 1 skipped in 2.12s =". What is not known counts as failed.
	counts=$(sed -n 's/^=* *\([0-9].*\) in [0-9.]*s.*/\1/p' "$2" | tail -n 1 | tr , '\n' | awk '
		/ passed/ { p = $1; next } / skipped/ { s = $1; next } / (deselected|warnings?)/ { next } NF { f += $1 }
		END { print p + 0, f + 0, s + 0 }')
	# shellcheck disable=SC2086  # three numbers
	suite "$1" "$3" $counts "$2"
	grep -E '^(FAILED|ERROR) ' "$2" | cut -c 1-150 | sed 's/^/      /' || true
	awk 'sub(/^SKIPPED \[/, "") { n = $1 + 0; sub(/^[^ ]* [^ ]*:[0-9]*: /, ""); sum[$0] += n }
		END { for (r in sum) printf "%7d %s\n", sum[r], r }' "$2" | sort -rn | sed 's/^ */      skipped /'
}
