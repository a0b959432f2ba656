# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# The Python package efa, as users install it: its own tests, those that want devices included, and traffic with a
# program on libsrd. Part of peers.sh.
# shellcheck disable=SC2034,SC2154  # options, logs, deps, build, root: peers.sh's

peer_python_efa() {
	local dir=$deps/python-efa log=$logs/python-efa rc=0

	# Their file of settings names the tests' marks; no other is looked at.
	options=(--profile efa2)
	run "$log" env -C "$dir/src" LD_LIBRARY_PATH="$(newest_prefix)/lib" PYTHONDONTWRITEBYTECODE=1 \
		"$dir/bin/python" -m pytest -p no:cacheprovider -rsfE --tb=short tests || rc=$?
	pytest_result "efa $(cut -d ' ' -f 1 "$dir/made")" "$log" $rc
}

peer_python_libsrd() {
	local dir=$deps/python-efa log=$logs/python-libsrd libs rc=0

	options=(--profile efa2)
	libs=$(newest_prefix)/lib
	run "$log" env LD_LIBRARY_PATH="$libs" SRD_END="$build/peers/srd_end" PYTHONDONTWRITEBYTECODE=1 \
		"$dir/bin/python" -m pytest -p no:cacheprovider -rsfE --tb=short "$root/tests/peers" || rc=$?
	pytest_result "efa $(cut -d ' ' -f 1 "$dir/made") with libsrd" "$log" $rc
}
