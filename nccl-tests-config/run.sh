#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh: nccl-tests over EFA, on this host or on several, with the environment of the instance type. --help says how.
set -eu
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)

usage() {
	cat <<-'EOF'
	usage: run.sh [options] [--] [TEST [ARGUMENT]...]
	Start TEST of nccl-tests by mpirun, one rank for each GPU (default: all_reduce_perf -b 8 -e 8G -f 2 -g 1 -c 1 -n 20).

	  --hosts A,B,...    on these hosts (default: this one)
	  --hostfile FILE    on those of FILE, one a line
	  --ranks N          ranks on each host (default: the GPUs of this one)
	  --type TYPE        instance type (default: as the firmware says)
	  --plugin FILE      libnccl-net-efa.so, at the same path on every host
	  --tests DIR        where the programs of nccl-tests are (default: PATH)
	  --env KEY=VALUE    for the ranks; wins over the files in env/, as the caller's environment does
	  --elsewhere        this host takes no part: check nothing of it; needs --type
	  --print-env        print the environment, one KEY=VALUE a line, and start nothing
	  --dry-run          print the line of mpirun, and what would be refused, and start nothing
	  --root DIR         look at DIR/sys, DIR/dev and DIR/proc, for tests
	  --help             this text

	Exit code: that of mpirun; 2: refused, with the reasons; 3: bad usage.
	EOF
}

problems=()
refuse() { problems+=("$*"); }
note() { echo "run.sh: note: $*" >&2; }
bad_usage() { echo "run.sh: $*; --help lists the options" >&2; exit 3; }
# line FILE: its first line, or nothing
line() { local text=; [ ! -r "$1" ] || IFS= read -r text <"$1" || true; printf '%s' "$text"; }

# ---- options

root='' type='' hosts='' hostfile='' ranks='' plugin='' tests='' dry='' elsewhere='' print='' given=()
while [ $# -gt 0 ]; do
	case $1 in
	--hosts | --hostfile | --ranks | --type | --plugin | --tests | --env | --root)
		[ $# -ge 2 ] || bad_usage "$1: a value must follow"
		case $1 in
		--hosts) hosts=$2 ;;
		--hostfile) hostfile=$2 ;;
		--ranks) ranks=$2 ;;
		--type) type=$2 ;;
		--plugin) plugin=$2 ;;
		--tests) tests=$2 ;;
		--env) [[ $2 =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || bad_usage "--env $2: must be KEY=VALUE"; given+=("$2") ;;
		--root) root=$2 ;;
		esac
		shift 2
		;;
	--elsewhere) elsewhere=1; shift ;;
	--print-env) print=1; shift ;;
	--dry-run) dry=1; shift ;;
	--help) usage; exit 0 ;;
	--) shift; break ;;
	-*) bad_usage "$1: no such option" ;;
	*) break ;;
	esac
