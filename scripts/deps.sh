#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# deps.sh [peers|nccl]: everything the build and the tests need; with a name also what check-NAME needs.
# Packages come from apt. rdma-core >= 59 is the system's where that is new enough, else libibverbs and
# libefa are built into build/deps/rdma-core from the distribution's newer source package.
# RDMA_CORE=PREFIX names another rdma-core, which is then only checked. Done work is not repeated.
set -eu
export LC_ALL=C

need=59   # oldest usable rdma-core: efadv_query_qp_wqs and friends
recipe=1  # raise it when the way rdma-core is built changes
root=$(cd "$(dirname "$0")/.." && pwd)
deps=$root/build/deps
log=$deps/log
src=$deps/rdma-core-src
obj=$deps/rdma-core-obj
given=${RDMA_CORE:-}
[ "$(readlink -m "$given")" != "$deps/rdma-core" ] || given=

packages=(gcc g++ libc6-dev make pkgconf cmake ninja-build python3 python3-yaml libnl-3-dev libnl-route-3-dev
	libcriterion-dev clang libclang-rt-dev clang-format shellcheck mandoc valgrind strace iproute2 perftest)

say() { echo "deps: $*"; }
die() { echo "deps: $*" >&2; exit 1; }
# die_log WHAT: the failed command's last words are at the end of the log.
die_log() {
	tail -n 15 "$log" | sed 's/^/    /' >&2
	die "$1 failed; the whole log is in $log"
}
have() { command -v "$1" >/dev/null; }
no_network() {
	grep -qE 'Could not resolve|Temporary failure|[Uu]nable to connect|Could not connect|Network is unreachable|Cannot initiate' "$log"
}
# no_index: pip could not reach the package index
no_index() { no_network || grep -qE 'NewConnectionError|ConnectTimeout|Max retries exceeded' "$log"; }

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# ---- packages

# missing PACKAGE...: those that are not installed, one a line
missing() {
	comm -23 <(printf '%s\n' "$@" | sort) <(
		dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
			sed -n 's/^installed //p' | sort)
}

