"""A feed among everything that others can send to its port, for as long as asked: what is recorded is what was sent.

A sender of ours, written here and not with the library, sends samples that say which they are. Others send, to the
same port, noise, changed frames, frames with far counters and stamps, ends that nobody meant, and other senders'
frames; over TCP peers connect that say nothing, a byte now and then, or half a frame. The oracle knows each sample that
was sent validly: each must arrive once, in order, and nothing else.

    python tests/hostile_feed.py 3600 17
"""

from __future__ import annotations

import json
import random
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import isochrony as iso

RATE = 50_000
FRAME = 50
# Samples are (session << SHIFT) + index, so that each says which it is. Sessions count anew where the type ends: those
# of one number lie so far apart that no sample of one is taken for one of another.
SHIFT = 22
SESSIONS = 1 << 31 - SHIFT
BEGIN = 1_767_225_600_000_000_000
DTYPES = 16
I4 = 3
U1 = 5


def table() -> list[int]:
    """The table of CRC-32C, a byte at a time (RFC 3720, appendix B.4)."""
    entries = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        entries.append(byte)
    return entries


CRC = table()


def crc32c(data: bytes) -> int:
    """The checksum of frames."""
    found = 0xFFFFFFFF
    for byte in data:
        found = CRC[(found ^ byte) & 0xFF] ^ found >> 8
    return found ^ 0xFFFFFFFF


def frame(
    session: int,
    first: int,
    samples: bytes,
    *,
    time_ns: int | None = None,
    end: bool = False,
    version: int = 2,
    dtype: int = I4,
) -> bytes:
    """A frame as crates/live/src/frame.rs describes it."""
    civil = -(1 << 63) if time_ns is None else time_ns
    count = len(samples) // (1 if dtype == U1 else 4)
    head = struct.pack("<4sBBHIIQqQII", b"ISOF", version, dtype, 2 * end, session, count, first, civil, 0, 0, 0)
    head += b"" if version == 1 else bytes(8)
    found = crc32c(head + samples)
    return head[:40] + struct.pack("<I", found) + head[44:] + samples


