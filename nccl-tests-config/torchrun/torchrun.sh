#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# torchrun.sh HOSTS RANK ADDRESS [OPTION OF run.sh]...: on each of HOSTS hosts, with its number RANK (0 ...) and the address of number 0:
# an all-reduce of PyTorch on all GPUs, verified. run.sh checks the host and says the environment.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 3 ] || { echo "usage: torchrun.sh HOSTS RANK ADDRESS [OPTION OF run.sh]..." >&2; exit 3; }
hosts=$1 rank=$2 address=$3
shift 3
settings=$("$here/../run.sh" "$@" --print-env)
while IFS= read -r setting; do
	export "${setting?}"
done <<<"$settings"
exec torchrun --nnodes "$hosts" --node-rank "$rank" --nproc-per-node gpu --master-addr "$address" --master-port "${PORT:-29500}" \
	"$here/all_reduce.py"