done
[ $# -gt 0 ] || set -- all_reduce_perf -b 8 -e 8G -f 2 -g 1 -c 1 -n 20
[ -z "$hosts" ] || [ -z "$hostfile" ] || bad_usage "--hosts and --hostfile: only one of them"
[ -z "$ranks" ] || [[ $ranks =~ ^[1-9][0-9]{0,2}$ ]] || bad_usage "--ranks $ranks: must be 1 to 999"
[ -z "$hostfile" ] || [ -r "$hostfile" ] || bad_usage "--hostfile $hostfile: cannot be read"
[ -z "$elsewhere" ] || [ -n "$type" ] || bad_usage "--elsewhere: needs --type"

# ---- the instance type

known() { sed -n 's/^\([a-z][^ ]*\) .*/\1/p' "$here/instances" | tr '\n' ' '; }

[ -n "$type" ] || type=$(line "$root/sys/devices/virtual/dmi/id/product_name")
read -r _ type_gpus type_efas type_gbps < <(grep -F -- "$type " "$here/instances" | grep "^${type//./\\.} ") || true
env_file=$here/env/$type.env
[ -e "$env_file" ] || env_file=$here/env/${type%%.*}.env
if [ -z "$type" ]; then
	refuse "the firmware does not say which instance type this is: give --type, one of: $(known)"
elif [ -z "${type_gpus:-}" ] || [ ! -e "$env_file" ]; then
	refuse "instance type $type is not known here: give --type, one of: $(known)"
fi

# ---- what this host has

gpus=0 efas=0 efas_ready=0
count_devices() {
	local dev vendor device class

	for dev in "$root"/sys/bus/pci/devices/*; do
		{ read -r vendor <"$dev/vendor" && read -r device <"$dev/device" && read -r class <"$dev/class"; } 2>/dev/null || continue
		case $vendor:$device:$class in
		0x1d0f:0xefa*)
			efas=$((efas + 1))
			[ ! -d "$dev/infiniband" ] || efas_ready=$((efas_ready + 1))
			;;
		0x10de:*:0x0302* | 0x10de:*:0x0300*) gpus=$((gpus + 1)) ;;
		esac
	done
}

check_devices() {
	if [ $efas = 0 ]; then
		refuse "there is no EFA on the PCI bus: the instance was started without one, or its type has none"
	elif [ $efas_ready = 0 ]; then
		refuse "$efas EFAs are on the PCI bus, but have no RDMA device: is the efa driver loaded (modprobe efa)?"
	elif ! compgen -G "$root/dev/infiniband/uverbs*" >/dev/null; then
		refuse "there are no /dev/infiniband/uverbs*: a container must be given them (--device /dev/infiniband, or the EFA device plugin)"
	elif [ -n "${type_efas:-}" ] && [ $efas_ready -lt "$type_efas" ]; then
		note "$efas_ready of the $type_efas EFAs of a $type are visible: bandwidth will be less"
	fi
	if [ $gpus = 0 ]; then
		refuse "there is no NVIDIA GPU on the PCI bus"
	elif [ -n "${type_gpus:-}" ] && [ $gpus -lt "$type_gpus" ]; then
		note "$gpus of the $type_gpus GPUs of a $type are visible"
	fi
	if [ -n "$ranks" ] && [ $gpus -gt 0 ] && [ "$ranks" -gt $gpus ]; then
		refuse "--ranks $ranks: this host has $gpus GPUs, and NCCL takes one rank on each"
	fi
}

# CAP_IPC_LOCK, bit 14, lifts the limit.
check_memlock() {
	local limit caps

	limit=$(ulimit -l)
	caps=$(sed -n 's/^CapEff:[[:space:]]*//p' "$root/proc/self/status" 2>/dev/null)
	[ "$limit" != unlimited ] && (((0x${caps:-0} >> 14 & 1) == 0)) || return 0
	if [ "$limit" -lt 1048576 ]; then
		refuse "locked memory is limited to $limit KiB (ulimit -l), buffers need 1 GiB and more: set memlock to unlimited in /etc/security/limits.conf, --ulimit memlock=-1 for docker, LimitMEMLOCK=infinity for slurmd"
	else
		note "locked memory is limited to $limit KiB (ulimit -l): many ranks may need more"
	fi
}

# ---- programs and libraries

# in_loader_path NAME: a file that the linker would find
in_loader_path() {
	local dir dirs

	IFS=: read -ra dirs <<<"${LD_LIBRARY_PATH:-}"
	for dir in "${dirs[@]}"; do
		[ ! -e "$dir/$1" ] || { echo "$dir/$1"; return; }
	done
	PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | awk -v n="$1" '$1 == n { print $NF; exit }'
}

find_plugin() {
	local name=libnccl-net-efa.so

	[ -n "$plugin" ] || [ ! -e "$here/../build/$name" ] || plugin=$(cd "$here/../build" && pwd)/$name
	[ -n "$plugin" ] || plugin=$(in_loader_path $name)
	if [ -z "$plugin" ]; then
		refuse "$name is not found: build it (make), or say where it is (--plugin FILE)"
	elif [ ! -r "$plugin" ]; then
		refuse "--plugin $plugin: cannot be read"
	elif [ "${plugin##*/}" != $name ]; then
		refuse "--plugin $plugin: must be named $name, NCCL looks for that"
	elif ! grep -q ncclNetPlugin_v "$plugin"; then
		refuse "--plugin $plugin: has no table for NCCL (ncclNetPlugin_vN)"
	fi
}

# The program decides which NCCL it takes: one that is linked to it, or what the linker finds.
find_test() {
	local needs

	program=${tests:+$tests/}$1
	if ! command -v "$program" >/dev/null; then
		refuse "$program is not found: build nccl-tests with MPI=1, and say where it is (--tests DIR)"
		return
	fi
	needs=$(LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-} ldd "$(command -v "$program")" 2>&1) || true
	if [[ $needs =~ libnccl\.so[^[:space:]]*\ =\>\ not\ found ]]; then
		refuse "NCCL is not found: $program needs ${BASH_REMATCH[0]%% *}; put its folder into LD_LIBRARY_PATH"
	elif [[ $needs =~ ([^[:space:]]+)\ =\>\ not\ found ]]; then
		refuse "$program needs ${BASH_REMATCH[1]}, which is not found; put its folder into LD_LIBRARY_PATH"
	fi
}

