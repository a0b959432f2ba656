#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# manual.sh SOFTEFA: print the manual page of softefa: docs/softefa.1.in with the settings that SOFTEFA --help lists.
# manual.sh PROGRAM check PAGE: has PAGE the options that PROGRAM --help has, and no others, and is it good mdoc? That of
# softefa has its settings as well.
set -eu
export LC_ALL=C
program=$1
cd "$(dirname "$0")/.."
help=$("$program" --help)

# table HEAD: the rows below the line of --help that begins with HEAD, up to an empty line
table() { awk -v head="$1" '$1 == head { table = 1; next } !NF { table = 0 } table' <<<"$help"; }
# name type default min max text, a line each
settings() { table KEY; }

print_settings() {
	settings | awk '
	{
		name = $1; limits = $2 ", default " $3 ($4 == "-" ? "" : ", " $4 " to " $5)
		$1 = $2 = $3 = $4 = $5 = ""; sub(/^ +/, "")
		printf ".It Cm %s\n%s%s\n(%s).\n", name, toupper(substr($0, 1, 1)), substr($0, 2), limits
	}'
}

print_profiles() {
	table Profiles: | awk 'NR % 2 { name = $1; $1 = ""; text = substr($0, 2); next }
		{ printf ".It Cm %s\n%s%s:\n.Li %s\n", name, toupper(substr(text, 1, 1)), substr(text, 2), $1 }'
}

# Columns are two blanks or more apart; faults have their keys in a line below.
print_faults() {
	table FAULT | awk -F '  +' 'NR % 2 {
		split($2, w, " ")
		printf ".It Cm %s%s\n%s%s\n", w[1], w[2] ? " Ar " w[2] : "", toupper(substr($NF, 1, 1)), substr($NF, 2)
		range = NF > 3 ? $3 "; " : ""; next
	}
	{ gsub(/^ +/, ""); gsub(/ /, ", "); printf "(%skeys: %s).\n", range, $0 }'
}

print_keys() {
	table KEY= | awk -F '  +' '{ printf ".It Cm %s\n%s%s (%s).\n", $2, toupper(substr($4, 1, 1)), substr($4, 2), $3 }'
}

print() {
	local date line

	date=$(git log -1 --date=format:'%B %-d, %Y' --format=%ad -- docs/softefa.1.in 2>/dev/null | grep . || date -u +'%B %-d, %Y')
	while IFS= read -r line; do
		case $line in
		'.\" @'*'@') line=${line#*@} && "print_${line%@}" ;;
		*) echo "${line//@DATE@/$date}" ;;
		esac
	done <docs/softefa.1.in
}

# compare WHAT HELP PAGE: two lists of words; what is in one alone is an error
compare() {
	local only

	[ -n "$2" ] || { echo "manual: --help has no $1"; bad=1; }
	only=$(comm -3 <(sort -u <<<"$2") <(sort -u <<<"$3"))
	[ -z "$only" ] || { printf 'manual: %s only in --help (left) or only in the page:\n%s\n' "$1" "$only"; bad=1; }
}

# section NAME PAGE: what its list lists
section() { awk -v name="$1" '/^\.Sh/ { here = $0 == ".Sh " name } here && /^\.It Cm/ { print $3 }' "$2"; }

# One letter each: "  -p, --port PORT" or ".It Fl Fl port Ar PORT , Fl p Ar PORT".
letters_help() { sed -n 's/^ *\(-[a-z]\), --.*/\1/p' <<<"$help"; }
letters_page() { grep '^\.It Fl' "$1" | grep -oE 'Fl [a-z]( |$)' | sed 's/Fl \(.\).*/-\1/'; }

# "--port 1 to 65535": what stands as [1..65535] in --help, and in the page under ".It Fl Fl port".
ranges_help() { sed -nE 's/^ *(-[a-z], )?(--[a-z-]*) .*\[([0-9KMG]+)\.\.([0-9KMG]+)\].*/\2 \3 to \4/p' <<<"$help"; }
ranges_page() {
	awk '/^\.It/ { name = $2 $3 == "FlFl" ? "--" $4 : "" }
		name && match($0, /[0-9]+[KMG]? to [0-9]+[KMG]?/) { print name, substr($0, RSTART, RLENGTH) }' "$1"
}
# A page may leave a range out, but not have another one.
check_ranges() {
	local wrong

	wrong=$(comm -13 <(ranges_help | sort) <(ranges_page "$1" | sort) | grep -wFf <(ranges_help | sed 's/ .*//')) || return 0
	printf 'manual: ranges that --help has not:\n%s\n' "$wrong"
	bad=1
}

check_softefa() {
	local page=$1

	compare settings "$(settings | awk '{ print $1, $3, $4, $5 }' | grep -v -- -)" \
		"$(awk '/^\.It Cm/ { name = $3 } /^\([a-z]+, default .* to / { gsub(/[(),.]/, ""); print name, $3, $4, $6 }' "$page")"
	compare profiles "$(table Profiles: | awk 'NR % 2 { print $1 }')" "$(section PROFILES "$page")"
	compare faults "$(table FAULT | awk 'NR % 2 { print $1 }')" "$(section FAULTS "$page")"
	compare keys "$(table KEY= | awk '{ print $1 }')" "$(section "FAULT KEYS" "$page")"
	for f in softefa/*.c; do
		grep -qE "\`$(basename "$f" .c)\.[ch]\`" docs/softefa.md || { echo "manual: docs/softefa.md does not say what $f is"; bad=1; }
	done
}

check() {
	local page=$1 bad=0

	compare options "--help"$'\n'"$(grep -oE -- '--[a-z]+[a-z-]*' <<<"$help")" \
		"$(sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESC/d; s/^\.It Fl Fl \([a-z-]*\).*/--\1/p' "$page")"
	if [ "${program##*/}" = softefa ]; then
		check_softefa "$page"
	else
		compare letters "none$(letters_help)" "none$(letters_page "$page")"
		check_ranges "$page"
	fi
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
*) echo "usage: scripts/manual.sh SOFTEFA | scripts/manual.sh PROGRAM check PAGE" >&2; exit 2 ;;
esac
