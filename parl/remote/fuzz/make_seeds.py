#!/usr/bin/env python3
"""Writes the seeds of the fuzz corpus: well-formed messages, from which a fuzzer starts. Usage: make_seeds.py [FOLDER]

What a fuzzer found beyond them lies in the same folders under the names that libFuzzer gives. The first bytes of each file
steer the target (fuzz_*.cc); the rest is what a peer would send.
"""
import struct
import sys
from pathlib import Path

KIND = {"hello": 64, "challenge": 65, "proof": 66, "welcome": 67, "refuse": 68, "offer": 69, "beat": 70, "bye": 71, "output": 72}


def u8(x): return struct.pack("<B", x)
def u32(x): return struct.pack("<I", x)
def u64(x): return struct.pack("<Q", x)
def i64(x): return struct.pack("<q", x)
def f8(x): return struct.pack("<d", x)
def text(s): return u64(len(s)) + (s.encode() if isinstance(s, str) else s)


def array(dtype, shape, data=b""): return u8(dtype) + u8(len(shape)) + b"".join(i64(n) for n in shape) + data


def attachments(*sizes):
    """How fuzz.cc reads them: a count, then for each a size code and what it is filled with."""
    out = u8(len(sizes))
    for size, fill in sizes:
        out += struct.pack("<H", size - 65536) + u8(fill)
    return out


def frame(kind, number, head, bodies=(), where=0):
    table = b"".join(u64(len(b) if where == 0 else 100) + u64(0) + u32(0) + u32(where) for b in bodies)
    body = b"".join(bodies) if where == 0 else b""
    return u32(0x4C524150) + u8(kind) + bytes(3) + u64(number) + u64(len(head)) + u32(len(bodies)) + u32(0) + table + head + body


def chunk(number, data): return u32(0x4B4C5250) + u32(number) + u32(len(data)) + u32(0) + data


def greeting(token, nonce=32, mark="parl-remote", protocol=3, role=0):
    return text(mark) + u32(protocol) + text(bytes(range(nonce))) + u8(token) + i64(4711) + text("somewhere") + u8(role)


def archive_seeds():
    numbers = u8(1) + u8(0x80) + struct.pack("<H", 9) + u32(7) + u64(1) + struct.pack("<f", 1.5) + f8(-2) + b"c" + struct.pack("<H", 1)
    containers = (text("abc") + u64(2) + bytes(8) + u64(2) + b"\1\0" + u64(2) + text("x") + text("") + bytes(12) + b"\1\0" +
                  bytes(4) + b"\1" + f8(3) + b"\1" + u8(5) + text("pair") + u8(0) + u64(1) + text("key") + b"\1\1\0" +
                  u64(2) + u64(1) + b"\1\0" + u64(0) + u32(2) + text("either"))
    tree = u32(1) + u64(1) + u32(2) + u64(0) + u8(0) + u8(1) + u32(3) + u64(0) + u8(0)
    small = array(9, [2, 3], bytes(24))
    offer = u32(4) + u8(0) + u64(1) + text("Counter") + text("1 Counter get()->i4") + u64(2) + text("()") + text("(i4)")
    place = u32(1) + text("Counter#1") + text("tcp") + u64(1) + u32(0) + u64(0) + text("/tmp/x") + u32(0)
    failure = u32(0) + text("it failed") + text("std::runtime_error") + text("") * 4 + text("") + i64(9) + u64(1) + text("a.f")
    none = u8(0)
    yield none + numbers
    yield none + none + numbers[:-1]
    yield u8(1) + none + containers
    yield u8(2) + attachments((80000, 1), (70000, 2)) + small + u64(1) + small + u64(0) + text("t")
    yield u8(2) + attachments((80000, 1)) + small + u64(0) + u64(0) + text("t")
    yield u8(3) + none + tree
    yield u8(3) + none + (u32(1) + u64(1)) * 40
    yield u8(4) + none + small
    yield u8(4) + none + array(9, []) + bytes(4)
    yield u8(4) + attachments((65540, 3)) + array(9, [16385])
    yield u8(4) + none + array(0, [3], b"\1\0\2")
    yield u8(4) + none + array(1, [1 << 40, 1 << 40])
    yield u8(5) + attachments((70000, 65)) + u64(70000)
    yield u8(6) + none + u64(2) + u64(1) + bytes(4) + u64(0)
    yield u8(7) + none + b"\1\1\1" + u32(5)
    yield u8(8) + none + u64(1) + text("a") + u64(1) + f8(1) + b"\1"
    yield u8(9) + none + u64(3) + u32(1) + u32(2) + u32(1)
    yield u8(10) + none + u64(2) + f8(float("nan")) + f8(1)
    yield u8(11) + none + u64(1) + struct.pack("<f", 1) + small
    yield u8(12) + none + i64(1) + u64(5) + u8(0) + small + i64(1) + u64(0) + i64(2) + u64(5) + u8(1)
    yield u8(13) + none + offer
    yield u8(14) + none + text("Counter") + text("fingerprint") + text("()") + place + u64(1 << 20)
    yield u8(15) + none + failure


