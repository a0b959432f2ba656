#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# docs.sh: do docs/libsrd.md, docs/srd.7, docs/efa-python-map.md, docs/getting-started.md, docs/compare.md and tests/README.md agree with the
# code? Says where not, and exits 1 then.
# shellcheck disable=SC2016  # backticks are Markdown's
# RDMA_CORE=PREFIX has the headers of libibverbs; CC compiles what the map says of structures.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
rdma_core=${RDMA_CORE:-build/deps/rdma-core}
headers=(include/srd.h include/srd_cuda.h include/srd_topo.h)
page=docs/srd.7
map=docs/efa-python-map.md
bad=0

fail() { echo "docs: $*"; bad=1; }
# same WHAT A B: two texts; the lines that only one of them has are an error
same() { diff <(echo "$2") <(echo "$3") || fail "$1"; }
# declared FUNCTION: its declaration, in one line, without comments
text=$(cat "${headers[@]}" | ${CC:-cc} -fpreprocessed -dD -E -P -xc - | tr '\n' ' ')
declared() { grep -oE "\b$1\([^)]+\)" <<<"$text" || true; }

# ---- docs/libsrd.md shows the statements of the quickstart, all and no others
body=$(awk '/^}/ { exit } on { sub(/^\t/, ""); print } main && !NF { on = 1 } /^int main/ { main = 1 }' examples/quickstart.c)
same "docs/libsrd.md shows another quickstart than examples/quickstart.c" "$(sed -n '/^```c$/,/^```$/ { /^```/d; p }' docs/libsrd.md)" "$body"
[ "$(wc -l <<<"$body")" -le 20 ] || fail "the quickstart has $(wc -l <<<"$body") lines, not 20 at most"

# ---- srd(7) has functions that exist, all statuses, all variables of the environment
while read -r f; do
	[ -n "$(declared "$f")" ] || fail "$page: no header declares $f()"
done < <(sed -n 's/^\.Fn \(srd_[a-z0-9_]*\)\b.*/\1/p' $page | grep -v '_$' | sort -u)
same "the statuses of $page are not those of core/status.c" \
	"$(sed -n 's/^\.It \([0-9]*\) Ta Er \([A-Z]*\) Ta \(.*\)/\1 \2 \3/p' $page)" \
	"$(tr -d '\n\134' <core/status.c | grep -oE 'X\([1-9][0-9]*, [A-Z_]+, -E[A-Z]+,\s*"[^"]*"' |
		sed -E 's/X\(([0-9]+), [A-Z_]+, -([A-Z]+),\s*"(.*)"/\1 \2 \3/')"
for v in $(grep -oE '"SRD_[A-Z_]+"' core/settings.c | tr -d '"'); do
	grep -q "^\.It Ev $v\$" $page || fail "$page does not have $v"
done
! command -v mandoc >/dev/null || mandoc -T lint -W warning $page || bad=1

# ---- the map has all names of both sides, those of Python in order, an answer for each, and only what exists
same "$map does not have the names of tests/fixtures/efa-python-names, in order" \
	"$(sed -n 's/^| `\(efa[^`]*\)` |.*/\1/p' $map)" "$(cat tests/fixtures/efa-python-names)"
sed 's/\\|//g' $map | awk -F '|' '/^\|/ && (NF != 4 || $2 !~ /[^ ]/ || $3 !~ /[^ ]/) { print; n++ } END { exit n != 0 }' ||
	fail "$map has rows without an answer"
while read -r name; do
	case $name in *\*) pattern=${name%\*} ;; *) pattern="$name\b" ;; esac
	grep -qrE "\b$pattern" "${headers[@]}" "$rdma_core/include/infiniband" ||
		fail "$map: no header has $name"
done < <(grep -ohE '\b(srd|SRD|ibv|IBV|efadv)_[A-Za-z0-9_]+\*?' $map | grep -vx srd_cuda | sort -u)
while read -r name; do
	grep -q "\b$name\b" $map || fail "$map does not have $name()"
done < <(sed -nE '/^typedef/d; s/^[a-z].*[ *](srd_[a-z0-9_]+)\(.*/\1/p' "${headers[@]}")
while read -r parameter function; do
	grep -qw "$parameter" <<<"$(declared "$function")" || fail "$map: $function() has no parameter $parameter"
