"""xarray and ObsPy see the same samples, gaps and times as the store."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso

START = iso.Time("2010-03-01T00:00:00.123456789Z")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[iso.Store]:
    with iso.open(tmp_path / "water.iso", "x") as store:
        yield store


def made(store: iso.Store, name: str = "YA/UV05/00/HHZ", **options: object) -> iso.Signal:
    signal = store.create(name, **{"dtype": "i4", "rate": 100, "unit": "m/s", "start": START, **options})
    signal.append(np.arange(300, dtype="i4"))
    signal.append_gap(samples=50)
    signal.append(np.arange(300, 600, dtype="i4"))
    return signal


def expected() -> np.ndarray:
    return np.r_[np.arange(300), np.full(50, np.nan), np.arange(300, 600)]


class TestXarray:
    @pytest.mark.parametrize("chunks", [0, 64, None])
    def test_values_times_and_index(self, store: iso.Store, chunks: int | None) -> None:
        pytest.importorskip("xarray")
        signal = made(store, attrs={"depth": 3})
        array = signal.to_xarray(chunks=chunks)
        assert (array.dims, array.name, array.attrs["units"], array.attrs["depth"]) == (
            ("time",), signal.name, "m/s", 3,
        )  # fmt: skip
        np.testing.assert_array_equal(array.values, expected())
        np.testing.assert_array_equal(array.time.values, signal.select().times())
        np.testing.assert_array_equal(array["index"].values, np.arange(650))
        np.testing.assert_array_equal(array[280:420:7].values, expected()[280:420:7])
        np.testing.assert_array_equal(array[::-1].values, expected()[::-1])
        assert array[299].values.item() == 299
        assert float(array.mean()) == np.nanmean(expected())
        if chunks == 64:
            assert array.chunks[0][0] == 64

    def test_dask_reads_what_is_not_committed(self, store: iso.Store) -> None:
        pytest.importorskip("xarray")
        pytest.importorskip("dask")
        signal = store.create("a", dtype="i2", rate=100, start=START)
        signal.append(np.arange(1000, dtype="i2"))
        store.commit()
        signal.append(np.arange(1000, 2000, dtype="i2"))
        np.testing.assert_array_equal(signal.to_xarray(chunks=300).values, np.arange(2000))
        np.testing.assert_array_equal(signal[900:1100].to_xarray(chunks=64).values, np.arange(900, 1100))

    def test_gaps_dropped(self, store: iso.Store) -> None:
        pytest.importorskip("xarray")
        signal = made(store)
        array = signal[100:500].to_xarray(gaps="drop", chunks=0)
        np.testing.assert_array_equal(array.values, np.arange(100, 450))
        np.testing.assert_array_equal(array["index"].values, np.r_[100:300, 350:500])
        np.testing.assert_array_equal(array[195:205].values, np.arange(295, 305))
        with pytest.raises(iso.OptionError, match="gaps"):
            signal.to_xarray(gaps="fill")

    def test_nothing_is_read_before_it_is_used(self, store: iso.Store) -> None:
        pytest.importorskip("xarray")
        big = store.create("big", dtype="i2", rate=1000, start=START)
        big.append([1, 2, 3])
        big.append_gap(samples=10**12)
        big.append([4, 5, 6])
        array = big.to_xarray(chunks=0)
        assert array.shape == (10**12 + 6,)
        np.testing.assert_array_equal(array[-3:].values, [4, 5, 6])
        assert array.time[-1].values == big.time_of(10**12 + 5).to_datetime64()

    def test_selecting_by_label(self, store: iso.Store) -> None:
        pytest.importorskip("xarray")
        array = made(store).to_xarray().set_xindex("time")
        part = array.sel(time=slice("2010-03-01T00:00:01.123456789", "2010-03-01T00:00:01.200"))
        np.testing.assert_array_equal(part.values, np.arange(100, 108))


class TestObspy:
    def test_split_traces_start_exactly(self, store: iso.Store) -> None:
        pytest.importorskip("obspy")
        signal = made(store)
        stream = signal.to_obspy()
        assert [trace.id for trace in stream] == ["YA.UV05.00.HHZ"] * 2
        assert [int(trace.stats.starttime.ns) for trace in stream] == [
            START.ns,
            START.ns + 3_500_000_000,
        ]
        assert [trace.stats.sampling_rate for trace in stream] == [100.0, 100.0]
        np.testing.assert_array_equal(stream[1].data, np.arange(300, 600))
        assert stream[1].data.dtype == np.int32
        stream[1].data[:] = 0  # ObsPy works in place; the store does not notice
        assert signal.counts[350] == 300

    def test_masked_traces(self, store: iso.Store) -> None:
        pytest.importorskip("obspy")
        (trace,) = made(store).to_obspy(masked=True)
        assert trace.stats.npts == 650
        np.testing.assert_array_equal(np.isnan(expected()), trace.data.mask)
        np.testing.assert_array_equal(trace.data.compressed(), np.arange(600))
        (raw,) = made(store, "other", scale=0.5).to_obspy(masked=True, counts=True)
        assert raw.data.dtype == np.int32

    def test_there_and_back(self, store: iso.Store) -> None:
        pytest.importorskip("obspy")
        signal = made(store)
        stream = signal.to_obspy()
        stream.append(made(store, "YA/UV05//HHN".replace("//", "/--/")).to_obspy(masked=True)[0])
        with iso.open(store.path.with_name("copy.iso"), "x") as other:
            summary = iso.from_obspy(stream, other, unit="m/s")
            assert [one["name"] for one in summary["signals"]] == ["YA/UV05/--/HHN", "YA/UV05/00/HHZ"]
            for back in other.values():
                np.testing.assert_array_equal(back.values(), expected())
                assert back.unit == "m/s"
                assert abs(back.time_of(0) - START) < 1e-6
                assert [(g.start, g.length) for g in back.gaps] == [(300, 50)]

    def test_without_civil_time(self, store: iso.Store) -> None:
        pytest.importorskip("obspy")
        signal = store.create("x", dtype="i4", rate=1)
        signal.append([1])
        with pytest.raises(iso.StoreError, match="civil time"):
            signal.to_obspy()


class TestGather:
    def test_channels_by_time(self, store: iso.Store) -> None:
        made(store, "a/HHZ")
        late = store.create("b/HHZ", dtype="f4", rate=50, start=START + 1)
        late.append(np.arange(100, dtype="f4"))
        span = iso.span(START, seconds=4)
        x = store.gather("*/HHZ", span, rate=100)
        assert x.shape == (2, 400)
        np.testing.assert_array_equal(x[0], expected()[:400])
        assert np.isnan(x[1, :99]).all()
        np.testing.assert_array_equal(x[1, 100:300:2], np.arange(100))
        line = store.gather(["b/HHZ"], (START, START + 4), rate=100, method="linear")
        np.testing.assert_allclose(line[0, 100:298], np.arange(198) / 2)

    def test_as_xarray(self, store: iso.Store) -> None:
        pytest.importorskip("xarray")
        made(store, "a/HHZ")
        array = store.gather("**", iso.span(START, seconds=1), rate="1000/3", xarray=True)
        assert array.dims == ("channel", "time")
        assert list(array.channel.values) == ["a/HHZ"]
        assert array.time[3].values - array.time[0].values == np.timedelta64(9, "ms")
        assert array.units.item() == "m/s"

    def test_refused(self, store: iso.Store) -> None:
        made(store, "a")
        with pytest.raises(KeyError, match="no signal matches z"):
            store.gather("z*", iso.span(START, seconds=1), rate=1)
        with pytest.raises(iso.OptionError, match="span"):
            store.gather("a", iso.span(START, None), rate=1)
        with pytest.raises(iso.OptionError, match="method"):
            store.gather("a", iso.span(START, seconds=1), rate=1, method="cubic")
