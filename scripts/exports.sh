#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# exports.sh BUILD: what the shared libraries export and need must be what is meant. Prints strangers, exits 1.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
build=$1 bad=0

# strangers LIBRARY WHAT ALLOWED: those lines of stdin that ALLOWED does not match. Sanitized builds export more.
strangers() {
	local found

	found=$(grep -vE "^(__odr_asan\.|__odr_asan_gen_|__asan_|__start_|__stop_|(_init|_fini|_edata|_end|__bss_start)\$)" | grep -vxE "$3") || return 0
	printf '%s %s:\n' "$1" "$2"
	while read -r symbol; do echo "  $symbol"; done <<<"$found"
	bad=1
}

exports() { nm -D --defined-only "$build/$1" | awk '{ print $3 }' | sed 's/@.*//'; }
needs() { readelf -d "$build/$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

system='libc\.so\.6|libdl\.so\.2|libpthread\.so\.0|ld-linux.*|lib(asan|ubsan|tsan)\.so\..*'
interposed='open(at)?(64)?|__open(at)?(64)?_2|l?stat|fstat(at)?|f?stat64|fstatat64|__[lf]?xstat(at)?|__f?xstat64|access|ioctl|close(_range|from)?|dup[23]|write|socket|sendmsg'

strangers libnccl-net-efa.so exports 'ncclNetPlugin_v([6-9]|1[0-2])|ncclTunerPlugin_v[3-6]' < <(exports libnccl-net-efa.so)
# The functions of the installed headers: those that a line begins to declare.
declared=$(sed -nE '/^(static|typedef)/d; s/^[a-z].*[ *](srd_[a-z0-9_]+)\(.*/\1/p' include/srd{,_cuda,_topo}.h)
strangers libsrd.so exports "SRD_0|${declared//$'\n'/|}" < <(exports libsrd.so)
comm -23 <(sort <<<"$declared") <(exports libsrd.so | sort) | sed 's/^/libsrd.so lacks /' | grep . && bad=1
strangers libsrd.so versions '.*@@SRD_0' < <(nm -D --defined-only "$build/libsrd.so" | awk '$2 != "A" { print $3 }')
strangers libsrd.so soname 'libsrd\.so\.0' < <(readelf -d "$build/libsrd.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
strangers libsoftefa.so exports "$interposed" < <(exports libsoftefa.so)
for lib in libnccl-net-efa.so libsrd.so libsoftefa.so; do
	[ -n "$(exports $lib)" ] || { echo "$lib exports nothing"; bad=1; }
	strangers $lib needs "$system" < <(needs $lib)
done
for v in 6 7 8 9 10 11 12; do
	exports libnccl-net-efa.so | grep -qx "ncclNetPlugin_v$v" || { echo "libnccl-net-efa.so lacks ncclNetPlugin_v$v"; bad=1; }
done
for v in 3 4 5 6; do
	exports libnccl-net-efa.so | grep -qx "ncclTunerPlugin_v$v" || { echo "libnccl-net-efa.so lacks ncclTunerPlugin_v$v"; bad=1; }
done
exit $bad