def frames_seeds():
    small = frame(5, 1, b"head") + frame(6, 2, b"")
    large = frame(5, 3, b"x" * 300, [b"b" * 5000, b"", b"c" * 10])
    shared = frame(5, 4, b"x", [b"s"], where=1)
    for cut in (0, 1, 77):
        yield u8(1) + u8(cut) + small + large
        yield u8(0) + u8(cut) + chunk(1, small) + chunk(2, large[:3000]) + chunk(1, small[:20]) + chunk(2, large[3000:]) + chunk(1, small[20:])
        yield u8(3) + u8(cut) + u8(1) + u8(3) + b"abc" + attachments((66000, 1)) + u8(9) + u32(1) + u8(2) + u8(0) + u8(0) + u8(7) + u32(2)
    yield u8(1) + u8(5) + shared + small
    yield u8(5) + u8(0) + small
    yield u8(4) + u8(9) + chunk(0, small)
    yield u8(0) + u8(0) + b"".join(chunk(i, small[:8]) for i in range(6))
    yield u8(1) + u8(0) + small[:4] + u8(1) + bytes(3) + u64(0) + u64(1 << 50) + u32(1 << 30) + u32(0)
    yield u8(3) + u8(3) + (u8(0) + u8(200) + b"y" * 200 + attachments((65600, 9), (90000, 8)) + u8(1) + u32(77)) * 5


def calls_seeds():
    def far(kind, number, head, attached=u8(0)): return u8(kind) + u8(number) + attached + u8(len(head)) + head
    failure = u32(0) + text("no") + text("E") + text("") * 4 + text("") + i64(9) + u64(0)
    created = u8(0) + u8(0)
    def submit(which, argument=b"", waits=0): return u8(0) + u8(which) + argument + u8(waits)
    yield created + submit(0) + u8(6) + far(6, 1, u32(3))
    yield created + submit(0) + submit(5) + u8(6) + far(6, 1, u32(3)) + u8(6) + far(6, 2, b"")
    yield created + submit(2, u8(3)) + u8(7) + far(7, 1, failure)
    yield created + submit(1, struct.pack("<H", 40000), 1) + u8(6) + far(6, 1, array(2, [70000]), attachments((70000, 3)))
    yield created + submit(3) + u8(12) + u8(0) + u8(6) + far(6, 1, u64(1) + text("a") + u8(0))
    yield created + submit(4) + u8(13) + u8(6) + far(6, 1, i64(1)) + u8(6) + far(11, 0, b"")
    yield created + submit(0) + submit(0) + u8(15) + u8(6) + far(6, 1, u32(3)) + u8(14)
    yield created + submit(0) + u8(6) + far(6, 2, u32(3))
    yield created + submit(6) + u8(6) + far(7, 0, failure)
    yield u8(0) + u8(200) + far(7, 0, failure)
    yield created + submit(0) + u8(6) + far(199, 1, b"") + submit(0) + u8(14)
    name = far(5, 0, text("subject"))
    yield u8(1) + name + far(5, 1, u32(0) + u32(1) + u32(2))
    yield u8(1) + name + far(5, 1, u32(1) + array(2, [70000]), attachments((70000, 1)))
    yield u8(1) + name + far(5, 1, u32(2) + text("you")) + far(5, 6, u32(2) + text("you"))
    yield u8(1) + name + far(5, 1, u32(3) + u64(1) + text("k") + u8(1) + u32(1) + u64(1) + text("w"))
    yield u8(1) + name + far(5, 1, u32(4) + i64(1) + u64(8) + u8(0) + array(2, [1], b"x")) + far(5, 2, u32(4) + i64(2) + u64(8) + u8(1))
    yield u8(1) + name + far(5, 1, u32(5)) + far(5, 2, u32(6) + text("why")) + far(5, 3, u32(7))
    yield u8(1) + far(5, 0, text("subject") + b"more")


