# SPDX-License-Identifier: BSD-3-Clause
"""All-reduce of PyTorch on all ranks, verified, and its bus bandwidth, in a form that check.py reads. Start it by torchrun.sh."""
import os
import sys
import time

import torch
import torch.distributed as dist

SIZES = [1 << n for n in range(10, 31, 2)]  # bytes
ITERS = 20


def measure(size, rank, ranks):
    """Seconds of one all-reduce, and how many elements are wrong."""
    count = size // 4
    data = torch.full((count,), float(rank + 1), device="cuda")
    dist.all_reduce(data)
    wrong = int((data != ranks * (ranks + 1) / 2).sum())
    for _ in range(5):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    start = time.monotonic()
    for _ in range(ITERS):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    # of all ranks: the slowest time, and all that is wrong
    seconds = torch.tensor([(time.monotonic() - start) / ITERS], device="cuda")
    total = torch.tensor([wrong], device="cuda")
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    dist.all_reduce(total)
    return float(seconds), int(total)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    out = print if rank == 0 else lambda *_: None
    all_wrong = 0
    out("# Collective test starting: torch_all_reduce")
    out("# size count type redop time algbw busbw #wrong")
    for size in SIZES:
        seconds, wrong = measure(size, rank, ranks)
        algbw = size / seconds / 1e9
        all_wrong += wrong
        out(f"{size:12} {size // 4:12} float sum {seconds * 1e6:9.1f} {algbw:8.2f} {algbw * 2 * (ranks - 1) / ranks:8.2f} {wrong}")
    out(f"# Out of bounds values : {all_wrong} {'FAILED' if all_wrong else 'OK'}")
    dist.destroy_process_group()
    return 1 if all_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
