# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# rdma-core: its own tools, its Python suites on two versions of it, and our core on three. Part of peers.sh.
# shellcheck disable=SC2034,SC2154  # options, logs, deps, build, root, devices: peers.sh's

pyverbs_suites=(efadv efa_srd device pd cq cq_events mr addr qp cqex qpex)

# libibverbs' own listing: every device, by name
peer_devinfo() {
	local names want rc=0

	run "$logs/devinfo" ibv_devinfo -v || rc=$?
	names=$(sed -n 's/^hca_id:[ \t]*//p' "$logs/devinfo" | sort | xargs)
	want=$(seq -f 'efa_%g' 0 $((devices - 1)) | xargs)
	if [ $rc = 0 ] && [ "$names" = "$want" ]; then
		pass "ibv_devinfo -v" "$names"
	else
		fail "ibv_devinfo -v" "$(why $rc), devices: ${names:-none}; expected: $want" "$logs/devinfo"
	fi
}

# The newest, with the bindings and libraries of the same source package.
peer_pyverbs() {
	pyverbs_all "$(<"$deps/rdma-core-src/stamp")" "$deps/rdma-core-src" "$deps/rdma-core-obj/python" "$(newest_prefix)/lib"
}

# The distribution's, as it is installed.
peer_pyverbs_distro() {
	pyverbs_all "$(<"$deps/rdma-core-distro/stamp")" "$deps/rdma-core-distro" "" ""
}

# pyverbs_all VERSION SOURCE PYTHONPATH LD_LIBRARY_PATH
pyverbs_all() {
	local name

	# The suites ask "rdma link" which network device belongs to a port. EFA's ports have none.
	printf '#!/bin/sh\necho "[]"\n' | stand_in rdma
	for name in "${pyverbs_suites[@]}"; do
		pyverbs_suite "$@" "test_$name"
	done
}

pyverbs_suite() {
	local version=$1 source=$2 python=$3 libs=$4 name=$5 log run skips bad rc=0

	log=$logs/$name-$version
	if [ ! -e "$source/tests/$name.py" ]; then
		fail "$version $name" "rdma-core $version has no such suite"
		return
	fi
	run "$log" env PATH="$logs/bin:$PATH" PYTHONPATH="$python" LD_LIBRARY_PATH="$libs" PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 "$source/tests/run_tests.py" -v "tests.$name" || rc=$?
	run=$(sed -n 's/^Ran \([0-9]*\) tests\{0,1\} in .*/\1/p' "$log")
	if [ -z "$run" ]; then
		fail "$version $name" "$(why $rc), no result" "$log"
		return
	fi
	skips=$(grep -c " skipped ['\"]" "$log") || true
	bad=$(grep -cE '^(ERROR|FAIL|UNEXPECTED SUCCESS): ' "$log") || true
	suite "$version $name" $rc $((run - bad - skips)) "$bad" "$skips" "$log"
	grep -E '^(ERROR|FAIL|UNEXPECTED SUCCESS): ' "$log" | sed 's/^/      /' || true
	sed -n "s/.* skipped ['\"]\(.*\)['\"]\$/\1/p" "$log" | reasons
}

# The same binaries of the core's tests below the distribution's rdma-core, 56 and the newest.
peer_core_releases() {
	local dir system

	system=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk '$1 == "libefa.so.1" { print $NF; exit }')
	for dir in "${system%/*}" "$deps/rdma-core-56/lib" "$(newest_prefix)/lib"; do
		if [ -e "$dir/libefa.so.1" ]; then
			core_release "$dir"
		else
			skipped=$((skipped + 1))
			echo "      skipped: no libefa in $dir"
		fi
	done
}

# core_release LIBDIR
core_release() {
	local release log rc=0

	release=$(readlink -e "$1/libefa.so.1")
	release=${release#*/libefa.so.1.*.}
	log=$logs/core-$release
	LD_LIBRARY_PATH=$1 BUILD=$build "$root/scripts/run-tests.sh" "$build"/integration/core_* >"$log" 2>&1 || rc=$?
	# shellcheck disable=SC2046  # three numbers
	suite "core's tests on libefa $release" $rc $(sed -n \
		's/^tests: \([0-9]*\) passed, \([0-9]*\) skipped, \([0-9]*\) programs.*/\1 \3 \2/p' "$log") "$log"
	grep '^FAIL' "$log" | sed 's/^/      /' || true
	awk '/^ *[|] +[0-9]+ skipped: / { n = $2; sub(/.*skipped: /, ""); sum[$0] += n }
		END { for (r in sum) printf "%7d %s\n", sum[r], r }' "$log" | sort -rn | sed 's/^ */      skipped /'
}
