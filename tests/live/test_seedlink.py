"""SeedLink: a real server over real sockets, that disconnects, repeats, forgets and talks nonsense."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import obspy
import pytest

import isochrony as iso
from isochrony.live.seedlink import SeedLink
from seedlink_server import START, Server, records, serving

RATE = 100.0
Packets = Iterator[tuple[int, bytes] | bytes]


def once(packets: list[tuple[int, bytes] | bytes], wait: float = 0.3) -> Callable[[int, int | None], Packets]:
    """Sends packets on the first connection and then waits, so that it is not closed before all were read."""

    def script(number: int, after: int | None) -> Packets:
        if number == 0:
            yield from packets
        time.sleep(wait)

    return script


def numbered(packed: list[bytes], first: int = 1) -> list[tuple[int, bytes]]:
    return list(enumerate(packed, first))


def listening(server: Server, **options: Any) -> iso.Listener:
    return iso.listen(server.address(), **({"dtype": "i4", "rate": RATE, "silence": 1.0} | options))


def noise(samples: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(10**6), 10**6, samples).astype("i4")


def test_records_are_samples_at_their_times(tmp_path: Path) -> None:
    samples = noise(5000)
    with serving(once(numbered(records(samples)))) as server, iso.open(tmp_path / "got.iso", "a") as store:
        listener = listening(server)
        iso.scan(listener).sink(store, "XX/TEST/BHZ").run()
        signal = store["XX/TEST/BHZ"]
        assert np.array_equal(signal.counts[:], samples)
        assert len(signal.gaps) == 0 and len(signal.runs()) == 1
        assert abs(signal.time_of(0).ns - START.ns) <= 1000
        assert abs(signal.time_of(4999).ns - (START + 49.99).ns) <= 10_000
        assert server.asked[:5] == ["HELLO", "STATION TEST XX", "SELECT --BHZ.D", "DATA", "END"]
        assert listener.counts["lost_samples"] == listener.counts["malformed_frames"] == 0


@pytest.mark.parametrize("encoding", ["STEIM1", "STEIM2", "INT32", "FLOAT32", "FLOAT64"])
def test_dtype_and_rate_are_those_of_the_first_record_where_they_are_not_stated(encoding: str) -> None:
    samples = noise(900)
    if encoding.startswith("FLOAT"):
        samples = samples.astype({"FLOAT32": "f4", "FLOAT64": "f8"}[encoding])
    packed = numbered(records(samples, rate=20.0, encoding=encoding), 0xFFFFFE)
    packed = [(number & 0xFFFFFF, record) for number, record in packed]  # sequence numbers wrap

    def script(number: int, after: int | None) -> Packets:
        wanted = [sequence for sequence, _ in packed]
        yield from packed if after is None else packed[wanted.index(after) :] if after in wanted else []
        time.sleep(0.3)

    with serving(script) as server:
        listener = iso.listen(server.address(), silence=1.0)
        got = iso.scan(listener).collect()
        assert np.array_equal(got, samples)
        assert got.dtype == samples.dtype
        # The record that told is not lost: the run asks for it again.
        assert server.asked.count("DATA") == 1 and "DATA FFFFFE" in server.asked


def test_a_lost_connection_is_made_again_and_goes_on_where_it_was() -> None:
    samples = noise(6000)
    packed = numbered(records(samples))

    def script(number: int, after: int | None) -> Packets:
        begin = 0 if after is None else after - 1
        if number < 4:
            yield from packed[begin : begin + 5]
            yield packed[begin + 5][1][:100]  # in the middle of a packet
        else:
            yield from packed[begin:]
            time.sleep(0.5)

    with serving(script) as server:
        listener = listening(server, silence=4.0)
        assert np.array_equal(iso.scan(listener).limit(6000).collect(), samples)
        assert listener.counts["reconnects"] == 4
        assert [line for line in server.asked if line.startswith("DATA")] == [
            "DATA",
            *(f"DATA {6 + 5 * k:06X}" for k in range(4)),
        ]


def test_gaps_duplicates_overlaps_and_late_records_are_what_they_are(tmp_path: Path) -> None:
    samples = noise(10_000)
    packed = records(samples)
    one = len(packed) // 2
    per = [len_of(record) for record in packed]
    at = np.cumsum([0, *per])
    packets: list[tuple[int, bytes] | bytes] = [
        *numbered(packed[:5]),
        (3, packed[2]),  # again
        *numbered([packed[6], packed[5]], 6),  # in the wrong order: put right
        *numbered(packed[7:one], 8),
        # Six records are lost on the way to the server.
        *numbered(packed[one + 6 :], one + 7),
    ]
    # And a second and a half later, beyond what is waited for, one of them comes after all.
    late = packed[one + 2]

    def script(number: int, after: int | None) -> Packets:
        if number == 0:
            yield from packets
            time.sleep(1.5)
            yield (4000, late)
        time.sleep(0.5)

    with serving(script) as server, iso.open(tmp_path / "got.iso", "a") as store:
        listener = listening(server, silence=3.0, reorder=0.2)
        iso.scan(listener).sink(store, "bhz").run()
        signal, counts = store["bhz"], listener.counts
        missing = int(at[one + 6] - at[one])
        assert [(gap.start, gap.length) for gap in signal.gaps] == [(int(at[one]), missing)]
        expected = samples.astype("f8")
        expected[at[one] : at[one + 6]] = np.nan
        assert np.array_equal(signal[:].values(), expected, equal_nan=True)
        assert counts["lost_samples"] == missing
        assert counts["reordered_frames"] == 1
        assert counts["duplicate_frames"] + counts["late_frames"] == 2
        assert len(signal.runs()) == 1


def len_of(record: bytes) -> int:
    return int.from_bytes(record[30:32], "big")


def test_times_that_are_off_by_less_than_half_a_sample_are_no_gaps(tmp_path: Path) -> None:
    # A digitiser 40 ppm slow: over an hour its records drift by fourteen samples against the nominal rate.
    samples = noise(360_000) % 100
    each = 4000
    packed = [
        record
        for k in range(0, len(samples), each)
        for record in records(samples[k : k + each], start=START + k / RATE * (1 + 40e-6))[:]
    ]
    with serving(once(numbered(packed), 2.0)) as server, iso.open(tmp_path / "got.iso", "a") as store:
        listener = listening(server, silence=3.0)
        iso.scan(listener).sink(store, "bhz").run()
        signal = store["bhz"]
        assert np.array_equal(signal.counts[:], samples)
        assert len(signal.gaps) == 0 and len(signal.runs()) == 1
        # The clock learns the rate from the records: the end is where the station says.
        end = START.ns + round(359_999 / RATE * (1 + 40e-6) * 1e9)
        assert abs(signal.time_of(359_999).ns - end) < 5_000_000


def test_a_stations_clock_that_is_set_begins_a_run(tmp_path: Path) -> None:
    forth, back = noise(8000), noise(8000, 2)
    packed = records(forth) + records(back, start=START - 3600)
    with serving(once(numbered(packed), 1.0)) as server, iso.open(tmp_path / "got.iso", "a") as store:
        listener = listening(server, silence=2.5)
        iso.scan(listener).sink(store, "bhz").run()
        signal = store["bhz"]
        assert len(signal.runs()) == 2
        assert listener.counts["clock_steps"] == 1
        # It takes eight records to be told from what is late; seven are counted as such.
        lost = sum(len_of(record) for record in records(back)[:7])
        assert listener.counts["late_frames"] == 7
        assert np.array_equal(signal.counts[:8000], forth)
        assert np.array_equal(signal.counts[8000:], back[lost:])
        assert abs(signal.time_of(8000).ns - (START - 3600 + lost / RATE).ns) < 1_000_000


def test_nonsense_is_counted_and_survived() -> None:
    samples = noise(3000)
    packed = numbered(records(samples))
    other = records(noise(100), channel="BHN")[0]
    rng = np.random.default_rng(5)

    def script(number: int, after: int | None) -> Packets:
        begin = 0 if after is None else after - 1
        if number == 0:
            yield from packed[:2]
            yield (0x777777, rng.bytes(512))  # no record: and no sequence number to believe
            yield (3, other)  # another channel's
            yield b"SLINFO *" + b"x" * 512  # an answer to nothing
            yield from packed[2:4]
            yield rng.bytes(5000)  # no packet
        elif number == 1:
            yield b"SLzzzzzz" + b"x" * 512
        else:
            yield from packed[begin:]
            time.sleep(0.5)

    with serving(script) as server:
        listener = listening(server, silence=4.0)
        assert np.array_equal(iso.scan(listener).limit(3000).collect(), samples)
        assert listener.counts["malformed_frames"] == 4
        assert listener.counts["reconnects"] == 2


@pytest.mark.parametrize("year", [2262, 2300, 2500, 1677, 1600])
def test_a_record_of_a_time_that_is_none_of_ours_is_malformed_and_the_feed_goes_on(year: int) -> None:
    # 64 bits of nanoseconds end on 2262-04-11 and begin on 1677-09-21.
    samples = noise(1000)
    far = records(noise(50), start=obspy.UTCDateTime(year, 4 if year == 1677 else 12, 1))[0]
    with serving(once([*numbered(records(samples)), (900, far)], 1.0)) as server:
        listener = listening(server)
        begun = time.monotonic()
        assert np.array_equal(iso.scan(listener).collect(), samples)
        assert time.monotonic() - begun < 15
        assert listener.counts["malformed_frames"] == 1


def test_a_thread_that_fails_ends_the_run_with_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(record: bytes, channel: Any) -> Any:
        raise ArithmeticError("the decoder is ill")

    monkeypatch.setattr("isochrony.live.seedlink._decode", broken)
    raised: list[BaseException] = []

    def run(plan: iso.Plan) -> None:
        try:
            plan.run()
        except iso.RunError as why:
            raised.append(why)

    for in_main_thread in (True, False):
        raised.clear()
        with serving(once(numbered(records(noise(1000))), 2.0)) as server:
            plan = iso.scan(listening(server, silence=None)).sink_wav(tmp_path / "out.wav")
            begun = time.monotonic()
            if in_main_thread:
                run(plan)
            else:
                thread = threading.Thread(target=run, args=(plan,), daemon=True)
                thread.start()
                thread.join(10)
            assert time.monotonic() - begun < 2
        (error,) = raised
        assert "XX.TEST..BHZ" in str(error) and "ArithmeticError: the decoder is ill" in str(error)
        assert isinstance(error.__cause__, ArithmeticError)
        # What it had is no whole file.
        assert not list(tmp_path.iterdir())
    # Runs that have nothing to do with it are not disturbed.
    assert iso.scan(np.arange(10.0), rate=10).count().collect() == 10


def test_several_channels_are_several_plans() -> None:
    both = [noise(4000, seed) for seed in (1, 2)]
    with (
        serving(once(numbered(records(both[0])))) as one,
        serving(once(numbered(records(both[1], channel="BHN")))) as two,
    ):
        first = iso.listen(one.address(), dtype="i4", rate=RATE, silence=2)
        second = iso.listen(two.address("XX.TEST..BHN"), dtype="i4", rate=RATE, silence=2)
        got = iso.collect(iso.scan(first).limit(4000), iso.scan(second).limit(4000))
    assert all(np.array_equal(a, b) for a, b in zip(got, both, strict=True))


def test_a_run_is_stopped_while_it_waits_and_hangs_up() -> None:
    def script(number: int, after: int | None) -> Packets:
        yield from numbered(records(noise(1000)))
        time.sleep(20)

    server = Server(script)
    listener = iso.listen(server.address(), dtype="i4", rate=RATE)
    begun = time.monotonic()
    assert len(iso.scan(listener).limit(1000).collect()) == 1000
    assert time.monotonic() - begun < 5
    assert not [thread for thread in threading.enumerate() if thread.name == "isochrony-seedlink"]


def held(samples: np.ndarray, stage: str) -> tuple[Callable[[], None], str]:
    """A server that gives records once, then accepts connections and falls silent; how to close it, and its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    kept: list[socket.socket] = []

    def serve() -> None:
        first = True
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            kept.append(connection)
            if first:
                connection.recv(100)
                connection.sendall(b"SeedLink v3.1 (test)\r\nA test\r\n")
                for _ in range(3):
                    connection.recv(100)
                    connection.sendall(b"OK\r\n")
                connection.recv(100)
                for number, record in numbered(records(samples)):
                    connection.sendall(b"SL%06X" % number + record)
                if stage != "packet":
                    connection.close()
            elif stage == "second answer":
                connection.recv(100)
                connection.sendall(b"SeedLink v3.1 (test)\r\nA test\r\n")
            first = False

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    def close() -> None:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
        for connection in kept:
            connection.close()

    return close, f"seedlink://127.0.0.1:{listener.getsockname()[1]}/XX.TEST..BHZ"