def handshake_seeds():
    def say(kind, head, number=0): return chunk(0, frame(KIND[kind], number, head))
    hello, proof = say("hello", greeting(0)), say("proof", text(""))
    offer = say("offer", u32(4) + u8(0) + u64(1) + text("Counter") + text("f") + u64(1) + text("()") + u64(1) + u32(0) + u64(1) + u32(0))
    thing = say("offer", u32(0) + u8(1) + u64(1) + text("Counter") + text("f") + u64(0) + u64(0) + u64(0))
    bye = say("bye", text("I go") + u8(0))
    yield u8(0) + hello + proof + offer + bye
    yield u8(0) + hello + proof + thing + say("output", text("a line\nand ")) + say("beat", u64(1 << 20) + f8(1.5)) + chunk(1, frame(4, 0, b""))
    yield u8(0) + hello + proof + offer + chunk(1, frame(6, 1, b"x", [b"y" * 5000])) + chunk(1, frame(11, 0, b""))
    yield u8(0) + hello + proof + bye
    yield u8(0) + hello + hello
    yield u8(0) + say("hello", greeting(0, protocol=99))
    yield u8(0) + say("hello", greeting(0, nonce=8))
    yield u8(0) + say("hello", greeting(0, mark="another"))
    yield u8(2) + hello
    yield u8(0) + say("hello", greeting(0, role=1)) + proof
    yield u8(2) + say("hello", greeting(1)) + say("proof", text(bytes(32)))
    challenge = say("challenge", greeting(0))
    welcome = say("welcome", text("") + i64(1000))
    create = chunk(1, frame(3, 0, text("Counter") + text("f") + text("()") + u32(0) + text("n") + text("tcp") + u64(0) + u64(0) + text("") + u32(0) + u64(0)))
    yield u8(1) + challenge + welcome + create + chunk(1, frame(9, 0, b""))
    yield u8(1) + challenge + welcome + create + chunk(1, frame(5, 1, u32(0))) + chunk(2, frame(10, 0, b""))
    yield u8(1) + challenge + welcome + bye
    yield u8(1) + challenge + welcome + say("bye", text("left") + u8(1))
    yield u8(1) + challenge + say("refuse", text("no") + u8(0))
    yield u8(1) + challenge + say("welcome", text("") + i64(-1))
    yield u8(1) + welcome
    yield u8(3) + say("challenge", greeting(1)) + say("welcome", text(bytes(32)) + i64(1000))
    yield u8(3) + challenge
    versions, value, forget = 0xFFFFFFFF, 96, 97
    known = chunk(1, frame(3, 0, text("Counter") + text("f") + text("()") + u32(0) + text("n") + text("tcp") + u64(0) + u64(0) + text("") + u32(0) + u64(0) + i64(1) + u64(1) + u8(1)))
    yield u8(1) + challenge + welcome + chunk(versions, frame(value, 1, text("value"), [b"y" * 5000])) + known + chunk(versions, frame(forget, 1, b""))
    yield u8(1) + challenge + welcome + known + chunk(versions, frame(value, 2, text("late"))) + chunk(versions, frame(value, 1, b"")) + chunk(versions, frame(9, 1, b""))


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "corpus"
    for name, seeds in {"archive": archive_seeds, "frames": frames_seeds, "calls": calls_seeds, "handshake": handshake_seeds}.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i, seed in enumerate(seeds()):
            (folder / name / f"seed-{i:02d}").write_bytes(seed)


if __name__ == "__main__":
    main()
