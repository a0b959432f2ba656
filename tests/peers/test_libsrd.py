# SPDX-License-Identifier: BSD-3-Clause
"""The Python package efa and libsrd understand each other: endpoints byte for byte, and each
operation in both directions. One end is here, the other is srd_end.c, which SRD_END names."""

import ctypes
import mmap
import os
import random
import subprocess
import time

import efa
import numpy
import pytest

HALF = 4 << 20  # as srd_end has it: source, then target
CHUNK = 65536
QKEY = 0x11110001
WAIT_S = 30
ALL = efa.AccessFlags.LOCAL_WRITE | efa.AccessFlags.REMOTE_WRITE | efa.AccessFlags.REMOTE_READ
OPS = {
    "send": efa.WROpcode.SEND,
    "send_imm": efa.WROpcode.SEND_WITH_IMM,
    "write": efa.WROpcode.RDMA_WRITE,
    "write_imm": efa.WROpcode.RDMA_WRITE_WITH_IMM,
    "read": efa.WROpcode.RDMA_READ,
}


def data(n, seed):
    x = numpy.arange(n, dtype=numpy.uint32) * numpy.uint32(2654435761)
    return ((x + numpy.uint32(seed * 40503 % 2**32)) >> 24).astype(numpy.uint8).tobytes()


