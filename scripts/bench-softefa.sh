#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench-softefa.sh: what softefa makes of this machine, next to what the machine and another software path can do; never a gate.
# Everything is measured ROUNDS times (default 5), one after the other and then all again, so that other work on the machine
# meets all of it; each figure is the median. BUILD=DIR is where things were built.
set -eu
export LC_ALL=C

cd "$(dirname "$0")/.."
build=${BUILD:-build}
rounds=${ROUNDS:-5}
limit=15 # seconds for one run of another project's program
sizes=(8 4096 65536 1048576)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

on_softefa() { "$build/softefa" --domain "bench-$$" --devices 1 -- "$@"; }
listening() { grep -qi ": [0-9A-F]*:$(printf %04X "$1") [0-9A-F]*:0000 0A " /proc/net/tcp /proc/net/tcp6; }

# ---- measuring: lines "path operation bytes us/round-trip messages/s", in $dir/rows

# fabric PROVIDER ENDPOINT: fi_pingpong says the time of one way, which is also that of one message: there is one at a time
fabric() {
	local size port tries out server

	for size in "${sizes[@]}"; do
		while port=$((RANDOM % 20000 + 10000)); listening $port; do :; done
		out=$dir/pingpong.$1.$size
		[ ! -e "$out.failed" ] || continue
		timeout -k 1 $limit fi_pingpong -p "$1" -e "$2" -I 200 -S "$size" -B "$port" >"$out.server" 2>&1 &
		server=$!
		for ((tries = 0; tries < 50; tries++)); do
			if listening $port; then break; fi
			sleep 0.1
		done
		timeout -k 1 $limit fi_pingpong -p "$1" -e "$2" -I 200 -S "$size" -P $port 127.0.0.1 >"$out" 2>&1 || touch "$out.failed"
		[ ! -e "$out.failed" ] || kill $server 2>/dev/null || true
		wait $server || touch "$out.failed"
		awk -v path="$1" -v size="$size" 'NF == 8 && $7 + 0 > 0 {
			printf "%s send %d %.2f %.0f\n", path, size, 2 * $7, 1e6 / $7 }' "$out"
	done
}

round() {
	local n

	"$build/bench/machine_limits" | sed 's/^/machine /'
	for n in 1 2 4; do
		on_softefa "$build/bench/softefa_traffic" $n | sed "s/^/softefa-$n /"
	done
	if command -v fi_pingpong >/dev/null; then
		fabric tcp msg
		fabric shm rdm
	fi
}

# ---- reporting

# table TITLE FIGURE OF: rows of medians with the ratio to those of "OF": field 4 (us) or 5 (per second, which is scaled)
report() {
	awk -v rounds="$rounds" -v sizes="${sizes[*]}" '
	function median(list,   a, n, i, j, t) {
		n = split(list, a, " ")
		for (i = 2; i <= n; i++)
			for (j = i; j > 1 && a[j - 1] + 0 > a[j] + 0; j--) { t = a[j]; a[j] = a[j - 1]; a[j - 1] = t }
		return n ? (n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2) : ""
	}
	function figure(v) { return v == "" ? "-" : v >= 1000 ? sprintf("%.0f", v) : v >= 100 ? sprintf("%.0f", v) : sprintf("%.1f", v) }
	# row LABEL PATH OPERATION KIND: KIND 0: us, 1: thousands a second, 2: MB/s
	function value(path, op, size, kind,   m) {
		if (kind == 0)
			return median(us[path, op, size])
		m = median(per_s[path, op, size])
		return m == "" || m == "-" ? "" : kind == 1 ? m / 1e3 : m * size / 1e6
	}
	function row(label, path, op, kind,   i, line, any, v) {
		line = sprintf("  %-34s", label)
		for (i = 1; i <= nsizes; i++) {
			v = value(path, op, size[i], kind)
			any = any || v != ""
			line = line sprintf(" %10s", figure(v))
		}
		if (any) print line
	}
	# as row(), of A divided by B; B may have one figure for all sizes
	function ratio(label, path, op, path2, op2, kind, fixed,   i, line, a, b, any) {
		line = sprintf("  %-34s", label)
		for (i = 1; i <= nsizes; i++) {
			a = value(path, op, size[i], kind); b = value(path2, op2, fixed ? 0 : size[i], kind)
			any = any || (a != "" && b != "")
			line = line sprintf(" %10s", a == "" || b == "" || !b ? "-" : sprintf("%.2f", a / b))
		}
		if (any) print line
	}
	function head(text,   i, line) {
		line = sprintf("\n%-36s", text)
		for (i = 1; i <= nsizes; i++)
			line = line sprintf(" %10s", size[i] < 1024 ? size[i] " B" : size[i] < 1048576 ? size[i] / 1024 " KiB" : size[i] / 1048576 " MiB")
		print line
	}
	function everyone(kind,   n, o) {
		for (o = 1; o <= 3; o++)
			for (n = 1; n <= 4; n *= 2)
				row("softefa " ops[o] ", " n (n == 1 ? " process" : " processes"), "softefa-" n, ops[o], kind)
	}
	{
		if ($4 != "-")
			us[$1, $2, $3] = us[$1, $2, $3] " " $4
		if ($5 != "-")
			per_s[$1, $2, $3] = per_s[$1, $2, $3] " " $5
	}
	END {
		nsizes = split(sizes, size, " ")
		split("send write read", ops, " ")
		head("Round trip, us")
		everyone(0)
		row("machine: copy to shared memory, flag", "machine", "copy", 0)
		printf "  %-34s %10s\n", "machine: futex wake", figure(median(us["machine", "futex", 0]))
		printf "  %-34s %10s\n", "machine: eventfd", figure(median(us["machine", "eventfd", 0]))
		row("libfabric tcp, fi_pingpong", "tcp", "send", 0)
		row("libfabric shm, fi_pingpong", "shm", "send", 0)
		head("The same, divided")
		ratio("write, 2 processes / copy and flag", "softefa-2", "write", "machine", "copy", 0)
		ratio("write, 2 processes / futex wake", "softefa-2", "write", "machine", "futex", 0, 1)
		ratio("write, 2 processes / eventfd", "softefa-2", "write", "machine", "eventfd", 0, 1)
		ratio("send, 2 processes / libfabric tcp", "softefa-2", "send", "tcp", "send", 0)
		ratio("write, 2 processes / libfabric tcp", "softefa-2", "write", "tcp", "send", 0)
		ratio("send, 2 processes / libfabric shm", "softefa-2", "send", "shm", "send", 0)
		ratio("write, 2 processes / libfabric shm", "softefa-2", "write", "shm", "send", 0)
		head("Messages, thousands a second")
		everyone(1)
		row("machine: one copy, one process", "machine", "copy", 1)
		row("machine: one process_vm_readv()", "machine", "pull", 1)
		head("Bandwidth, MB/s")
		everyone(2)
		row("machine: one copy, one process", "machine", "copy", 2)
		row("machine: one process_vm_readv()", "machine", "pull", 2)
		row("libfabric tcp, one at a time", "tcp", "send", 2)
		row("libfabric shm, one at a time", "shm", "send", 2)
		head("The same, divided")
		ratio("write, 2 processes / one copy", "softefa-2", "write", "machine", "copy", 2)
		ratio("read, 2 processes / one copy", "softefa-2", "read", "machine", "copy", 2)
		ratio("write, 2 / process_vm_readv()", "softefa-2", "write", "machine", "pull", 2)
		ratio("write, 1 process / one copy", "softefa-1", "write", "machine", "copy", 2)
		ratio("write, 2 processes / libfabric tcp", "softefa-2", "write", "tcp", "send", 2)
		ratio("write, 2 processes / libfabric shm", "softefa-2", "write", "shm", "send", 2)
	}' "$dir/rows"
}

