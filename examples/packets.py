"""PACKETS: what was sent, from what eight radio receivers in three rooms heard of it.

Receivers of a room suffer from the same interference: their bit errors are correlated. Who stands with whom is found
where one of them heard a packet without an error. Each room has one vote; who is unknown is left out, aloud.

    python examples/packets.py radio.iso

A packet stream is a signal of bytes: windows are packets, the last four bytes their check; one not heard is a gap.
"""

import sys
import zlib
from pathlib import Path

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

import isochrony as iso

BYTES = 256
ROOMS = [0, 0, 0, 0, 0, 1, 1, 2]


def send(rng: np.random.Generator, count: int) -> np.ndarray:
    payload = rng.integers(0, 256, (count, BYTES - 4), "u1")
    checks = np.array([zlib.crc32(packet.tobytes()) for packet in payload], "<u4")
    return np.hstack([payload, checks.view("u1").reshape(-1, 4)])


def record(store: iso.Store, count: int = 20_000, seed: int = 1) -> np.ndarray:
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
    signals = [store[name] for name in sorted(store.keys("receiver_*"))]
    return [iso.scan(signal, clock=signals[0]).rewindow(BYTES) for signal in signals]


def rooms(plans: list[iso.Plan]) -> tuple[list[iso.Plan], list[int], list[float]]:
    """The receivers that can be told of, who stands with whom, and each one's bit error rate."""
    rows = plans[0].error_correlation(*plans[1:], every=10**6).collect()
    matrix = rows[0].reshape(len(plans), -1) if len(rows) else np.full(2 * [len(plans)], np.nan)
    known = np.flatnonzero(matrix.diagonal() < 0.4)  # nearly as often wrong as right, it says nothing
    if len(known) < len(plans):
        print(f"left out, since nothing is known of their errors: receivers {sorted({*range(len(plans))} - {*known})}")
    matrix = matrix[np.ix_(known, known)]
    apart = np.triu(1 - np.nan_to_num(matrix), 1)
    tree = linkage(squareform(apart + apart.T), "average") if len(known) > 1 else None
    clusters = [1] * len(known) if tree is None else fcluster(tree, 0.7, "distance").tolist()
    return [plans[k] for k in known], clusters, matrix.diagonal().tolist()


def main(path: Path) -> None:
    with iso.open(path, "x") as store:
        count = len(record(store))
        plans, clusters, rates = rooms(receivers(store))
        if not plans:
            return print("no packet was heard without an error: nothing can be put together")
        print(f"rooms {clusters}, bit error rates {', '.join(f'{rate:.4f}' for rate in rates)}")
        iso.run(plans[0].combine_packets(*plans[1:], clusters=clusters, error_rates=rates).sink(store, "sent"))
        alone = [plan.combine_packets().rewindow(BYTES).count().collect() for plan in plans]
        together = iso.scan(store["sent"]).rewindow(BYTES).count().collect()
        print(f"{together} of {count} packets, the best receiver alone {max(alone)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