class Session:
    """One sender from its beginning to its end, and what it sent."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.number = number
        self.id = chance.randrange(1 << 32)
        self.next = chance.choice([0, 0, 12_345])
        self.begun = self.next
        self.chance = chance

    def values(self, first: int, end: int) -> np.ndarray:
        """The samples from one index to another."""
        assert end <= 1 << SHIFT, "a session with more samples than it can number"
        return np.arange(first, end, dtype="<i4") + (self.number % SESSIONS << SHIFT)

    def time(self, index: int) -> int:
        """When a sample was taken."""
        return BEGIN + self.number * 10**10 + index * 10**9 // RATE

    def frame(self) -> bytes:
        """The next one."""
        first = self.next
        self.next += FRAME
        version = self.chance.choice([1, 2])
        samples = self.values(first, self.next).tobytes()
        return frame(self.id, first, samples, time_ns=self.time(first), version=version)

    def last(self) -> bytes:
        """Nothing follows."""
        return frame(self.id, self.next, b"", end=True)


def attack(session: Session, chance: random.Random) -> bytes:
    """A datagram that must change nothing."""
    far = chance.choice([1 << 61, 1 << 40, chance.randrange(session.next + 20 * RATE, 1 << 62)])
    stamp = chance.choice([-(1 << 62), 0, (1 << 63) - 1, session.time(session.next) + 10**12])
    kind = chance.randrange(10)
    # Values that nobody sends validly.
    values = struct.pack("<i", -1 - kind) * FRAME
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 1400))
    if kind == 1:
        changed = bytearray(frame(session.id, session.next, values, time_ns=session.time(session.next)))
        # The checksum tells up to five changed bits of frames of this length.
        for bit in chance.sample(range(8 * len(changed)), chance.randrange(1, 4)):
            changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)
    if kind == 2:
        return frame(session.id, far, values, time_ns=session.time(session.next))
    if kind == 3:
        return frame(session.id, session.next, values, time_ns=stamp)
    if kind == 4:
        return frame(session.id, far, b"", end=True)
    if kind == 5:
        return frame(session.id, 0, b"", end=True) if session.next else b""
    if kind == 6:
        return frame(chance.randrange(1 << 32), chance.randrange(1 << 62), values, end=chance.random() < 0.5)
    if kind == 7:
        whole = frame(session.id, session.next, values)
        return whole[: chance.randrange(len(whole))]
    if kind == 8:
        return frame(session.id, session.next, values, dtype=chance.choice([one for one in range(DTYPES) if one != I4]))
    return description(session, chance)


def description(session: Session, chance: random.Random) -> bytes:
    """What somebody says of a recording (crates/live/src/frame/description.rs): true of none, or no such text."""
    text = json.dumps(
        {
            "rate": chance.choice([[RATE, 1], [RATE, 1], [7, 0], [1 << 63, 1], "fast"]),
            "unit": chance.choice(["V", "x" * 300, "\x1b[2J", 5]),
            "scale": chance.choice(["2", "nan", "0", "-1e999", 3]),
            "times": "all",
            "attributes": chance.choice([{}, {"a": "b" * 900}, {"isochrony": 1}, [[[]]], None]),
        }
    ).encode()
    text = text[: chance.choice([len(text), chance.randrange(len(text))])]
    who = chance.choice([session.id, chance.randrange(1 << 32)])
    return frame(who, 0, b"ISODESC\x01" + text, dtype=U1)


class Recorder:
    """Runs a plan over the feed, and compares what it is given with what was sent while it comes.

    Comparing at once takes no memory, however long the feed is, and stops at the first wrong sample.
    """

    def __init__(self, address: str, sessions: list[Session], **options: Any) -> None:
        self.listener = iso.listen(address, dtype="i4", rate=RATE, silence=20, **options)
        self.sessions = sessions
        # Which sample must come next: of which session, at which index, `None` where it begins.
        self.session = 0
        self.index: int | None = None
        self.received = 0
        self.failed: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            iso.scan(self.listener, segment=RATE).each(self._take).run()
        except BaseException as error:
            self.failed = error
            # The sender may fail, too, since nobody listens any more; this is why.
            traceback.print_exception(error)

    def _take(self, values: np.ndarray, _: int) -> None:
        values = np.array(values).reshape(-1)
        while len(values):
            # A session has said all once there is another; until then it has sent at least what arrived.
            over = self.session + 1 < len(self.sessions)
            assert self.session < len(self.sessions), f"{len(values)} samples that nobody sent"
            session = self.sessions[self.session]
            if self.index is None:
                self.index = session.begun
            end = min(session.next, self.index + len(values))
            if end == self.index:
                assert over, f"samples that nobody sent, from {values[0]} on"
                self.session, self.index = self.session + 1, None
                continue
            size = end - self.index
            wrong = np.flatnonzero(values[:size] != session.values(self.index, end))
            if len(wrong):
                raise AssertionError(
                    f"session {self.session}, index {self.index + int(wrong[0])}: {values[wrong[0]]} is wrong "
                    f"(session {values[wrong[0]] >> SHIFT}, index {values[wrong[0]] & (1 << SHIFT) - 1})"
                )
            values = values[size:]
            self.index, self.received = end, self.received + size

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.listener.address.rpartition(":")[2])

    def check(self) -> None:
        """Raise what went wrong so far."""
        if self.failed is not None:
            raise self.failed

    def result(self) -> dict[str, Any]:
        """Wait for its end, and check that all that was sent has come."""
        self.thread.join()
        self.check()
        counts = self.listener.counts
        sent = sum(session.next - session.begun for session in self.sessions)
        outcome = {"sent": sent, "received": self.received, "sessions": len(self.sessions), "counts": counts}
        assert self.received == sent, outcome
        # No session of ours describes itself: all that do are forged.
        assert self.listener.sender_unit is None, self.listener.sender_unit
        assert counts["lost_samples"] == counts["overrun_frames"] == 0, outcome
        return outcome


def datagrams(seconds: float, chance: random.Random) -> dict[str, Any]:
    """A sender that is started anew now and then, whose frames are shuffled and doubled, among attacks."""
    sessions: list[Session] = []
    recorder = Recorder("udp://127.0.0.1:0", sessions, reorder=0.5, buffer=64 << 20)
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.connect(("127.0.0.1", recorder.port))
    end = time.monotonic() + seconds
    while not sessions or time.monotonic() < end:
        recorder.check()
        session = Session(len(sessions), chance)
        sessions.append(session)
        # Nobody can tell who the sender is before it said something.
        for _ in range(5):
            out.send(session.frame())
        time.sleep(0.01)
        stop = min(time.monotonic() + chance.uniform(1, 4), end)
        while time.monotonic() < stop:
            burst = [session.frame() for _ in range(10)]
            burst += [chance.choice(burst) for _ in range(chance.randrange(2))]
            # Attackers see the sender's counts, but not before they are on the wire.
            if chance.random() < 0.3:
                burst += [attack(session, chance) for _ in range(chance.randrange(1, 4))]
            chance.shuffle(burst)
            for datagram in filter(None, burst):
                out.send(datagram)
            time.sleep(10 * FRAME / RATE)
        time.sleep(chance.choice([0, 0.3, 1.5]))
    # The last one is heard when the one before it is silent for a second.
    time.sleep(1.5)
    for _ in range(5):
        out.send(sessions[-1].last())
        time.sleep(0.02)
    return recorder.result()


def connect(port: int) -> socket.socket:
    """A connection to the feed."""
    return socket.create_connection(("127.0.0.1", port))


def linger(port: int, chance: random.Random, stop: threading.Event) -> None:
    """A peer that connects and says next to nothing, until told to stop."""
    half = Session(500, chance).frame()[: chance.choice([0, 10, 60, 200])]
    kind = chance.randrange(3)
    try:
        with connect(port) as peer:
            if kind == 0:
                peer.sendall(half)
            for at in range(len(half) if kind == 1 else 0):
                peer.sendall(half[at : at + 1])
                if stop.wait(0.2):
                    return
            if kind == 2:
                peer.sendall(chance.randbytes(chance.randrange(1, 3000)))
            stop.wait(chance.uniform(0, 5))
    except OSError:
        # It was turned away.
        return


def connections(seconds: float, chance: random.Random) -> dict[str, Any]:
    """Senders that connect again at once, or begin a session on their connection, among peers that only hang on."""
    sessions: list[Session] = []
    recorder = Recorder("tcp://127.0.0.1:0", sessions)
    stop = threading.Event()
    peers: list[threading.Thread] = []
    end = time.monotonic() + seconds
    sender = None
    while not sessions or time.monotonic() < end:
        recorder.check()
        peers = [peer for peer in peers if peer.is_alive()]
        for _ in range(chance.randrange(3) if len(peers) < 20 else 0):
            own = random.Random(chance.random())
            peers.append(threading.Thread(target=linger, args=(recorder.port, own, stop)))
            peers[-1].start()
        if sender is None or chance.random() < 0.7:
            if sender is not None:
                sender.close()
            sender = connect(recorder.port)
        session = Session(len(sessions), chance)
        sessions.append(session)
        for _ in range(chance.randrange(1, 100)):
            sender.sendall(b"".join(session.frame() for _ in range(chance.randrange(1, 10))))
        time.sleep(chance.choice([0, 0, 0.05]))
    assert sender is not None
    sender.sendall(sessions[-1].last())
    sender.close()
    try:
        return recorder.result()
    finally:
        stop.set()
        for peer in peers:
            peer.join()


def hostile(seconds: float, seed: int = 1) -> dict[str, Any]:
    """Run both halves and give their counts; raises if anything is wrong."""
    halves: dict[str, Callable[[float, random.Random], dict[str, Any]]] = {
        "datagrams": datagrams,
        "connections": connections,
    }
    outcomes = {name: half(seconds / 2, random.Random(seed)) for name, half in halves.items()}
    check_attacked(outcomes["datagrams"])
    return {"seed": seed, "seconds": seconds} | outcomes


def check_attacked(outcome: dict[str, Any]) -> None:
    """Whether every kind of attack reached the listener: one that never arrives shows nothing."""
    kinds = ("malformed_frames", "duplicate_frames", "reordered_frames", "foreign")
    assert min(outcome["counts"][kind] for kind in kinds) > 0, outcome


if __name__ == "__main__":
    arguments = [float(argument) for argument in sys.argv[1:]]
    print(
        json.dumps(
            hostile(arguments[0] if arguments else 3600, int(arguments[1]) if len(arguments) > 1 else 1), indent=1
        )
    )
