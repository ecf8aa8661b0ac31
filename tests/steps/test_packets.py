"""Packets of several receivers: against NumPy's bits, zlib's check and the truth of what was sent."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from isochrony import OptionError, PlanError

BYTES = 64


def sent_packets(rng: np.random.Generator, count: int) -> np.ndarray:
    """Packets with their check, a row each."""
    payload = rng.integers(0, 256, (count, BYTES - 4), "u1")
    checks = [zlib.crc32(row.tobytes()).to_bytes(4, "little") for row in payload]
    return np.hstack([payload, np.frombuffer(b"".join(checks), "u1").reshape(-1, 4)])


def with_errors(packets: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Packets with the bits flipped in which `wrong` is true."""
    return packets ^ np.packbits(wrong, axis=1, bitorder="little")


def heard(packets: np.ndarray, kept: np.ndarray | None = None, segment: int = 1000) -> iso.Plan:
    """A receiver's plan: of the packets that it has."""
    kept = np.ones(len(packets), bool) if kept is None else kept

    def pieces() -> Iterator[tuple[int, np.ndarray]]:
        for at in np.flatnonzero(kept):
            yield int(at) * BYTES, packets[at]

    return iso.generate(pieces, dtype="u1", rate=1000, segment=segment).rewindow(BYTES)


def scene(seed: int, count: int = 600) -> tuple[np.ndarray, list[int], np.ndarray, list[np.ndarray], np.ndarray]:
    """What was sent, what three clusters of receivers heard, and which of it they have at all."""
    rng = np.random.default_rng(seed)
    packets = sent_packets(rng, count)
    clusters = [0, 0, 0, 1, 2, 2]
    own = [1e-3, 2e-3, 4e-3, 2e-3, 1e-3, 3e-3]
    common = rng.random((3, count, 8 * BYTES)) < 0.004
    wrong = [
        common[cluster] ^ (rng.random((count, 8 * BYTES)) < rate) for cluster, rate in zip(clusters, own, strict=True)
    ]
    copies = [with_errors(packets, errors) for errors in wrong]
    kept = rng.random((len(clusters), count)) > 0.1
    return packets, clusters, np.array(wrong), copies, kept


def test_correlations_are_those_of_the_bits() -> None:
    packets, clusters, wrong, copies, kept = scene(1)
    first, *others = (heard(copy, have) for copy, have in zip(copies, kept, strict=True))
    n, every = len(clusters), 200
    rows = first.error_correlation(*others, every=every).collect().reshape(-1, n, n)
    assert len(rows) == 3
    intact = np.array([(copy == packets).all(axis=1) for copy in copies]) & kept
    known = intact.any(axis=0)
    for k, row in enumerate(rows):
        block = np.zeros(len(packets), bool)
        block[k * every : (k + 1) * every] = True
        for i in range(n):
            for j in range(n):
                both = block & known & kept[i] & kept[j]
                a, b = wrong[i][both].ravel(), wrong[j][both].ravel()
                expected = a.mean() if i == j else np.corrcoef(a, b)[0, 1]
                # Some ten thousand additions in double precision on NumPy's side, in pairs.
                assert row[i, j] == pytest.approx(expected, abs=1e-12)
    # And they tell who stands together.
    together = np.equal.outer(clusters, clusters) & ~np.eye(n, dtype=bool)
    apart = ~np.equal.outer(clusters, clusters)
    assert rows.mean(axis=0)[together].min() > 5 * np.abs(rows.mean(axis=0)[apart]).max()


