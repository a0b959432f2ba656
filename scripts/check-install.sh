#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check-install.sh MAKE_ARGUMENT...: make install into a folder of its own; is all there, and does it work from there?
# CC and CFLAGS compile what uses the headers and the library; SRD_RDMA_CORE is where it finds rdma-core.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
top=$dir/opt/efa
version=$(sed -n 's/^#define SRD_VERSION "\(.*\)".*/\1/p' include/srd.h)
bad=0

fail() { echo "install: $*"; bad=1; }

"${MAKE:-make}" --no-print-directory "$@" DESTDIR="$dir" PREFIX=/opt/efa install >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }

list=$(cd "$dir" && find . ! -type d ! -path ./log -printf '%m %P\n' | sort -k 2)
want=$({
	for f in softefa netbench netcheck srd-pingpong srd-bw srd-info; do echo "755 opt/efa/bin/$f"; done
	for f in srd.h srd_cuda.h srd_topo.h; do echo "644 opt/efa/include/$f"; done
	for f in libsrd.a libsrd.so.$version libsoftefa.so libnccl-net-efa.so pkgconfig/srd.pc; do echo "644 opt/efa/lib/$f"; done
	for f in libsrd.so libsrd.so.0 libnccl-net.so; do echo "777 opt/efa/lib/$f"; done
	for f in man1/{softefa,netbench,netcheck,srd-pingpong,srd-bw,srd-info}.1 man7/srd.7; do echo "644 opt/efa/share/man/$f"; done
	for f in examples/*; do echo "644 opt/efa/share/doc/nccl-net-efa/$f"; done
} | sort -k 2)
diff <(echo "$want") <(echo "$list") || fail "not the files that are meant (<: missing, >: too many)"

# Nothing of the tree that it was built in: neither its libraries nor links into it.
for f in libnccl-net.so libsrd.so libsrd.so.0; do
	[ -e "$top/lib/$f" ] || fail "$f points nowhere"
done
for f in "$top"/lib/*.so "$top"/bin/*; do
	! readelf -d "$f" | grep -E "R(UN)?PATH.*$PWD" || fail "${f##*/} looks for libraries where it was built"
done

# shellcheck disable=SC2016  # for the command on the devices
run=$("$top/bin/softefa" --domain "install-$$" --devices 2 -- sh -c '
	test -c /dev/infiniband/uverbs1 && ! test -e /dev/infiniband/uverbs2 && echo "$LD_PRELOAD"') || fail "softefa: exit status $?"
[ "${run%%:*}" = "$top/bin/../lib/libsoftefa.so" ] || fail "softefa preloads '$run'"

# A user's way to compile: pkg-config, of the shared library and of the static one.
export PKG_CONFIG_PATH=$top/lib/pkgconfig LD_LIBRARY_PATH=$top/lib
pc() { pkg-config --define-variable=prefix="$top" "$@" srd; }
[ "$(pc --modversion)" = "$version" ] || fail "srd.pc has version $(pc --modversion), not $version"
# shellcheck disable=SC2046,SC2086  # words
for f in "$top"/share/doc/nccl-net-efa/examples/*.c; do
	name=$(basename "$f" .c)
	${CC:-cc} ${CFLAGS:-} -Wall -Wextra -Werror -o "$dir/$name" "$f" $(pc --cflags --libs) || fail "$name does not compile"
	${CC:-cc} ${CFLAGS:-} -o "$dir/$name-static" "$f" $(pc --cflags --libs --static | sed 's|-lsrd|-l:libsrd.a|') ||
		fail "$name does not compile with libsrd.a"
done
readelf -d "$dir/quickstart" | grep -q 'NEEDED.*libsrd\.so\.0\]' || fail "a program does not ask for libsrd.so.0"
for f in quickstart quickstart-static; do
	said=$("$top/bin/softefa" --domain "install-$$" -- "$dir/$f") || fail "$f: exit status $?"
	[ "$said" = "hello, EFA" ] || fail "$f says '$said'"
done
exit $bad