# ---- the environment: files, then the caller's, then --env

settings=() # KEY=VALUE
set_one() {
	local i

	for i in "${!settings[@]}"; do
		[ "${settings[i]%%=*}" != "${1%%=*}" ] || { settings[i]=$1; return; }
	done
	settings+=("$1")
}

collect_env() {
	local file text key

	for file in "$here/env/common.env" "$env_file"; do
		[ -r "$file" ] || continue
		while IFS= read -r text; do
			[[ $text =~ ^[A-Z] ]] || continue
			key=${text%%=*}
			set_one "$key=${!key-${text#*=}}"
		done <"$file"
	done
	for key in $(compgen -e NCCL_); do
		set_one "$key=${!key}"
	done
	[ -z "$plugin" ] || set_one "LD_LIBRARY_PATH=$(dirname "$plugin")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
	for text in "${given[@]}"; do
		set_one "$text"
	done
}

# ---- the line

# MPI itself stays off EFA, which UCX would use as well, and off interfaces that other hosts do not reach.
build_line() {
	local nhosts=1 s

	[ -z "$hosts" ] || nhosts=$(tr ',' '\n' <<<"$hosts" | grep -c .)
	[ -z "$hostfile" ] || nhosts=$(grep -cvE '^[[:space:]]*(#|$)' "$hostfile") || refuse "--hostfile $hostfile: names no host"
	[ -n "$ranks" ] || ranks=$gpus
	[ -z "$elsewhere" ] || [ "$ranks" != 0 ] || ranks=${type_gpus:-0}
	mpi=(mpirun -np $((nhosts * ranks)) -N "$ranks" --bind-to none)
	[ -z "$hosts" ] || mpi+=(--host "$(sed "s/,/:$ranks,/g; s/\$/:$ranks/" <<<"$hosts")")
	[ -z "$hostfile" ] || mpi+=(--hostfile "$hostfile")
	mpi+=(--mca pml '^cm,ucx' --mca btl 'tcp,self' --mca btl_tcp_if_exclude 'lo,docker0')
	for s in "${settings[@]}"; do
		mpi+=(-x "$s")
	done
	mpi+=("$program" "$@")
}

program=$1
count_devices
if [ -z "$elsewhere" ]; then
	check_devices
	check_memlock
	[ -n "$print" ] || find_test "$1"
	find_plugin
	[ -n "$print" ] || command -v mpirun >/dev/null || refuse "mpirun is not found: install Open MPI, and put it into PATH"
else
	program=${tests:+$tests/}$1
fi
shift
collect_env
build_line "$@"
[ -z "$dry" ] || printf '%q ' "${mpi[@]}"
[ -z "$dry" ] || echo
for p in "${problems[@]}"; do
	echo "run.sh: refused: $p" >&2
done
[ ${#problems[@]} = 0 ] || exit 2
[ -z "$dry" ] || exit 0
if [ -n "$print" ]; then
	printf '%s\n' "${settings[@]}"
	exit 0
fi
note "$type, $efas_ready EFAs${type_gbps:+ of $type_gbps Gb/s}, $ranks ranks on each host, plugin ${plugin:-as the ranks find it}"
exec "${mpi[@]}"
