# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# The Python package efa, as users install it, and its own tests, those that want devices included. Part of peers.sh.
# shellcheck disable=SC2034,SC2154  # options, logs, deps: peers.sh's

peer_python_efa() {
	local dir=$deps/python-efa log=$logs/python-efa rc=0

	# Their file of settings names the tests' marks; no other is looked at.
	options=(--profile efa2)
	run "$log" env -C "$dir/src" LD_LIBRARY_PATH="$(newest_prefix)/lib" PYTHONDONTWRITEBYTECODE=1 \
		"$dir/bin/python" -m pytest -p no:cacheprovider -rsfE --tb=short tests || rc=$?
	pytest_result "efa $(cut -d ' ' -f 1 "$dir/made")" "$log" $rc
}