class Srd:
    """The program on libsrd; say() is one line and its answer."""

    def __init__(self, *args):
        self.process = subprocess.Popen(
            [os.environ["SRD_END"], *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def tell(self, *words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        assert line.endswith("\n"), "srd_end has ended with %s" % self.process.wait(WAIT_S)
        return line.strip()

    def say(self, *words):
        self.tell(*words)
        return self.hear()

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(WAIT_S) == 0


class Python:
    """The same here."""

    def __init__(self, unsolicited):
        self.context = efa.get_efa_device_list()[0].open()
        self.pd = self.context.alloc_pd()
        self.scq = self.context.create_cq(64)
        self.rcq = self.context.create_cq_ex(64, unsolicited=unsolicited)
        self.qp = self.pd.create_qp(
            efa.QPInitAttr(
                send_cq=self.scq,
                recv_cq=self.rcq,
                max_send_wr=64,
                max_recv_wr=64,
                unsolicited_write_recv=unsolicited,
            )
        ).prepare(qkey=QKEY)
        self.memory = mmap.mmap(-1, 2 * HALF)
        self.anchor = ctypes.c_char.from_buffer(self.memory)
        self.addr = ctypes.addressof(self.anchor)
        self.mr = self.pd.reg_mr(self.addr, 2 * HALF, ALL)

    def info(self):
        return efa.local_endpoint_info(self.qp, qkey=QKEY)

    def meet(self, card):
        wire, addr, rkey = card.split()
        self.peer = efa.EndpointInfo.from_bytes(bytes.fromhex(wire)).peer(self.pd)
        self.remote, self.rkey = int(addr), int(rkey)

    def fill(self, n, seed):
        self.memory[:n] = data(n, seed)
        self.memory[HALF:] = bytes(HALF)

    def has(self, n, seed):
        return self.memory[HALF:] == data(n, seed) + bytes(HALF - n)

    def receive(self, n):
        self.qp.post_recv(efa.RecvWR(sg_list=[self.mr.sge(n, HALF)]))

    def wait(self, cq):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            for wc in cq.poll(1):
                wc.raise_for_status()
                return wc
        raise TimeoutError("no completion")

    def post(self, op, n, imm):
        if op == "write":
            wrs = efa.write_wrs(
                self.mr, self.peer, self.remote + HALF, self.rkey, length=n, chunk=CHUNK
            )
        elif op == "read":
            wrs = efa.read_wrs(
                self.mr, self.peer, self.remote, self.rkey, length=n, offset=HALF, chunk=CHUNK
            )
        else:
            wrs = [
                efa.SendWR(
                    sg_list=[self.mr.sge(n)],
                    opcode=OPS[op],
                    send_flags=efa.SendFlags.SIGNALED,
                    dest=self.peer,
                    imm_data=imm if op.endswith("imm") else 0,
                    remote_addr=self.remote + HALF,
                    rkey=self.rkey,
                )
            ]
        for wr in wrs:
            self.qp.post_send(wr)
            self.wait(self.scq)

    def close(self):
        self.peer.close()
        self.mr.close()
        del self.anchor
        self.qp.close()
        self.rcq.close()
        self.scq.close()
        self.pd.close()
        self.context.close()


class Ends:
    def __init__(self, unsolicited=False):
        self.srd = Srd(QKEY + 1, *(["unsolicited"] if unsolicited else []))
        self.python = Python(unsolicited)
        self.srd_qpn = int.from_bytes(bytes.fromhex(self.srd.say("card").split()[0])[16:20], "big")
        self.python.meet(self.srd.say("card"))
        wire = self.python.info().to_bytes().hex()
        assert self.srd.say("meet", wire, self.python.addr, self.python.mr.rkey) == "ok"

    def close(self):
        self.python.close()
        self.srd.close()


@pytest.fixture(params=[False, True], ids=["receives", "unsolicited"])
def ends(request):
    both = Ends(request.param)
    both.unsolicited = request.param
    yield both
    both.close()


@pytest.fixture(scope="module")
def srd():
    program = Srd(QKEY)
    yield program
    program.close()


def test_endpoints_are_the_same_24_bytes(srd):
    some = random.Random(1)
    for qpn in [0, 1, 255, 256, 65535] + [some.randrange(65536) for _ in range(100)]:
        gid, qkey = some.randbytes(16), some.randrange(1 << 32)
        wire = efa.EndpointInfo(gid=gid, qp_num=qpn, qkey=qkey).to_bytes()
        assert srd.say("pack", gid.hex(), qpn, qkey) == wire.hex()
        assert srd.say("unpack", wire.hex()) == "%s %d %d" % (gid.hex(), qpn, qkey)
        back = efa.EndpointInfo.from_bytes(bytes.fromhex(srd.say("pack", gid.hex(), qpn, qkey)))
        assert (back.gid, back.qp_num, back.qkey) == (gid, qpn, qkey)


def test_own_endpoint_has_the_gid_of_the_device(srd):
    wire = bytes.fromhex(srd.say("card").split()[0])
    context = min(efa.get_efa_device_list(), key=lambda device: device.name).open()
    assert wire[:16] == context.query_gid().raw
    assert wire[20:] == QKEY.to_bytes(4, "big")
    context.close()


# Above CHUNK, a write or read is of several requests; a send is no longer than the MTU.
SIZES = {
    "send": [1, 100, 8000],
    "send_imm": [1, 8000],
    "write": [1, 4096, CHUNK, CHUNK + 1, 1 << 20],
    "write_imm": [1, 100000],
    "read": [1, 4096, CHUNK, CHUNK + 1, 1 << 20],
}


@pytest.mark.parametrize("op,n", [(op, n) for op in OPS for n in SIZES[op]])
def test_python_to_libsrd(ends, op, n):
    seed, imm = n + 1, 0xA0B0C0D0 + n
    consumes = op.startswith("send") or (op == "write_imm" and not ends.unsolicited)
    assert ends.srd.say("fill", n, seed) == "ok"
    ends.python.fill(n, seed + 1)
    if consumes:
        assert ends.srd.say("receive", n + 5 if op.startswith("send") else 1) == "ok"
    ends.python.post(op, n, imm)
    if op == "read":
        assert ends.python.has(n, seed)
        return
    if op != "write":
        length, got, qpn, unsolicited = (int(x) for x in ends.srd.say("await").split())
        assert (length, got) == (n, imm if op.endswith("imm") else 0)
        assert qpn == ends.python.qp.qp_num
        assert unsolicited == (not consumes)
    assert ends.srd.say("check", n, seed + 1) == "same"


@pytest.mark.parametrize("op,n", [(op, n) for op in OPS for n in SIZES[op]])
def test_libsrd_to_python(ends, op, n):
    seed, imm = n + 1, 0xA0B0C0D0 + n
    consumes = op.startswith("send") or (op == "write_imm" and not ends.unsolicited)
    assert ends.srd.say("fill", n, seed) == "ok"
    ends.python.fill(n, seed + 1)
    if consumes:
        ends.python.receive(n + 5 if op.startswith("send") else 1)
    assert ends.srd.say("post", op, n, imm) == "ok"
    if op == "read":
        assert ends.srd.say("check", n, seed + 1) == "same"
        return
    if op != "write":
        wc = ends.python.wait(ends.python.rcq)
        assert wc.byte_len == n
        assert not op.endswith("imm") or wc.imm_data == imm
        assert wc.src_qp == ends.srd_qpn
        assert bool(wc.unsolicited) == (not consumes)
    assert ends.python.has(n, seed)
