#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check-install.sh MAKE_ARGUMENT...: make install into a folder of its own; is all there, and does it work from there?
# CC and CFLAGS compile what uses the headers and the library.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
top=$dir/opt/efa
bad=0

fail() { echo "install: $*"; bad=1; }

"${MAKE:-make}" --no-print-directory "$@" DESTDIR="$dir" PREFIX=/opt/efa install >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }

list=$(cd "$dir" && find . ! -type d ! -path ./log -printf '%m %P\n' | sort -k 2)
want=$({
	for f in softefa netbench srd-pingpong srd-bw; do echo "755 opt/efa/bin/$f"; done
	for f in include/*.h; do echo "644 opt/efa/$f"; done
	for f in libsrd.a libsrd.so libsoftefa.so libnccl-net-efa.so; do echo "644 opt/efa/lib/$f"; done
	echo "777 opt/efa/lib/libnccl-net.so"
	for f in softefa srd-pingpong srd-bw; do echo "644 opt/efa/share/man/man1/$f.1"; done
} | sort -k 2)
diff <(echo "$want") <(echo "$list") || fail "not the files that are meant (<: missing, >: too many)"

# Nothing of the tree that it was built in: neither its libraries nor links into it.
[ -e "$top/lib/libnccl-net.so" ] || fail "libnccl-net.so points nowhere"
for f in "$top"/lib/*.so "$top"/bin/*; do
	! readelf -d "$f" | grep -E "R(UN)?PATH.*$PWD" || fail "${f##*/} looks for libraries where it was built"
done

# shellcheck disable=SC2016  # for the command on the devices
run=$("$top/bin/softefa" --domain "install-$$" --devices 2 -- sh -c '
	test -c /dev/infiniband/uverbs1 && ! test -e /dev/infiniband/uverbs2 && echo "$LD_PRELOAD"') || fail "softefa: exit status $?"
[ "${run%%:*}" = "$top/bin/../lib/libsoftefa.so" ] || fail "softefa preloads '$run'"

printf '#include <srd.h>\n#include <stdio.h>\nint main(void) { return puts(srd_status_str(0)) < 0; }\n' >"$dir/user.c"
# shellcheck disable=SC2086  # words
for lib in "$top/lib/libsrd.a" "-L$top/lib -lsrd -Wl,-rpath,$top/lib"; do
	if ! ${CC:-cc} ${CFLAGS:-} -I"$top/include" -o "$dir/user" "$dir/user.c" $lib -ldl -lpthread ||
		! "$dir/user" >/dev/null; then
		fail "a program with $lib does not work"
	fi
done
exit $bad