# ---- instructions of the device thread

# stages MESSAGES: "stage instructions calls" of what the device thread calls in a round, in the newest callgrind file
stages() {
	awk '
	/^cfn=/ { callee = substr($0, 5); sub(/^.*\)? /, "", callee) }
	/^calls=/ { calls = substr($1, 7); next }
	calls { if (callee ~ /^se_(link_receive|link_flush|requester_poll|responder_poll|cq_poll_doorbells)$/) {
			n[callee] += calls; cost[callee] += $2; sys[callee] += $3 }
		calls = 0 }
	END { for (s in n) print s, cost[s], n[s], sys[s] }' "$dir"/callgrind.*
}

# instructions OP BYTES BATCH: of a round that finds nothing, what is above that is the messages
instructions() {
	local messages=$((64 * $3)) count

	for count in 0 $messages; do
		rm -f "$dir"/callgrind.*
		"$build/softefa" --domain "bench-$$" --devices 1 --set spin_us=0,reorder=0 -- \
			valgrind -q --tool=callgrind --trace-children=yes --fair-sched=yes --collect-systime=yes \
			--compress-strings=no --compress-pos=no --callgrind-out-file="$dir/callgrind.%p" \
			"$build/bench/softefa_traffic" count "$1" "$2" "$count" "$3"
		stages >"$dir/stages.$count"
	done
	awk -v label="$1, $2 B, $3 to a doorbell" -v messages=$messages '
	FNR == NR { idle[$1] = $3 ? $2 / $3 : 0; next }
	{ each[$1] = ($2 - idle[$1] * $3) / messages; all += each[$1]; sys += $4 / messages }
	END { printf "  %-34s %10.0f %10.0f %10.0f %10.0f %10.2f\n", label, each["se_requester_poll"],
		each["se_link_receive"] + each["se_link_flush"], each["se_responder_poll"], all, sys }' "$dir/stages.0" "$dir/stages.$messages"
}

printf '# %s, %s cores, Linux %s, load %s\n' "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
	"$(uname -r)" "$(cut -d ' ' -f 1 /proc/loadavg)"
printf '# commit %s, %s, %s rounds\n' "$(git describe --always --dirty 2>/dev/null || echo unknown)" "$(date -u +%F)" "$rounds"
for program in fi_pingpong fi_rdm_bw fi_msg_bw; do
	command -v $program >/dev/null || echo "# $program is not installed (not in libfabric-bin): no figures of it"
done
for ((i = 0; i < rounds; i++)); do round; done >"$dir/rows"
for failed in "$dir"/pingpong.*.failed; do
	[ ! -e "$failed" ] || echo "# fi_pingpong $(basename "$failed" .failed | cut -d . -f 2-) failed or took longer than $limit s: left out"
done
report
printf '\n%-36s %10s %10s %10s %10s %10s\n' "Instructions for a message" requester messages responder all syscalls
for op in send write read; do instructions $op 8 1; done
for op in send write read; do instructions $op 8 16; done
instructions write 65536 1
echo "  (valgrind lets each look at the clock be a system call; there are 2 to 4 for a message)"