done < <(sed -nE 's/.*`([a-z]+)`( and `[a-z]+`)? of `(srd_[a-z_]+)\(\)`.*/\1 \3/p' $map | sort -u)
# Members: srd_x.y and ibv_x.y of that structure, or of the object that is always called so.
grep -oE '`[^`]+`' $map |
	grep -oE '\b(srd_[a-z_]+|ibv_[a-z_]+|dev|pd|cq|qp|mr|peer|wc|ch|event|gid)((\.|->)[a-z_]+)+' | grep -v '\.h$' | sort -u |
	sed -E 's/->/@/g; s/^(srd|ibv)_([a-z_]+)\./struct \1_\2./; s/^gid\./union ibv_gid./; s/^ch\./struct srd_channel./
		s/^(dev|pd|cq|qp|mr|peer|wc|event)\./struct srd_\1./
		s/^([^.]*)\.(.*)/_Static_assert(sizeof(((\1 *)0)->\2) > 0, "");/; s/@/->/g
		1i #include <srd_cuda.h>' >"${TMPDIR:-/tmp}/docs-$$.c"
${CC:-cc} -Iinclude -isystem "$rdma_core/include" -fsyntax-only "${TMPDIR:-/tmp}/docs-$$.c" ||
	fail "$map names members that do not exist"
rm -f "${TMPDIR:-/tmp}/docs-$$.c"

# ---- getting-started.md quotes messages of the plugin as they are: numbers of the quotations may be any
guide=docs/getting-started.md
# all strings, those that are joined by the compiler in one piece, and what printf puts in as a blank
strings=$(cat plugin/*.c core/*.c | tr -d '\n' | sed -E 's/"[[:space:]]*(PRIu64|SECURITY_GROUP)?[[:space:]]*"//g; s/%[0-9.l*]*z?[a-z]/0/g')
while read -r quote; do
	grep -qF "$(sed -E 's/\b[0-9]+\b/0/g' <<<"$quote")" <<<"$(sed -E 's/\b[0-9]+\b/0/g' <<<"$strings")" ||
		fail "$guide: the plugin never says: $quote"
done < <(sed -n '/^## Symptoms/,$p' $guide | grep -oE '^\|.*\|.*\|$' | cut -d'|' -f2 | grep -oE '`[^`]+`' | tr -d '`' |
	grep -E '^NET/EFA: |^(remote un|RLIMIT|no RDMA device|Are the files|lets NCCL|all ranks must|sysfs does|the peer has|this is no|memory cannot|has no RDMA write)')

# ---- docs/netcheck.md and docs/plugin.md say what each file is
while read -r page folder; do
	for f in "$folder"/*.c; do
		grep -q "\`${f##*/}\`" "docs/$page" || fail "docs/$page does not say what $f is"
	done
done <<<'netcheck.md tools/netcheck
plugin.md plugin'

# ---- tests/README.md and docs/compare.md name tests and files that exist, and have something to say in each row
reports=tests/README.md
compare=docs/compare.md
tests=$(cat tests/*/*.c | tr -s ' \t\n' ' ' | grep -oE '\b(Parameterized)?Test\([^)]*' | sed 's/.*Test(//; s/^[a-z]* *[a-z_]* \*[a-z_]*, //')
while read -r name; do
	grep -qE "^${name%.*}, ${name#*.}(,|\$)" <<<"$tests" || fail "there is no test $name, which $reports or $compare names"
done < <(grep -ohE '`[a-z0-9_]+\.[a-z0-9_]+`' $reports $compare | tr -d '`' | sort -u)
while read -r file; do
	[ -e "docs/$file" ] || fail "$compare: there is no $file"
done < <(grep -oE '\]\([^)]*' $compare | cut -c 3- | sort -u)
awk -F '|' '
	!/^\|/ { n = 0; next }
	!n { n = NF; next }
	{ empty = NF != n; for (i = 2; i < NF; i++) empty = empty || $i !~ /[^ ]/; if (empty) { print; bad = 1 } }
	END { exit bad }' $compare || fail "$compare has rows without an answer"
while read -r file; do
	[ -e "tests/$file.c" ] || fail "$reports: there is no tests/$file.c"
done < <(grep -oE '`[a-z]+/[a-z_]+`' $reports | tr -d '`' | sort -u)
awk -F '|' '/^\|/ && (NF != 5 || $3 !~ /[^ ]/ || $4 !~ /[^ ]/) { print; n++ } END { exit n != 0 }' $reports ||
	fail "$reports has rows without an answer"
exit $bad