def recovered(plan: iso.Plan) -> dict[int, bytes]:
    """Packets that came out, by their number."""
    found: dict[int, bytes] = {}

    def keep(values: np.ndarray, start: int) -> None:
        data = values.tobytes()
        assert start // BYTES > max(found, default=-1)
        assert start % BYTES == 0 == len(data) % BYTES
        for at in range(0, len(data), BYTES):
            found[(start + at) // BYTES] = data[at : at + BYTES]

    plan.each(keep).run()
    return found


def majority(copies: list[np.ndarray], kept: np.ndarray, packets: np.ndarray) -> int:
    """Packets of which the majority of the copies is intact, or one of them is."""
    bits = np.array([np.unpackbits(copy, axis=1, bitorder="little") for copy in copies]).astype(int)
    votes = (np.where(kept[:, :, None], 2 * bits - 1, 0)).sum(axis=0)
    voted = np.packbits(votes > 0, axis=1, bitorder="little")
    single = (np.array([(copy == packets).all(axis=1) for copy in copies]) & kept).any(axis=0)
    return int(((voted == packets).all(axis=1) | single).sum())


@pytest.mark.parametrize("seed", range(5))
def test_clusters_recover_more_than_any_receiver_and_than_a_majority(seed: int) -> None:
    packets, clusters, wrong, copies, kept = scene(seed)
    rates = [float(errors.mean()) for errors in wrong]
    first, *others = (heard(copy, have) for copy, have in zip(copies, kept, strict=True))
    plain = recovered(first.combine_packets(*others, clusters=clusters, error_rates=rates, search=0))
    found = recovered(first.combine_packets(*others, clusters=clusters, error_rates=rates))
    for one in (plain, found):
        assert all(packets[number].tobytes() == packet for number, packet in one.items())
    intact = [recovered(heard(copy, have).combine_packets()) for copy, have in zip(copies, kept, strict=True)]
    for number, (one, copy, have) in enumerate(zip(intact, copies, kept, strict=True)):
        good = np.flatnonzero((copy == packets).all(axis=1) & have)
        assert sorted(one) == good.tolist(), number
    best = max(len(one) for one in intact)
    voted = majority(copies, kept, packets)
    assert best < voted < len(plain) < len(found)


def test_results_do_not_depend_on_how_streams_are_cut() -> None:
    _, clusters, _, copies, kept = scene(3, count=120)
    results = []
    for segments in ([64] * 6, [5000] * 6, [64, 100, 640, 1000, 6400, 130]):
        first, *others = (heard(copy, have, cut) for copy, have, cut in zip(copies, kept, segments, strict=True))
        rows = first.error_correlation(*others, every=50).collect()
        results.append((recovered(first.combine_packets(*others, clusters=clusters)), rows.tobytes()))
    assert results[0] == results[1] == results[2]


def test_what_comes_out_can_be_stored(tmp_path: Path) -> None:
    _, clusters, _, copies, kept = scene(4, count=100)
    kept &= np.arange(100) % 7 > 0
    first, *others = (heard(copy, have) for copy, have in zip(copies, kept, strict=True))
    with iso.open(tmp_path / "packets.iso", "x") as store:
        iso.run(first.combine_packets(*others, clusters=clusters).sink(store, "sent"))
        signal = store["sent"]
        found = recovered(first.combine_packets(*others, clusters=clusters))
        assert len(found) < 100
        first = min(found) * BYTES
        stored = {
            (first + segment.start + at) // BYTES: np.asarray(segment)[at : at + BYTES].tobytes()
            for segment in signal[:].segments
            for at in range(0, len(segment), BYTES)
        }
        assert stored == found


def test_no_receiver_need_hear_anything() -> None:
    packets = sent_packets(np.random.default_rng(1), 4)
    nothing = heard(packets, np.zeros(4, bool))
    assert recovered(nothing.combine_packets(heard(packets), clusters=[0, 1])) == {
        k: packet.tobytes() for k, packet in enumerate(packets)
    }
    assert recovered(nothing.combine_packets(nothing)) == {}
    assert nothing.error_correlation(nothing).collect().shape[0] == 0


def test_wrong_arguments_are_refused() -> None:
    good = iso.scan(np.zeros(640, "u1"), rate=1).rewindow(64)
    with pytest.raises(PlanError, match=r"windows of uint8 that do not overlap"):
        good.combine_packets(iso.scan(np.zeros(640, "i2"), rate=1).rewindow(64))
    with pytest.raises(PlanError, match=r"windows of uint8 that do not overlap"):
        iso.scan(np.zeros(640, "u1"), rate=1).rewindow(64, hop=32).combine_packets()
    with pytest.raises(PlanError, match=r"windows with equal windows"):
        good.error_correlation(iso.scan(np.zeros(640, "u1"), rate=1).rewindow(32))
    with pytest.raises(PlanError, match=r"at least 5 bytes"):
        iso.scan(np.zeros(64, "u1"), rate=1).rewindow(4).combine_packets()
    with pytest.raises(PlanError, match=r"clusters.*a list of 2 whole numbers"):
        good.combine_packets(good, clusters=[1])
    with pytest.raises(PlanError, match=r"error_rates.*0.5"):
        good.combine_packets(good, error_rates=[0.1, 0.5])
    with pytest.raises(PlanError, match=r"error_rates=\[0\.1\] must be one rate per receiver, 2 in all"):
        good.combine_packets(good, error_rates=[0.1])
    with pytest.raises((OptionError, PlanError), match=r"search"):
        good.combine_packets(good, search=21)
    with pytest.raises(OptionError, match=r"every|error_correlation"):
        good.error_correlation(good, every=0)
