"""Complex numbers stored as pairs of int16, against NumPy and zarr-python."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import zarr

import isochrony as iso
from isochrony.errors.native import StoreTypeError, StoreValueError

N = 300_000


def pairs(n: int = N, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(2**15), 2**15, (n, 2), dtype=np.int16)


def as_complex(parts: np.ndarray) -> np.ndarray:
    return (parts[:, 0] + 1j * parts[:, 1]).astype(np.complex64)


@pytest.fixture
def signal(store: iso.Store) -> iso.Signal:
    signal = store.create("iq", dtype="ci16", rate=1_000_000)
    signal.append(pairs())
    store.commit()
    return signal


def test_what_is_read_is_complex64(store: iso.Store, signal: iso.Signal) -> None:
    expected = as_complex(pairs())
    assert (signal.dtype, signal.stored_dtype) == (np.dtype("c8"), "complex_int16")
    np.testing.assert_array_equal(signal[:].values(), expected)
    np.testing.assert_array_equal(signal[70_000:70_010].values(), expected[70_000:70_010])
    np.testing.assert_array_equal(iso.scan(signal).collect(), expected)
    for workers in (1, 2):
        power = iso.scan(signal).rewindow(1000).map(lambda s: (abs(s) ** 2).mean()).collect(workers=workers)
        np.testing.assert_allclose(power.ravel(), (np.abs(expected) ** 2).reshape(-1, 1000).mean(axis=1), rtol=1e-5)
    plan = iso.scan(signal, io="direct").rewindow(1000).map(lambda s: abs(s).max())
    assert "decoded, direct does not apply: its samples are stored as complex_int16" in plan.explain()
    for codec in ("zstd", "blosc"):
        store["iq"].seal(codec)
        sealed = store["iq"]
        np.testing.assert_array_equal(sealed[:].values(), expected)
        np.testing.assert_array_equal(iso.scan(sealed).collect(workers=2), expected)
        store["iq"].unseal()


def test_zarr_python_reads_an_array_of_int16_with_a_last_axis_of_two(store: iso.Store, signal: iso.Signal) -> None:
    for codec in ("", "zstd", "blosc"):
        if codec:
            store["iq"].seal(codec)
        array = zarr.open_array(Path(store.path) / "iq" / "data", mode="r")
        assert (array.shape, array.dtype) == ((N, 2), np.dtype("i2"))
        np.testing.assert_array_equal(array[:], pairs())
        if codec:
            store["iq"].unseal()


def test_values_views_and_statistics_are_those_of_complex64(store: iso.Store, signal: iso.Signal) -> None:
    plain = store.create("plain", dtype="c8", rate=1_000_000)
    plain.append(as_complex(pairs()))
    store.commit()
    assert signal.levels == plain.levels != ()
    for level in signal.levels:
        np.testing.assert_array_equal(signal.level(level)[:].values(), plain.level(level)[:].values())
    stats = [iso.scan(of).stats("mean", "std", "rms").collect() for of in (signal, plain)]
    for name in ("mean", "std", "rms"):
        np.testing.assert_array_equal(np.asarray(stats[0][name]), np.asarray(stats[1][name]))


def test_a_calibrated_signal_has_values_in_its_unit(store: iso.Store) -> None:
    signal = store.create("volts", dtype="complex_int16", rate=1000, unit="V", scale=2.0**-15)
    signal.append(pairs(1000))
    np.testing.assert_array_equal(signal[:].values(), as_complex(pairs(1000)).astype("c16") * 2.0**-15)


def test_complex_numbers_are_cast_on_request_and_refused_if_they_do_not_fit(store: iso.Store) -> None:
    signal = store.create("cast", dtype="ci16", rate=1000)
    with pytest.raises(StoreTypeError, match=r"shape \(n, 2\).*cast=True"):
        signal.append(np.zeros(3, "c8"))
    with pytest.raises(StoreValueError, match=r"int16 of shape \(4,\)"):
        signal.append(np.zeros(4, "i2"))
    with pytest.raises(StoreValueError, match="40000"):
        signal.append(np.array([1 + 1j, 40_000j]), cast=True)
    assert signal.sample_count == 0
    signal.append(np.array([1.4 - 2.6j, -3j]), cast=True)
    signal.append(np.array([[1, 2]], "i1"))
    signal.append([[3, 4]])
    signal.append(np.array([[0.6, -7.0]]), cast=True)
    assert signal[:].values().tolist() == [1 - 3j, -3j, 1 + 2j, 3 + 4j, 1 - 7j]
    for wrong in ([[1, 70_000]], np.array([[1, 2]], "i4"), np.array([[0.5, 1.0]])):
        with pytest.raises(StoreTypeError, match="complex int16 samples, got parts of") as caught:
            signal.append(wrong)
        # It wraps 70 000, and lists have none.
        assert "astype" not in str(caught.value)
        assert "call append(samples, cast=True)" in str(caught.value)


@pytest.mark.parametrize(
    ("samples", "what"),
    [
        (np.array([1, 2, 3 + 40_000j]), "the imaginary part 40000.0 at position 2"),
        (np.array([1, -40_000 + 1j, 3]), "the real part -40000.0 at position 1"),
        ([[1, 2], [1, 70_000]], "the imaginary part 70000 at position 1"),
        (np.r_[np.zeros(70_000), np.nan].astype("c16"), "the real part nan at position 70000"),
    ],
)
def test_a_part_that_does_not_fit_is_named_by_its_sample(store: iso.Store, samples: object, what: str) -> None:
    signal = store.create("cast", dtype="ci16", rate=1000)
    with pytest.raises(
        StoreValueError, match=f"{what} does not fit int16 .*; scale, clip or drop such values"
    ) as caught:
        signal.append(samples, cast=True)
    assert "wider" not in str(caught.value)


def test_nothing_can_be_appended(store: iso.Store) -> None:
    signal = store.create("iq", dtype="ci16", rate=1000)
    for nothing in ([], (), np.empty((0, 2), "i2")):
        assert signal.append(nothing).samples == 0
    with pytest.raises(StoreValueError, match=r"shape \(n, 2\)"):
        signal.append(np.empty(0, "i2"))


@pytest.mark.parametrize("name", ["ci8", "cs8", "sc8", "ci32", "complex32", "cf16_le"])
def test_other_complex_types_are_refused_with_those_there_are(store: iso.Store, name: str) -> None:
    with pytest.raises(TypeError, match=rf'dtype "{name}" is not supported; .*"ci16" \(complex_int16: .*"complex64"'):
        store.create("iq", dtype=name, rate=1000)


@pytest.mark.parametrize(("dtype", "order"), [("ci16", "<"), ("ci16_le", "<"), ("ci16_be", ">")])
def test_raw_recordings_of_receivers_are_imported(tmp_path: Path, dtype: str, order: str) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    parts = pairs(5000)
    parts.astype(f"{order}i2").tofile(folder / "radio_1600000000.cs16")
    store = iso.open(tmp_path / "a.iso", "x")
    store.import_raw(folder, layout="{station}_{epoch}.cs16", dtype=dtype, rate=Fraction(1000))
    (signal,) = store.find("**")
    np.testing.assert_array_equal(signal[:].values(), as_complex(parts))


def test_info_says_how_samples_are_stored(
    store: iso.Store, signal: iso.Signal, capsys: pytest.CaptureFixture[str]
) -> None:
    from isochrony.cli import main

    path = str(store.path)
    store.close()
    assert main(["info", f"{path}/iq"]) == 0
    assert "complex64, stored as complex_int16" in capsys.readouterr().out