@pytest.mark.parametrize("stage", ["packet", "first answer", "second answer"])
def test_a_run_ends_at_once_while_a_server_accepts_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    took: list[float] = []
    stop = SeedLink.stop

    def timed(self: SeedLink) -> None:
        begun = time.monotonic()
        stop(self)
        took.append(time.monotonic() - begun)

    monkeypatch.setattr(SeedLink, "stop", timed)
    close, address = held(noise(1000), stage)
    try:
        # Half a second after it was lost the connection is made again: by the silence's end an answer is waited for.
        got = iso.scan(iso.listen(address, dtype="i4", rate=RATE, silence=1.0)).collect()
        assert len(got) == 1000
        assert len(took) == 1 and took[0] < 0.7, took
        assert not [thread for thread in threading.enumerate() if thread.name == "isochrony-seedlink"]
    finally:
        close()


def test_what_cannot_be_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in (
        "seedlink://host/XX.TEST",
        "seedlink://host/XX.TEST..B?Z",
        "seedlink://host:99999/XX.TEST..BHZ",
        "seedlink:",
    ):
        with pytest.raises(iso.OptionError, match=r"NET\.STA\.LOC\.CHA"):
            iso.listen(address)
    with pytest.raises(iso.OptionError, match="anyone=True has no meaning"):
        iso.listen("seedlink://127.0.0.1:1/XX.TEST..BHZ", anyone=True)
    nobody = iso.listen("seedlink://127.0.0.1:1/XX.TEST..BHZ", dtype="i4", rate=RATE)
    with pytest.raises(iso.RunError, match="cannot be reached"):
        iso.scan(nobody).run()
    with pytest.raises(iso.BadSourceError, match="cannot be reached"):
        iso.listen("seedlink://127.0.0.1:1/XX.TEST..BHZ")
    with serving(once([])) as server:
        with pytest.raises(iso.RunError, match="answers 'ERROR' to SELECT NOBHZ"):
            iso.scan(iso.listen(server.address("XX.TEST.NO.BHZ"), dtype="i4", rate=RATE)).run()
        with pytest.raises(iso.BadSourceError, match=r"closed the connection|no record within"):
            iso.listen(server.address(), timeout=0.2)
    monkeypatch.setitem(__import__("sys").modules, "obspy", None)
    with pytest.raises(iso.MissingExtraError, match=r"isochrony\[seismic\]"):
        iso.listen("seedlink://127.0.0.1:1/XX.TEST..BHZ", dtype="i4", rate=RATE)


def test_a_plan_over_a_channel_is_saved_and_read_again() -> None:
    samples = noise(2000)

    def script(number: int, after: int | None) -> Packets:
        if after is None:
            yield from numbered(records(samples))
        time.sleep(0.3)

    with serving(script) as server:
        saved = iso.scan(listening(server, silence=1.0)).count().to_json()
        assert iso.Plan.from_json(saved).collect() == 2000
