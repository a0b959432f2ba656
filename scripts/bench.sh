#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench.sh: the figures of this build on this machine; never a gate. BUILD=DIR is where things were built;
# PLUGIN=FILE is another net plugin, with table v11, which is then measured in place of ours, and libsrd is not.
# Instructions are exact (callgrind, rdma-core included); times are those of softefa, and of a machine that
# may have other work: each is printed with its median and 99th percentile, or as the best of three.
set -eu
export LC_ALL=C

cd "$(dirname "$0")/.."
build=${BUILD:-build}
plugin=${PLUGIN:-$build/libnccl-net-efa.so}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

on_softefa() { "$build/softefa" --domain "bench-$$" --devices "$1" -- "${@:2}"; }

# Instructions with a lock prefix, and exchanges with memory, which lock without one: "object address" each.
locking() {
	sed -n 's/^c\?ob=//p' "$dir"/callgrind.* | sort -u | while read -r object; do
		[ -r "$object" ] || continue
		objdump -d --no-show-raw-insn "$object" | awk -v object="$object" '
			/^ *[0-9a-f]+:.*(\tlock |\txchg .*\()/ { sub(/:.*/, ""); print object, "0x" $1 }'
	done
}

# What happened in the plugin for each function counted_*: calls, instructions and system calls; what a message takes of
# its sender and of its receiver; in all of them together, the locking instructions that ran and the calls of the
# allocator. (Arcs that cost nothing are of uncounted calls.)
tally() {
	awk '
	FILENAME == ARGV[1] { locks[$1, $2]; next }
	/^ob=/ { object = substr($0, 4) }
	/^fn=/ { fn = substr($0, 4) }
	/^cfn=/ { callee = substr($0, 5) }
	/^calls=/ { arc = substr($1, 7); next }
	/^0x/ {
		if (arc && $3 && fn ~ /^counted_/) {
			calls[fn] += arc; instructions[fn] += $3; syscalls[fn] += $4
		}
		if (arc && $3 && callee ~ /^(malloc|calloc|realloc|free|posix_memalign|aligned_alloc|mmap|munmap)$/)
			allocs += arc
		if (!arc && (object, $1) in locks) locked += $3
		arc = 0
	}
	function cost(f) { f = "counted_" f; return calls[f] ? instructions[f] / calls[f] : 0 }
	END {
		for (f in calls) {
			name = substr(f, 9); gsub("_", " ", name); all += calls[f]; sys += syscalls[f]
			printf "  %-28s %6d %14.1f\n", name, calls[f], instructions[f] / calls[f] | "sort"
		}
		close("sort")
		if (!all) exit 1
		printf "  %-28s %6s %14.1f\n", "isend and its test", "", cost("isend") + cost("completing_test_of_isend")
		printf "  %-28s %6s %14.1f\n", "irecv and its test", "", cost("irecv") + cost("completing_test_of_irecv")
		printf "  in these %d calls: %d system calls, %d locking instructions, %d calls of the allocator\n",
			all, sys, locked, allocs
	}' "$1" "$dir"/callgrind.*
}

# instructions BYTES RAILS [early]; sends wait for their receives, as net_calls plans it
instructions() {
	rm -f "$dir"/callgrind.*
	NCCL_EFA_EAGER_MAX=0 NCCL_EFA_RAILS=$2 on_softefa "$2" valgrind -q --tool=callgrind --trace-children=yes --fair-sched=yes \
		--toggle-collect='counted_*' --collect-systime=yes --dump-instr=yes --compress-strings=no --compress-pos=no \
		--callgrind-out-file="$dir/callgrind.%p" "$build/bench/net_calls" "$plugin" ${3:+"$3"} "$1"
	locking >"$dir/locks"
	printf '\n%-30s %6s %14s\n' "Calls, $1 B, rails: $2${3:+, $3}" calls instructions
	tally "$dir/locks"
}

connections() {
	local rails

	printf '\n%-30s %10s %10s\n' "A connection, its two ends" "us" "bytes"
	for rails in 1 4; do
		NCCL_EFA_RAILS=$rails on_softefa "$rails" "$build/bench/net_calls" "$plugin" connect 1000 |
			awk -v rails=$rails '{ printf "  %-28s %10s %10s\n", "one of 1000, rails: " rails, $1, $2 }'
	done
}

# Instructions for each work request and completion, in batches of 1 and 16: the same loop on raw verbs, through
# libsrd, and on direct CQs; the last two divided by the first.
srd_instructions() {
	local op rounds=10

	printf '\n%-30s %8s %8s %8s %8s %8s\n' "libsrd, instructions for each" raw libsrd "/ raw" direct "/ raw"
	for op in write write_imm send; do
		rm -f "$dir"/callgrind.*
		# All symbols are bound before anything is counted.
		LD_BIND_NOW=1 on_softefa 1 valgrind -q --tool=callgrind --fair-sched=yes --toggle-collect='counted_*' \
			--compress-strings=no --compress-pos=no --callgrind-out-file="$dir/callgrind.%p" \
			"$build/bench/srd_calls" $op $rounds >/dev/null
		# 3 more rounds go before.
		awk -v op=$op -v rounds=$((rounds + 3)) '
		/^fn=/ { split(substr($0, 4), part, "_"); mine = part[1] == "counted" }
		mine && /^[0-9]/ { cost[part[2], part[3], part[4]] += $2 }
		END {
			n = split("post sent recv received", calls, " ")
			for (i = 1; i <= n; i++)
				for (batch = 1; batch <= 16; batch *= 16) {
					raw = cost["raw", calls[i], batch] / rounds / batch
					srd = cost["srd", calls[i], batch] / rounds / batch
					direct = cost["direct", calls[i], batch] / rounds / batch
					if (raw)
						printf "  %-28s %8.1f %8.1f %8.2f %8.1f %8.2f\n", op ", " calls[i] " x " batch,
							raw, srd, srd / raw, direct, direct / raw
				}
		}' "$dir"/callgrind.*
	done
}

# The same calls in time: the shortest of 13. What callgrind counts of an interpreter would say little.
call_times() {
	local python=build/deps/python-efa/bin/python libs=build/deps/rdma-core/lib

	[ -x $python ] || return 0
	printf '\n%-30s %8s %8s %8s %8s %8s\n' "Writes, ns for each" raw libsrd direct Python "/ libsrd"
	{
		on_softefa 1 "$build/bench/srd_calls" write
		on_softefa 1 env LD_LIBRARY_PATH=$libs $python tests/bench/python_rate.py calls
	} | awk '
		{ ns[$1, $2, $3] = $4 }
		END {
			n = split("post sent", calls, " ")
			for (i = 1; i <= n; i++)
				for (batch = 1; batch <= 16; batch *= 16)
					printf "  %-28s %8d %8d %8d %8d %8.1f\n", calls[i] " x " batch,
						ns["raw", calls[i], batch], ns["srd", calls[i], batch], ns["direct", calls[i], batch],
						ns["python", calls[i], batch], ns["python", calls[i], batch] / ns["srd", calls[i], batch]
		}'
}

# One process that is its own peer, through libsrd and through the Python package efa in turn, so that other work on
# the machine meets both; the best of 10, for what that work leaves varies.
rates() {
	local python=build/deps/python-efa/bin/python libs=build/deps/rdma-core/lib i

	printf '\n%-30s %10s %10s %8s\n' "Messages, or bytes" libsrd "Python" "ratio"
	[ -x $python ] || { echo "  the Python package efa is not there: scripts/deps.sh peers"; return 0; }
	for i in {1..10}; do
		on_softefa 1 "$build/bench/softefa_traffic" 1 100 | sed 's/^/libsrd /'
		on_softefa 1 env LD_LIBRARY_PATH=$libs $python tests/bench/python_rate.py 100 | sed 's/^/python /'
	done | awk '
		{ key = $2 " " $3; seen[key]; if ($5 > best[$1, key]) best[$1, key] = $5 + 0 }
		END {
			for (key in seen) {
				split(key, part, " ")
				a = best["libsrd", key]; b = best["python", key]
				scale = part[2] < 65536 ? 1e-3 : part[2] / 1e6
				printf "%s %d   %-28s %10.0f %10.0f %8.2f\n", part[1], part[2],
					part[1] ", " part[2] " B, " (part[2] < 65536 ? "thousand/s" : "MB/s"), a * scale, b * scale, a / b
			}
		}' | sort -k 1,1 -k 2,2n | cut -d ' ' -f 3-
}

# column JSON NAME: a figure of its only row
column() { sed -n "s/.*\"$2\": \([0-9.e+-]*\).*/\1/p" "$1"; }

pingpong() {
	local i

	printf '\n%-30s %10s %10s\n' "8 B, half a round trip" "median us" "p99 us"
	for i in 1 2 3; do
		on_softefa 1 "$build/netbench" --plugin "$plugin" --pattern pingpong --min 8 --max 8 --iters 20000 \
			--json "$dir/json" >/dev/null
		printf '  %-28s %10s %10s\n' "netbench, run $i" "$(column "$dir/json" p50_us)" "$(column "$dir/json" p99_us)"
	done
}

ring() {
	local size best

	printf '\n%-30s %10s\n' "Ring all-reduce, 2 ranks" "busbw GB/s"
	for size in 2M 64M 256M; do
		best=$(for _ in 1 2 3; do
			on_softefa 4 "$build/netbench" --plugin "$plugin" --pattern ring --min $size --max $size --iters 10 \
				--json "$dir/json" >/dev/null
			column "$dir/json" busbw_GBps
		done | sort -g | tail -n 1)
		printf '  %-28s %10s\n' "$size" "$best"
	done
}

printf '# %s, %s cores, Linux %s, load %s\n' "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
	"$(uname -r)" "$(cut -d ' ' -f 1 /proc/loadavg)"
printf '# commit %s, %s\n' "$(git describe --always --dirty 2>/dev/null || echo unknown)" "$(date -u +%F)"
[ -n "${PLUGIN:-}" ] || { srd_instructions; call_times; rates; }
instructions 8 1
instructions 8 1 early
instructions 65536 1
instructions 65536 4
instructions 1048576 4
connections
printf '\n%-30s %10s\n' "A process with an idle comm" "% of core"
printf '  %-28s %10s\n' "over 10 s" "$(on_softefa 1 "$build/bench/net_calls" "$plugin" idle 10)"
pingpong
ring
