# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# rdma-core: its own tools, and its Python suites on two versions of it. Part of peers.sh.
# shellcheck disable=SC2154  # logs, deps, devices: peers.sh's

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
