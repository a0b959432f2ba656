#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# manual.sh SOFTEFA: print the manual page of softefa: docs/softefa.1.in with the settings that SOFTEFA --help lists.
# manual.sh SOFTEFA check PAGE: has PAGE the options and settings that --help has, and no others, and is it good mdoc?
set -eu
export LC_ALL=C
softefa=$1
cd "$(dirname "$0")/.."
help=$("$softefa" --help)

# name default min max text, a line each
settings() { awk '/^ *KEY +default/ { table = 1; next } !NF { table = 0 } table' <<<"$help"; }

print() {
	settings | awk '
	{
		name = $1; limits = "default " $2 ", " $3 " to " $4
		$1 = $2 = $3 = $4 = ""; sub(/^ +/, "")
		printf ".It Cm %s\n%s%s\n(%s).\n", name, toupper(substr($0, 1, 1)), substr($0, 2), limits
	}' | sed -e "/@SETTINGS@/{r /dev/stdin
		d}" -e "s/@DATE@/$(git log -1 --date=format:'%B %-d, %Y' --format=%ad -- docs/softefa.1.in 2>/dev/null |
			grep . || date -u +'%B %-d, %Y')/" docs/softefa.1.in
}

# compare WHAT HELP PAGE: two lists of words; what is in one alone is an error
compare() {
	local only

	[ -n "$2" ] || { echo "manual: --help has no $1"; bad=1; }
	only=$(comm -3 <(sort -u <<<"$2") <(sort -u <<<"$3"))
	[ -z "$only" ] || { printf 'manual: %s only in --help (left) or only in the page:\n%s\n' "$1" "$only"; bad=1; }
}

check() {
	local page=$1 bad=0

	compare options "--help"$'\n'"$(grep -oE -- '--[a-z]+[a-z-]*' <<<"$help")" \
		"$(sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESC/d; s/^\.It Fl Fl \([a-z-]*\).*/--\1/p' "$page")"
	compare settings "$(settings | awk '{ print $1, $2, $3, $4 }')" \
		"$(awk '/^\.It Cm/ { name = $3 } /^\(default / { gsub(/[(),.]/, ""); print name, $2, $3, $5 }' "$page")"
	if command -v mandoc >/dev/null; then
		mandoc -T lint -W warning "$page" || bad=1
	else
		! man --warnings -E ascii -l "$page" 2>&1 >/dev/null | grep . || bad=1
	fi
	return $bad
}

case ${2:-} in
"") print ;;
check) check "$3" ;;
*) echo "usage: scripts/manual.sh SOFTEFA [check PAGE]" >&2; exit 2 ;;
esac