install_packages() {
	local list nosuch=() p

	if ! have dpkg-query || ! have apt-get; then
		[ -z "$given" ] || { say "no apt here: not checked: $*"; return 0; }
		die "no apt here: install by hand what answers to: $*; then set RDMA_CORE=PREFIX (rdma-core >= $need)"
	fi
	mapfile -t list < <(missing "$@")
	[ ${#list[@]} -gt 0 ] || return 0
	[ "$(id -u)" = 0 ] || have sudo || die "need root or sudo to install: ${list[*]}"

	say "installing ${list[*]}"
	# Not fatal: one broken source of the user's need not concern us.
	as_root apt-get update -q >"$log" 2>&1 || true
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
		-o DPkg::Lock::Timeout=300 "${list[@]}" >>"$log" 2>&1 && return 0

	! grep -qE 'sudo: .*(password|terminal)' "$log" || die "sudo refused; as root install: ${list[*]}"
	! grep -q 'Could not get lock' "$log" || die "another package manager is at work, try again later"
	! no_network || die "no network: apt cannot fetch: ${list[*]}"
	for p in "${list[@]}"; do
		apt-cache show "$p" >/dev/null 2>&1 || nosuch+=("$p")
	done
	[ ${#nosuch[@]} = 0 ] || die "no such package in this machine's apt sources: ${nosuch[*]}"
	die_log "apt-get install ${list[*]}"
}

# ---- an rdma-core that exists

# lib_version DIR: "65.0" from the name of the real library, which every build of rdma-core gives it
lib_version() {
	readlink -e "$1/libefa.so.1" 2>/dev/null | sed -n 's/.*\/libefa\.so\.1\.[0-9]*\.\([0-9.]*\)$/\1/p'
}
new_enough() { [ "${1%%.*}" -ge $need ] 2>/dev/null; }
headers_ok() { grep -qs efadv_query_qp_wqs "$1/infiniband/efadv.h"; }

check_prefix() {
	local dir version

	headers_ok "$1/include" || die "RDMA_CORE=$1: include/infiniband/efadv.h is missing or older than $need"
	for dir in "$1"/lib "$1"/lib64 "$1"/lib/*-linux-gnu*; do
		version=$(lib_version "$dir")
		[ -n "$version" ] || continue
		new_enough "$version" || die "RDMA_CORE=$1 has rdma-core $version, need >= $need"
		say "rdma-core $version in $1 (given)"
		return 0
	done
	die "RDMA_CORE=$1: no libefa.so.1 in its lib or lib64"
}

system_libdir() {
	local lib

	lib=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk '$1 == "libefa.so.1" { print $NF; exit }')
	[ -z "$lib" ] || dirname "$lib"
}

# Where apt has or could have it new enough, the system's: build/deps/rdma-core is then a folder of links.
use_system() {
	local dir version new=$deps/rdma-core.new

	dir=$(system_libdir)
	if ! new_enough "$(lib_version "$dir")" || ! headers_ok /usr/include; then
		have apt-cache || return 1
		version=$(apt-cache policy libibverbs-dev 2>/dev/null | sed -n 's/^  Candidate: //p')
		new_enough "$version" || return 1
		install_packages libibverbs-dev ibverbs-providers
		dir=$(system_libdir)
	fi
	version=$(lib_version "$dir")
	new_enough "$version" && headers_ok /usr/include || return 1

	rm -rf "$new"
	mkdir -p "$new/include" "$new/lib"
	ln -s /usr/include/infiniband /usr/include/rdma "$new/include"
	ln -s "$dir"/libibverbs.so* "$dir"/libefa.so* "$new/lib"
	echo "system $version $recipe $deps/rdma-core" >"$new/stamp"
	rm -rf "$deps/rdma-core"
	mv "$new" "$deps/rdma-core"
}

# ---- an rdma-core from the distribution's source archive

# shellcheck source=scripts/deps/archive.sh
. "$root/scripts/deps/archive.sh"

# is_complete PREFIX VERSION: it is that, with headers to build with where those are new enough
is_complete() {
	[ "$(lib_version "$1/lib")" = "$2" ] || return 1
	! new_enough "$2" || headers_ok "$1/include"
}

# build_rdma_core PREFIX: libibverbs, libefa, their headers and the kernel's, installed by rdma-core's own rules
build_rdma_core() {
	local prefix=$1 version part stage=$deps/stage

	[ -e "$src/stamp" ] || fetch_source rdma-core $need "$src"
	version=$(<"$src/stamp")
	say "building libibverbs and libefa of rdma-core $version"
	rm -rf "$obj" # cmake refuses that of a tree that has moved
	{
		# $ORIGIN: libefa must find the libibverbs beside it, not the system's older one.
		# shellcheck disable=SC2016
		cmake -S "$src" -B "$obj" -GNinja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DNO_MAN_PAGES=1 -DNO_PYVERBS=1 \
			-DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_SYSCONFDIR=etc \
			-DCMAKE_INSTALL_RPATH='$ORIGIN:$ORIGIN/..' &&
			ninja -C "$obj" ibverbs efa
	} >"$log" 2>&1 || die_log "the build of rdma-core $version"

	rm -rf "$stage"
	for part in kernel-headers libibverbs providers/efa; do
		DESTDIR=$stage cmake -DCMAKE_INSTALL_LOCAL_ONLY=1 -P "$obj/$part/cmake_install.cmake" >>"$log" 2>&1 ||
			die_log "the installation of rdma-core $version"
	done
	cp -rL "$obj/include/rdma" "$stage$prefix/include/"
	is_complete "$stage$prefix" "$version" || die_log "the check of what was built from rdma-core $version"
	echo "built $version $recipe $prefix" >"$stage$prefix/stamp"
	rm -rf "$prefix"
	mv "$stage$prefix" "$prefix"
	rm -rf "$stage"
}

# is_current PREFIX: the stamp was written here, by this recipe, and what it speaks of is still that
is_current() {
	local how version made prefix

	[ -e "$1/stamp" ] || return 1
	read -r how version made prefix <"$1/stamp"
	[ "$made" = $recipe ] && [ "$prefix" = "$1" ] && is_complete "$1" "$version"
}

rdma_core() {
	local how version

	if [ -n "$given" ]; then
		check_prefix "$given"
		return 0
	fi
	is_current "$deps/rdma-core" || use_system || build_rdma_core "$deps/rdma-core"
	read -r how version _ <"$deps/rdma-core/stamp"
	say "rdma-core $version in build/deps/rdma-core ($how)"
}

case ${1:-} in
"" | peers | nccl) ;;
*) die "usage: scripts/deps.sh [peers|nccl]" ;;
esac
[[ $root != *" "* ]] || die "rdma-core and make do not build in a path with a space: $root"
mkdir -p "$deps"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
exec 9>"$deps/lock"
flock -n 9 || { say "waiting for another run"; flock 9; }

install_packages "${packages[@]}"
rdma_core
case ${1:-} in
peers)
	# shellcheck source=scripts/deps/peers.sh
	. "$root/scripts/deps/peers.sh"
	peers
	;;
nccl)
	# shellcheck source=scripts/deps/nccl.sh
	. "$root/scripts/deps/nccl.sh"
	nccl
	;;
esac
