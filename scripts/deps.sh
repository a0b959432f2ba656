#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# deps.sh [peers]: everything the build and the tests need; with "peers" also what check-peers needs.
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

packages=(gcc g++ libc6-dev make pkgconf cmake ninja-build python3 libnl-3-dev libnl-route-3-dev
	libcriterion-dev clang libclang-rt-dev clang-format shellcheck mandoc valgrind strace iproute2 perftest)
peer_packages=(libfabric-bin ibverbs-utils ibverbs-providers cython3 python3-dev)

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

# source_entry FILE URI RELEASE SUITE: the entry of an apt sources file that has URI and RELEASE, as a deb-src
# stanza for SUITE. How the archive is to be trusted is taken over as it stands.
source_entry() {
	awk -v uri="$2" -v release="$3" -v suite="$4" -v deb822="$([[ $1 != *.sources ]] || echo 1)" '
	function bare(s) { sub(/\/+$/, "", s); return s }
	function has(list, word,   n, a, i) {
		n = split(list, a, " ")
		for (i = 1; i <= n; i++)
			if (bare(a[i]) == bare(word))
				return 1
		return 0
	}
	function stanza(trust) {
		printf "Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\n%s", uri, suite, trust
		exit
	}
	BEGIN { if (deb822) { RS = ""; FS = "\n" } }
	deb822 {
		split("", field)
		trust = ""
		for (i = 1; i <= NF; i++) {
			if ($i ~ /^#/)
				continue
			if ($i !~ /^[ \t]/) {
				name = tolower(substr($i, 1, index($i, ":") - 1))
				field[name] = substr($i, index($i, ":") + 1)
			} else {
				field[name] = field[name] " " $i
			}
			if (name ~ /^(signed-by|trusted|check-date|check-valid-until|allow-.*)$/)
				trust = trust $i "\n"
		}
		if (has(field["uris"], uri) && has(field["suites"], release))
			stanza(trust)
	}
	!deb822 && /^[ \t]*deb(-src)?[ \t]/ {
		options = ""
		if (match($0, /\[[^]]*\]/)) {
			options = substr($0, RSTART + 1, RLENGTH - 2)
			$0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
		}
		if (bare($2) != bare(uri) || $3 != release)
			next
		trust = ""
		n = split(options, option, " ")
		for (i = 1; i <= n; i++)
			if (option[i] ~ /^(signed-by|trusted|check-date|check-valid-until|allow-[a-z-]*)=/) {
				sub(/=/, ": ", option[i])
				trust = trust option[i] "\n"
			}
		stanza(trust)
	}' "$1"
}

# archive_entry: "release uri file" of the distribution's own archive among the configured apt sources
archive_entry() {
	local id

	# shellcheck source=/dev/null
	id=$(. /etc/os-release && echo "$ID")
	# shellcheck disable=SC2016  # apt expands these
	apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(RELEASE) $(REPO_URI) $(SOURCESENTRY)' \
		'Created-By: Packages' |
		awk -v id="$id" 'tolower($1) == id && $2 == "main" && $3 !~ /[-\/]/ {
			sub(/:[0-9]+$/, "", $5); print $3, $4, $5; exit }'
}

