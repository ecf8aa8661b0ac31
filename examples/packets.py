"""PACKETS: what was sent, from what eight radio receivers in three rooms heard of it.

Receivers of a room suffer from the same interference: their bit errors are correlated, and they are no independent
witnesses. Who stands with whom is found wherever one receiver heard a packet without an error; each room has one vote.

    python examples/packets.py radio.iso

A packet stream is a signal of bytes: windows are packets, the last four bytes their check, and one not heard is a gap.
"""

import sys
import time
import zlib
from pathlib import Path

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

import isochrony as iso

BYTES = 256
ROOMS = [0, 0, 0, 0, 0, 1, 1, 2]


def send(rng: np.random.Generator, count: int) -> np.ndarray:
    """Packets with their check, a row each."""
    payload = rng.integers(0, 256, (count, BYTES - 4), "u1")
    checks = b"".join(zlib.crc32(packet.tobytes()).to_bytes(4, "little") for packet in payload)
    return np.hstack([payload, np.frombuffer(checks, "u1").reshape(-1, 4)])


def record(store: iso.Store, count: int = 20_000, seed: int = 1) -> np.ndarray:
    """Store what receivers heard, with noise of their own and bursts that a room has in common; what was sent."""
    rng = np.random.default_rng(seed)
    packets, bits = send(rng, count), (count, 8 * BYTES)
    at = np.arange(bits[1]) - rng.integers(0, bits[1], (max(ROOMS) + 1, count, 1))
    struck = (at >= 0) & (at < rng.integers(-300, 300, (max(ROOMS) + 1, count, 1)))
    bursts = struck & (rng.random(struck.shape, "f4") < 0.03)
    for k, room in enumerate(ROOMS):
        wrong = bursts[room] & (rng.random(bits, "f4") < 0.9) | (rng.random(bits, "f4") < 4e-4)
        copies = packets ^ np.packbits(wrong, axis=1, bitorder="little")
        signal, kept = store.create(f"receiver_{k}", dtype="u1", rate=BYTES * 1000), rng.random(count) > 0.05
        for run in np.split(np.arange(count), np.flatnonzero(np.diff(kept)) + 1):
            signal.append(copies[run].reshape(-1)) if kept[run[0]] else signal.append_gap(samples=BYTES * len(run))
    store.commit()
    return packets


def receivers(store: iso.Store) -> list[iso.Plan]:
    """The receivers' packets, on the clock of the first."""
    signals = sorted(store.find("receiver_*"), key=lambda signal: signal.name)
    return [iso.scan(signal, clock=signals[0]).rewindow(BYTES) for signal in signals]


def rooms(first: iso.Plan, *others: iso.Plan) -> tuple[list[int], list[float]]:
    """Who stands with whom, and each receiver's bit error rate."""
    matrix = first.error_correlation(*others, every=10**6).collect().reshape(1 + len(others), -1)
    apart = np.triu(1 - np.nan_to_num(matrix), 1)
    tree = linkage(squareform(apart + apart.T), "average")
    return (fcluster(tree, 0.7, "distance") - 1).tolist(), matrix.diagonal().tolist()


def main(path: Path) -> None:
    """Record, find the rooms, put the packets together, and compare."""
    with iso.open(path, "x") as store:
        count = len(record(store))
        first, *others = plans = receivers(store)
        clusters, rates = rooms(*plans)
        print(f"rooms {clusters}, bit error rates {', '.join(f'{rate:.4f}' for rate in rates)}")
        began = time.perf_counter()
        iso.run(first.combine_packets(*others, clusters=clusters, error_rates=rates).sink(store, "sent"))
        took = time.perf_counter() - began
        alone = [plan.combine_packets().rewindow(BYTES).count().collect() for plan in plans]
        together = iso.scan(store["sent"]).rewindow(BYTES).count().collect()
        print(f"{together} of {count} packets, the best receiver alone {max(alone)}; {count / took:,.0f} packets/s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
