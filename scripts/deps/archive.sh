# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# archive.sh: source packages of the distribution's archive, verified by apt. Part of deps.sh.
# shellcheck disable=SC2154  # tmp and log are deps.sh's

component=main   # of the archive

# absent WHY: what is wanted cannot be had here, through no fault of ours: status 77
absent() { echo "deps: $*" >&2; exit 77; }

# source_entry FILE URI RELEASE SUITE: the entry of an apt sources file that has URI and RELEASE, as a deb-src
# stanza for SUITE. How the archive is to be trusted is taken over as it stands.
source_entry() {
	awk -v uri="$2" -v release="$3" -v suite="$4" -v component=$component -v deb822="$([[ $1 != *.sources ]] || echo 1)" '
	function bare(s) { sub(/\/+$/, "", s); return s }
	function has(list, word,   n, a, i) {
		n = split(list, a, " ")
		for (i = 1; i <= n; i++)
			if (bare(a[i]) == bare(word))
				return 1
		return 0
	}
	function stanza(trust) {
		printf "Types: deb-src\nURIs: %s\nSuites: %s\nComponents: %s\n%s", uri, suite, component, trust
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

# open_archive: archive_release, archive_uri and archive_file say where sources come from
open_archive() {
	local entry

	[ -z "${archive_uri:-}" ] || return 0
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
	read -r archive_release archive_uri archive_file <<<"$entry"
	[[ $archive_file = /* ]] || archive_file=/etc/apt/$archive_file
	newer_suites="unstable testing stable"   # newest first
	[[ $entry != *ubuntu* ]] || newer_suites=devel

	mkdir -p "$tmp/download"
	chmod 755 "$tmp"
	if [ "$(id -u)" = 0 ] && id _apt >/dev/null 2>&1; then
		chown _apt "$tmp/download"
	fi
}

# suite_lists SUITE: its lists are there for "apt-get -c $tmp/$component/SUITE/apt.conf"; false if the mirror lacks it.
# They live in a private folder outside the checkout, because apt's download user may not be let into the latter.
suite_lists() {
	local dir=$tmp/$component/$1

	if [ ! -d "$dir" ]; then
		mkdir -p "$dir"/{sources,lists/partial,cache}
		cat >"$dir/apt.conf" <<-END
			Dir::Etc::sourcelist "/dev/null";
			Dir::Etc::sourceparts "$dir/sources";
			Dir::State::lists "$dir/lists";
			Dir::Cache "$dir/cache";
			APT::Update::Error-Mode "any";
			#clear APT::Update::Pre-Invoke;
			#clear APT::Update::Post-Invoke;
			#clear APT::Update::Post-Invoke-Success;
		END
		source_entry "$archive_file" "$archive_uri" "$archive_release" "$1" >"$dir/sources/suite.sources"
		if apt-get -c "$dir/apt.conf" update -q >>"$log" 2>&1; then
			touch "$dir/ok"
		fi
	fi
	[ -e "$dir/ok" ]
}

# fetch_source PACKAGE OLDEST DIR [BELOW]: the newest source of PACKAGE, of a version >= OLDEST and < BELOW, verified and
# unpacked, is DIR, and DIR/stamp its version.
fetch_source() {
	local package=$1 oldest=$2 dir=$3 below=${4:-} suite line='' version major uri file hash conf

	open_archive
	: >"$log"
	for suite in $newer_suites; do
		suite_lists "$suite" || continue
		conf=$tmp/$component/$suite/apt.conf
		line=$(apt-get -c "$conf" --print-uris source "$package" 2>>"$log" |
			grep " ${package}_[^ ]*\.orig\.tar\.[^ .]* ") || continue
		read -r uri file _ hash <<<"$line"
		version=${file#"${package}"_}
		version=${version%.orig.tar.*}
		major=${version%%.*}
		if [ "$major" -ge "$oldest" ] && [ "$major" -lt "${below:-$((major + 1))}" ]; then break; fi
		line=
	done
	if [ -z "$line" ]; then
		! no_network || absent "no network: apt cannot reach the archive of newer sources, for $package"
		! grep -q 'is expired' "$log" ||
			die "apt finds this archive's index of $newer_suites expired: a wrong clock, or a frozen mirror?"
		absent "no suite of this archive has $package >= $oldest${below:+ and < $below} ($newer_suites; log: $log)"
	fi

	say "fetching the source of $package $version ($suite)"
	[[ $hash = SHA* ]] || die "the archive gives no SHA hash for $file"
	if ! /usr/lib/apt/apt-helper -c "$conf" download-file "${uri//\'/}" "$tmp/download/$file" "$hash" \
			>>"$log" 2>&1; then
		! grep -q 'Hash Sum mismatch' "$log" || die "$file does not have the hash that the archive signed"
		! no_network || absent "no network: cannot fetch $file"
		! grep -q '404  Not Found' "$log" || absent "this archive lists $file, and has it not"
		die_log "download of $file"
	fi
	rm -rf "$dir" "$dir.new"
	mkdir "$dir.new"
	tar -xf "$tmp/download/$file" --strip-components=1 --no-same-owner -C "$dir.new" >>"$log" 2>&1 || die_log "tar"
	echo "$version" >"$dir.new/stamp"
	mv "$dir.new" "$dir"
}
