# SPDX-License-Identifier: BSD-3-Clause
"""What softefa_traffic.c measures with one process, through the Python package efa: the same
operations, sizes, windows and batches. Rows: op bytes - messages/s. With "calls" what srd_calls.c
measures with "write". Rows: python call batch ns."""

import ctypes
import mmap
import sys
import time

import efa

DEPTH = 256
BATCH = 16
ROOM = 1 << 20
QKEY = 0x600D0000
WAIT_S = 30
CALLS = sys.argv[1:] == ["calls"]
RUN_S = float(sys.argv[1]) / 1e3 if len(sys.argv) > 1 and not CALLS else 0.04
CASES = [
    ("send", 8, 64),
    ("send", 4096, 64),
    ("write", 8, 64),
    ("write", 4096, 64),
    ("write", 65536, 16),
    ("write", 1 << 20, 4),
    ("read", 8, 64),
    ("read", 4096, 64),
    ("read", 65536, 16),
    ("read", 1 << 20, 4),
]
OPS = {"send": efa.WROpcode.SEND, "write": efa.WROpcode.RDMA_WRITE, "read": efa.WROpcode.RDMA_READ}
ALL = efa.AccessFlags.LOCAL_WRITE | efa.AccessFlags.REMOTE_WRITE | efa.AccessFlags.REMOTE_READ


class End:
    def __init__(self, context, pd):
        self.scq, self.rcq = context.create_cq_ex(2 * DEPTH), context.create_cq_ex(2 * DEPTH)
        self.qp = pd.create_qp(
            efa.QPInitAttr(
                send_cq=self.scq, recv_cq=self.rcq, max_send_wr=DEPTH, max_recv_wr=DEPTH
            )
        ).prepare(qkey=QKEY, rnr_retry=7)
        self.memory = mmap.mmap(-1, 2 * ROOM)
        self.memory[:] = b"\1" * (2 * ROOM)  # else all of it is one page of zeroes
        self.addr = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.mr = pd.reg_mr(self.addr, 2 * ROOM, ALL)
        self.receive = efa.RecvWR(sg_list=[self.mr.sge(8192, ROOM)])
        for _ in range(DEPTH):
            self.qp.post_recv(self.receive)


def requests(op, size, end, other, peer, count):
    """Made once and posted again and again, which is the best that can be done."""
    read = op == "read"
    return [
        efa.SendWR(
            sg_list=[end.mr.sge(size, ROOM if read else 0)],
            opcode=OPS[op],
            send_flags=efa.SendFlags.SIGNALED,
            dest=peer,
            remote_addr=other.addr + (0 if read else ROOM),
            rkey=other.mr.rkey,
        )
        for _ in range(count)
    ]


def rate(op, size, window, end, other, peer):
    batch = window // 2 if window < BATCH else BATCH
    wrs = requests(op, size, end, other, peer, batch)
    under_way = n = 0
    start = at = time.monotonic()
    stop = start + RUN_S
    while under_way or at < stop:
        while at < stop and window - under_way >= batch:
            end.qp.post_send(wrs)
            under_way += batch
        got = end.scq.poll(16)
        for wc in got:
            wc.raise_for_status()
        for wc in other.rcq.poll(16):
            wc.raise_for_status()
            other.qp.post_recv(other.receive)
        under_way -= len(got)
        n += len(got)
        at = time.monotonic()
        if at > stop + WAIT_S:
            raise TimeoutError("no completion")
    return n / (at - start)


def calls(batch, end, other, peer):
    wrs = requests("write", 8, end, other, peer, batch)
    posts, polls = [], []
    for _ in range(13):
        start = time.perf_counter_ns()
        end.qp.post_send(wrs)
        posts.append(time.perf_counter_ns() - start)
        time.sleep(0.06)
        start = time.perf_counter_ns()
        got = len(end.scq.poll(batch))
        if got == batch:
            polls.append(time.perf_counter_ns() - start)
        while got < batch:
            got += len(end.scq.poll(batch))
    print("python post", batch, round(min(posts) / batch))
    print("python sent", batch, round(min(polls) / batch))


def main():
    context = min(efa.get_efa_device_list(), key=lambda device: device.name).open()
    pd = context.alloc_pd()
    end, other = End(context, pd), End(context, pd)
    # Both know each other: who is unknown may not write.
    peer = efa.local_endpoint_info(other.qp, qkey=QKEY).peer(pd)
    back = efa.local_endpoint_info(end.qp, qkey=QKEY).peer(pd)
    if CALLS:
        calls(1, end, other, peer)
        calls(16, end, other, peer)
    for op, size, window in [] if CALLS else CASES:
        print(op, size, "-", round(rate(op, size, window, end, other, peer)))
    back.close()


main()
