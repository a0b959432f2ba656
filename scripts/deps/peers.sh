# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# peers.sh: what check-peers runs, built on the newest rdma-core into build/deps. Part of deps.sh.
# Nothing is built again while its stamp says what would be built now.
# shellcheck disable=SC2154  # deps, obj, src, log, tmp, given: deps.sh's

peer_packages=(perftest libfabric-bin ibverbs-utils ibverbs-providers cython3 python3-dev python3-pyverbs
	autoconf automake libtool libpci-dev xz-utils
	python3-venv python3-pytest python3-pytest-xdist python3-retrying python3-yaml python3-numpy)
efa_version=2026.10.22 # of the Python package: a new one appears every day

# stamped DIR WHAT: DIR was made as WHAT says
stamped() { [ -e "$1/made" ] && [ "$(<"$1/made")" = "$2" ]; }

# A release between the distribution's and the newest, for the programs of the core: writes, but no rings.
middle_rdma_core() {
	local src=$deps/rdma-core-56-src obj=$deps/rdma-core-56-obj prefix=$deps/rdma-core-56

	if [ ! -e "$src/stamp" ] && ! (fetch_source rdma-core 56 "$src" 57); then
		say "without rdma-core 56"
		return 0
	fi
	is_current "$prefix" || build_rdma_core "$prefix"
	say "rdma-core $(<"$src/stamp") in build/deps/rdma-core-56"
}

# Python bindings of the source package, against an rdma-core built from the same, for its own tests.
pyverbs() {
	# The system's or the user's rdma-core is not the one pyverbs is built with.
	own=$deps/rdma-core
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

# The tests that belong to the distribution's own pyverbs. The package has them, as documentation, which small
# installations leave out.
distro_tests() {
	local dir=$deps/rdma-core-distro version

	version=$(dpkg-query -W -f '${Version}' python3-pyverbs)
	if ! stamped "$dir" "$version"; then
		say "fetching the tests of python3-pyverbs $version"
		rm -rf "$dir"
		mkdir -p "$dir" "$tmp/deb"
		{
			(cd "$tmp/deb" && apt-get download -q -o APT::Sandbox::User=root "python3-pyverbs=$version") &&
				dpkg-deb -x "$tmp/deb"/*.deb "$tmp/deb/x" &&
				cp -R "$tmp/deb/x/usr/share/doc/rdma-core/tests" "$dir" &&
				find "$dir" -name '*.gz' -exec gunzip {} +
		} >"$log" 2>&1 || {
			! no_network || die "no network: cannot fetch python3-pyverbs $version"
			die_log "fetching python3-pyverbs $version"
		}
		echo "${version%-*}" >"$dir/stamp"
		echo "$version" >"$dir/made"
	fi
	say "tests of python3-pyverbs $version in build/deps/rdma-core-distro"
}

# The libraries of the same rdma-core that others need, installed apart: the distribution's headers are older.
more_libraries() {
	local part what

	more=$deps/rdma-core-more
	what="$(<"$own/stamp")"
	stamped "$more" "$what" && return 0
	ninja -C "$obj" rdmacm rspreload ibumad mlx5 >"$log" 2>&1 || die_log "the build of librdmacm and libibumad"
	rm -rf "$more" "$deps/stage"
	for part in librdmacm libibumad providers/mlx5; do
		DESTDIR=$deps/stage cmake -DCMAKE_INSTALL_LOCAL_ONLY=1 -P "$obj/$part/cmake_install.cmake" >>"$log" 2>&1 ||
			die_log "the installation of $part"
	done
	mv "$deps/stage$own" "$more"
	rm -rf "$deps/stage"
	echo "$what" >"$more/made"
}

# configure_on DIR ARGUMENT...: with the newest rdma-core before all that the system has
configure_on() {
	local dir=$1
	shift
	(
		cd "$dir" || exit
		./configure --disable-dependency-tracking "$@" CFLAGS=-O1 CPPFLAGS="-I$own/include -I$more/include" \
			LDFLAGS="-L$own/lib -L$more/lib -Wl,-rpath,$own/lib:$more/lib"
	)
}

newer_perftest() {
	local dir=$deps/perftest what

	[ -e "$dir/stamp" ] || fetch_source perftest 25 "$dir"
	what="1 $(<"$more/made") $dir $(<"$dir/stamp")"
	if ! stamped "$dir" "$what"; then
		say "building perftest $(<"$dir/stamp")"
		{
			configure_on "$dir" ac_cv_lib_hns_hnsdv_query_device=no && make -C "$dir" -j2
		} >"$log" 2>&1 || die_log "the build of perftest"
		echo "$what" >"$dir/made"
	fi
	say "perftest $(<"$dir/stamp") in build/deps/perftest"
}

# With its efa provider alone: shared memory, say, would not go through the devices. The tests come with the source.
newer_libfabric() {
	local dir=$deps/libfabric-src prefix=$deps/libfabric what

	[ -e "$dir/stamp" ] || fetch_source libfabric 2 "$dir"
	what="1 $(<"$own/stamp") $prefix $(<"$dir/stamp")"
	if ! stamped "$prefix" "$what"; then
		say "building libfabric $(<"$dir/stamp") and its tests"
		rm -rf "$prefix"
		{
			(cd "$dir" && ./autogen.sh) &&
				configure_on "$dir" --prefix="$prefix" --disable-static --enable-only --enable-efa="$own" &&
				make -C "$dir" -j2 && make -C "$dir" install &&
				(cd "$dir/fabtests" && ./autogen.sh) &&
				configure_on "$dir/fabtests" --prefix="$prefix" --with-libfabric="$prefix" &&
				make -C "$dir/fabtests" -j2 && make -C "$dir/fabtests" install
		} >"$log" 2>&1 || die_log "the build of libfabric"
		[ -x "$prefix/bin/fi_efa_rnr_read_cq_error" ] || die_log "libfabric's test programs for efa: the build"
		echo "$what" >"$prefix/made"
	fi
	say "libfabric $(<"$dir/stamp") in build/deps/libfabric"
}

# The package as users get it, and its tests, which only its source has.
python_efa() {
	local dir=$deps/python-efa pip

	if ! stamped "$dir" "$efa_version $dir"; then
		say "installing the Python package efa $efa_version"
		rm -rf "$dir"
		pip=("$dir/bin/python" -m pip --disable-pip-version-check --no-cache-dir)
		{
			/usr/bin/python3 -m venv --system-site-packages "$dir" &&
				"${pip[@]}" install --no-deps --only-binary :all: "efa==$efa_version" &&
				"${pip[@]}" download --no-deps --no-binary efa -d "$tmp/efa" "efa==$efa_version" &&
				mkdir "$dir/src" && tar -xf "$tmp/efa"/*.tar.gz --strip-components=1 --no-same-owner -C "$dir/src"
		} >"$log" 2>&1 || {
			! no_index || die "no network: pip cannot fetch efa $efa_version"
			die_log "the installation of efa $efa_version"
		}
		echo "$efa_version $dir" >"$dir/made"
	fi
	say "efa $efa_version in build/deps/python-efa"
}

peers() {
	install_packages "${peer_packages[@]}"
	middle_rdma_core
	pyverbs
	distro_tests
	more_libraries
	newer_perftest
	newer_libfabric
	python_efa
}
