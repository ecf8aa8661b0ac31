"""zarr-python and xarray read exactly what was written, sealed and unsealed; we read what zarr-python wrote."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import isochrony as iso
from isochrony import StoreError

DTYPES = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8", "c8", "c16"]
GAP = 70_001


def samples_of(dtype: str, count: int) -> np.ndarray:
    values = np.arange(count) // 3 * 2_654_435_761 % 100_003
    if dtype == "bool":
        return values % 3 == 0
    if dtype.startswith("c"):
        return (values - 1.5j).astype(dtype)
    return values.astype(dtype)


def written(path: Path, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Makes a store with one signal of two stretches; gives them."""
    samples = samples_of(dtype, 183_333)
    with iso.open(path, "x") as store:
        signal = store.create("net/sta", dtype=dtype, rate=2000, unit="kPa", start="2020-01-01T00:00:00Z")
        signal.append(samples[:150_000])
        signal.append_gap(samples=GAP)
        signal.append(samples[150_000:])
        store.commit()
    return samples[:150_000], samples[150_000:]


def check_with_zarr(path: Path, first: np.ndarray, second: np.ndarray) -> None:
    group = zarr.open_group(path, mode="r")
    signal = group["net/sta"]
    assert signal.attrs["isochrony"]["kind"] == "signal"
    data = signal["data"]
    assert data.metadata.dimension_names == ("index",)
    assert data.shape == (len(first) + GAP + len(second),)
    assert data.dtype == first.dtype
    assert np.array_equal(data[: len(first)], first)
    assert not data[len(first) : len(first) + GAP].any()
    assert np.array_equal(data[len(first) + GAP :], second)
    assert np.array_equal(signal["gaps"][:], [[len(first), GAP]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("codec", ["", "zstd:5", "blosc:lz4:5", "blosc:zstd:3"])
def test_zarr_python_reads_what_was_written(tmp_path: Path, dtype: str, codec: str) -> None:
    path = tmp_path / "a.iso"
    first, second = written(path, dtype)
    if codec:
        with iso.open(path, "r+") as store:
            raw, stored = store["net/sta"].seal(codec)
            assert raw == first.nbytes + second.nbytes
            assert 0 < stored < raw
    check_with_zarr(path, first, second)
    with iso.open(path) as store:
        segments = store["net/sta"].select().segments
        assert np.array_equal(np.asarray(segments[0].counts), first)
        assert np.array_equal(np.asarray(segments[1].counts), second)


@pytest.mark.parametrize("dtype", ["i2", "f8"])
def test_unsealing_gives_the_flat_array_again(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "a.iso"
    first, _ = written(path, dtype)
    with iso.open(path, "r+") as store:
        store["net/sta"].seal("zstd")
        with pytest.raises(StoreError, match="unseal"):
            store["net/sta"].append(first[:1])
        store["net/sta"].unseal()
        store["net/sta"].append(first[:10])
        store.commit()
    data = zarr.open_group(path, mode="r")["net/sta/data"]
    assert np.array_equal(data[-10:], first[:10])
    assert np.array_equal(data[: len(first)], first)


def test_every_array_of_a_store_opens_with_dimension_names(tmp_path: Path) -> None:
    path = tmp_path / "a.iso"
    with iso.open(path, "x") as store:
        signal = store.create("s", dtype="i2", rate=100, start="2020-01-01")
        signal.append(samples_of("i2", 3_000_000))
        signal.append_gap(samples=10)
        signal.append(samples_of("i2", 100))
        signal.events.add("note", 5, 6, text="hello")
        store.commit()
    arrays = dict(zarr.open_group(path, mode="r")["s"].members(max_depth=None))
    named = {name: array.metadata.dimension_names for name, array in arrays.items() if isinstance(array, zarr.Array)}
    assert {"data", "gaps", "runs", "crc"} <= named.keys()
    assert any(name.startswith("views/") for name in named)
    assert all(names is not None and None not in names for names in named.values()), named
    for name in named:
        arrays[name][:]  # every chunk decodes


def test_views_are_what_their_samples_say(tmp_path: Path) -> None:
    path = tmp_path / "a.iso"
    samples = samples_of("i2", 3_000_000)
    with iso.open(path, "x") as store:
        store.create("s", dtype="i2", rate=100).append(samples)
        store.commit()
    group = zarr.open_group(path, mode="r")["s/views"]
    for bucket in (512, 4096):
        extrema, moments = group[f"{bucket}/extrema"][:], group[f"{bucket}/moments"][:]
        rows = samples[: len(extrema) * bucket].reshape(-1, bucket)
        assert len(extrema) > 128
        assert np.array_equal(extrema[:, 0], rows.min(axis=1))
        assert np.array_equal(extrema[:, 1], rows.max(axis=1))
        assert (moments[:, 0] == bucket).all()
        assert np.allclose(moments[:, 1], rows.mean(axis=1), rtol=1e-12)
        assert np.allclose(moments[:, 2] / bucket, rows.astype("f8").var(axis=1), rtol=1e-9)


def test_xarray_opens_a_signal(tmp_path: Path) -> None:
    path = tmp_path / "a.iso"
    first, _ = written(path, "i2")
    data = xr.open_zarr(path, group="net/sta", consolidated=False)
    assert data["data"].dims == ("index",)
    assert np.array_equal(data["data"][:100].values, first[:100])


def test_shards_that_zarr_python_rewrote_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.iso"
    first, second = written(path, "i4")
    data = zarr.open_group(path, mode="r+")["net/sta/data"]
    data[7] = -5
    first = first.copy()
    first[7] = -5
    with iso.open(path) as store:
        segments = store["net/sta"].select().segments
        assert np.array_equal(np.asarray(segments[0].counts), first)
        assert np.array_equal(np.asarray(segments[1].counts), second)


def test_user_attributes_are_plain_zarr_attributes(tmp_path: Path) -> None:
    path = tmp_path / "a.iso"
    with iso.open(path, "x") as store:
        signal = store.create("s", dtype="f4", rate=1)
        signal.attrs["station"] = "STN10"
        store.commit()
    assert zarr.open_group(path, mode="r")["s"].attrs["station"] == "STN10"
    metadata = json.loads((path / "s" / "zarr.json").read_text())
    assert metadata["attributes"]["isochrony"]["dtype"] == "float32"