# fetch_source: the newest rdma-core source package >= $need, verified and unpacked, is $src. The lists live in a
# private folder outside the checkout, because apt's download user may not be let into the latter.
fetch_source() {
	local entry release uri file suite suites line version hash

	entry=$(archive_entry)
	if [ -z "$entry" ]; then   # no lists yet
		[ "$(id -u)" = 0 ] || have sudo || die "apt has no package lists: run apt-get update as root"
		as_root apt-get update -q >"$log" 2>&1 || true
		entry=$(archive_entry)
	fi
	if [ -z "$entry" ]; then
		! no_network || die "no network: apt cannot fetch its package lists"
		die "the distribution's archive is not among apt's sources; set RDMA_CORE=PREFIX (rdma-core >= $need)"
	fi
	read -r release uri file <<<"$entry"
	[[ $file = /* ]] || file=/etc/apt/$file

	mkdir -p "$tmp"/{sources,lists/partial,cache,download}
	chmod 755 "$tmp"
	if [ "$(id -u)" = 0 ] && id _apt >/dev/null 2>&1; then
		chown _apt "$tmp/download"
	fi
	cat >"$tmp/apt.conf" <<-END
		Dir::Etc::sourcelist "/dev/null";
		Dir::Etc::sourceparts "$tmp/sources";
		Dir::State::lists "$tmp/lists";
		Dir::Cache "$tmp/cache";
		APT::Update::Error-Mode "any";
		#clear APT::Update::Pre-Invoke;
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
	END

	# Newest first. A suite that the mirror lacks is passed over.
	suites="unstable testing stable"
	[[ $entry != *ubuntu* ]] || suites="devel"
	line=
	: >"$log"
	for suite in $suites; do
		source_entry "$file" "$uri" "$release" "$suite" >"$tmp/sources/newer.sources"
		rm -rf "$tmp"/lists/*
		apt-get -c "$tmp/apt.conf" update -q >>"$log" 2>&1 || continue
		line=$(apt-get -c "$tmp/apt.conf" --print-uris source rdma-core 2>>"$log" |
			grep '/rdma-core_[^ ]*\.orig\.tar\.[^ .]* ') || continue
		version=${line#*/rdma-core_}
		version=${version%%.orig.tar.*}
		! new_enough "$version" || break
		line=
	done
	if [ -z "$line" ]; then
		! no_network || die "no network: apt cannot reach the archive of newer rdma-core sources"
		! grep -q 'is expired' "$log" || die "apt finds this archive's index of $suites expired: a wrong clock, or a frozen mirror?"
		die "no suite of this archive has rdma-core >= $need ($suites; log: $log); set RDMA_CORE=PREFIX"
	fi

	say "fetching the source of rdma-core $version ($suite)"
	read -r uri file _ hash <<<"$line"
	[[ $hash = SHA* ]] || die "the archive gives no SHA hash for $file"
	if ! /usr/lib/apt/apt-helper -c "$tmp/apt.conf" download-file "${uri//\'/}" "$tmp/download/$file" "$hash" \
			>>"$log" 2>&1; then
		! grep -q 'Hash Sum mismatch' "$log" || die "$file does not have the hash that the archive signed"
		! no_network || die "no network: cannot fetch $file"
		die_log "download of $file"
	fi
	rm -rf "$src" "$src.new"
	mkdir "$src.new"
	tar -xf "$tmp/download/$file" --strip-components=1 --no-same-owner -C "$src.new" >>"$log" 2>&1 || die_log "tar"
	echo "$version" >"$src.new/stamp"
	mv "$src.new" "$src"
}

# build_rdma_core PREFIX: libibverbs, libefa, their headers and the kernel's, installed by rdma-core's own rules
build_rdma_core() {
	local prefix=$1 version part stage=$deps/stage

	[ -e "$src/stamp" ] || fetch_source
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
	if ! headers_ok "$stage$prefix/include" || [ "$(lib_version "$stage$prefix/lib")" != "$version" ]; then
		die_log "the check of what was built from rdma-core $version"
	fi
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
	[ "$made" = $recipe ] && [ "$prefix" = "$1" ] && [ "$(lib_version "$1/lib")" = "$version" ] &&
		headers_ok "$1/include"
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

# Python bindings of the source package, against an rdma-core built from the same, for its own tests.
pyverbs() {
	local own=$deps/rdma-core

	# The system's or the user's rdma-core is not the one pyverbs is built with.
	if [ -n "$given" ] || grep -qs ^system "$own/stamp"; then
		own=$deps/rdma-core-own
	fi
	if ! is_current "$own" || [ ! -e "$obj/build.ninja" ]; then
		build_rdma_core "$own"
	fi
	if [ ! -e "$obj/pyverbs.stamp" ]; then
		say "building pyverbs"
		{
			cmake -S "$src" -B "$obj" -DNO_PYVERBS=0 -DPYTHON_EXECUTABLE=/usr/bin/python3 &&
				ninja -C "$obj" pyverbs/all
		} >"$log" 2>&1 || die_log "the build of pyverbs"
		touch "$obj/pyverbs.stamp"
	fi
	say "pyverbs $(<"$src/stamp") in build/deps/rdma-core-obj/python"
}

case ${1:-} in
"" | peers) ;;
*) die "usage: scripts/deps.sh [peers]" ;;
esac
[[ $root != *" "* ]] || die "rdma-core and make do not build in a path with a space: $root"
mkdir -p "$deps"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
exec 9>"$deps/lock"
flock -n 9 || { say "waiting for another run"; flock 9; }

install_packages "${packages[@]}"
rdma_core
if [ "${1:-}" = peers ]; then
	install_packages "${peer_packages[@]}"
	pyverbs
fi
