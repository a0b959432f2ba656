#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# inventory.sh [--root DIR]: versions, limits, and where EFAs and GPUs are, as text for a report of a fault. Changes nothing, needs no
# right. --root: look at DIR/sys, DIR/dev and DIR/proc, for tests. What is not there is said to be so.
set -eu
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
root=
case ${1:-} in
--root) root=${2:?--root: a folder must follow} ;;
'') ;;
*) echo "usage: inventory.sh [--root DIR]" >&2; exit 3 ;;
esac

# line FILE: its first line, or "-"
line() { local text=; [ ! -r "$1" ] || IFS= read -r text <"$1" || true; printf '%s' "${text:--}"; }
say() { printf '%-14s %s\n' "$1" "$2"; }

# ---- the machine, its drivers and its limits

say machine "$(line "$root/sys/devices/virtual/dmi/id/product_name")"
say kernel "$(line "$root/proc/sys/kernel/osrelease")"
say "efa driver" "$(line "$root/sys/module/efa/version")"
say "nvidia driver" "$(line "$root/sys/module/nvidia/version")"
for module in efa_nv_peermem nvidia_peermem; do
	[ ! -d "$root/sys/module/$module" ] || say "peer memory" $module
done
say memlock "$(ulimit -l) KiB"
say "huge pages" "$(sed -n 's/^HugePages_Total: *//p' "$root/proc/meminfo" 2>/dev/null || true)"
say "device nodes" "$(compgen -G "$root/dev/infiniband/uverbs*" | wc -l) in /dev/infiniband"

# ---- libraries: the file behind the name has the version in it

for lib in libibverbs.so.1 libefa.so.1 libnccl.so.2 libnccl-net-efa.so libcuda.so.1; do
	path=
	IFS=: read -ra dirs <<<"${LD_LIBRARY_PATH:-}"
	for dir in "${dirs[@]}" "$here/../build"; do
		[ -n "$path" ] || [ ! -e "$dir/$lib" ] || path=$dir/$lib
	done
	[ -n "$path" ] || path=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | awk -v n=$lib '$1 == n { print $NF; exit }')
	say $lib "$([ -n "$path" ] && readlink -f "$path" || echo "not found")"
done

# ---- EFAs and GPUs, in the order of their places: those of one node and one switch follow on each other

# bridges DEVICE: the part of its path that leads to it, for example pci0000:44/0000:44:00.0/0000:45:00.0
bridges() { sed 's|.*/devices/||; s|/[^/]*$||' <<<"$1"; }

echo
printf '%-5s %-14s %-13s %-10s %4s  %-16s %s\n' what name address device node link under
for dev in "$root"/sys/bus/pci/devices/*; do
	case $(line "$dev/vendor"):$(line "$dev/device"):$(line "$dev/class") in
	0x1d0f:0xefa*) what=EFA name=$(basename "$(compgen -G "$dev/infiniband/*" || echo "no RDMA device")") ;;
	0x10de:*:0x0302* | 0x10de:*:0x0300*) what=GPU name=- ;;
	*) continue ;;
	esac
	node=$(line "$dev/numa_node") under=$(bridges "$(readlink -f "$dev")")
	printf '%s %s %s\t' "$node" "$under" "${dev##*/}"
	printf '%-5s %-14s %-13s %-10s %4s  %-16s %s\n' "$what" "$name" "${dev##*/}" "$(line "$dev/device")" "$node" \
		"$(line "$dev/max_link_speed" | sed 's/ PCIe//') x$(line "$dev/max_link_width")" "$under"
done | sort | cut -f2-

# ---- what the devices themselves say

info=$(command -v srd-info || true)
[ -n "$info" ] || [ ! -x "$here/../build/srd-info" ] || info=$here/../build/srd-info
echo
if [ -n "$root" ] || [ -z "$info" ]; then
	echo "srd-info: $([ -n "$root" ] && echo "not asked" || echo "not found")"
else
	"$info" || true
fi
env | grep -E '^(NCCL|SRD)_' | sort || true
