"""Segments: shared memory in both directions, and nothing that is not there."""

import gc
import warnings
import weakref

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8", "c8", "c16"]
dtypes = st.sampled_from(DTYPES)


@st.composite
def samples(draw: st.DrawFn) -> np.ndarray:
    return draw(hnp.arrays(draw(dtypes), st.integers(0, 200)))


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the bit, NaN included."""
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
class TestZeroCopy:
    def test_numpy_in_and_out_shares_memory(self, dtype: str) -> None:
        x = np.arange(100).astype(dtype)
        segment = iso.Segment(x, start=7)
        assert np.shares_memory(np.asarray(segment), x)
        assert np.shares_memory(segment.counts, x)
        assert same(np.asarray(segment), x)
        assert (segment.start, segment.end, len(segment)) == (7, 107, 100)

    def test_views_are_read_only(self, dtype: str) -> None:
        view = iso.Segment(np.arange(3).astype(dtype)).counts
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True

    def test_a_view_outlives_its_segment_and_keeps_the_array_alive(self, dtype: str) -> None:
        class Array(np.ndarray):
            pass

        x = np.arange(1000).astype(dtype).view(Array)
        gone = weakref.ref(x)
        segment = iso.Segment(x)
        view = segment.subseg(10, 20).counts
        del x, segment
        gc.collect()
        assert same(np.array(view), np.arange(1000).astype(dtype)[10:20])
        del view
        gc.collect()
        assert gone() is None

    def test_dlpack_shares_memory(self, dtype: str) -> None:
        x = np.arange(100).astype(dtype)
        out = np.from_dlpack(iso.Segment(x))
        assert np.shares_memory(out, x)
        assert not out.flags.writeable

    def test_arrow_round_trip(self, dtype: str) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        x = (np.arange(100) % 5).astype(dtype)
        array = pyarrow.array(iso.Segment(x))
        assert len(array) == 100
        array.validate(full=True)
        for part in (slice(0, 100), slice(3, 17), slice(5, 5)):
            back = iso.Segment.from_arrow(array[part])
            assert same(back.counts, x[part])
        if dtype != "?":
            assert np.shares_memory(iso.Segment.from_arrow(array).counts, x)


class TestAnySamples:
    @given(samples(), st.data())
    @settings(max_examples=200)
    def test_cutting_and_joining_leaves_no_trace(self, x: np.ndarray, data: st.DataObject) -> None:
        segment = iso.Segment(x, start=-50)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(x)), max_size=5)))
        edges = [0, *cuts, len(x)]
        joined = segment.subseg(-50, -50)
        for a, b in zip(edges, edges[1:], strict=False):
            joined = joined.append(segment.subseg(a - 50, b - 50))
        assert same(joined.counts, x)
        assert joined.is_contiguous
        assert len(joined.buffers()) <= 1

    @given(samples(), samples())
    @settings(max_examples=100)
    def test_joined_buffers_materialise_once(self, x: np.ndarray, y: np.ndarray) -> None:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = y.astype(x.dtype)
        both = iso.Segment(x).append(iso.Segment(y, start=len(x)))
        assert same(both.counts, np.concatenate([x, y]))
        assert same(both.materialise().counts, np.concatenate([x, y]))
        assert [len(b) for b in both.buffers()] == [len(p) for p in (x, y) if len(p)]

    @given(samples(), st.floats(-1e6, 1e6).filter(lambda s: s != 0), st.floats(-1e6, 1e6))
    @settings(max_examples=100)
    def test_calibration(self, x: np.ndarray, scale: float, offset: float) -> None:
        segment = iso.Segment(x, scale=scale, offset=offset, unit="kPa")
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            expected = x.astype(wide)
            # By parts: NumPy multiplies by a complex scale, whose zero times infinity is NaN.
            expected.real = expected.real * scale + offset
            if wide is np.complex128:
                expected.imag = expected.imag * scale
        got = np.asarray(segment)
        if (scale, offset) == (1.0, 0.0):
            assert same(got, x)
        else:
            assert got.dtype == wide
            np.testing.assert_array_equal(got, expected)
        assert same(segment.counts, x)


class TestConversions:
    def test_strided_and_foreign_order_are_copied(self) -> None:
        x = np.arange(20, dtype="i2")
        assert same(iso.Segment(x[::2]).counts, x[::2].copy())
        assert same(iso.Segment(x.astype(">i2")).counts, x)
        assert same(iso.Segment(x[::-1]).counts, x[::-1].copy())

    def test_unaligned_memory_is_read_correctly(self) -> None:
        raw = np.arange(81, dtype="u1")
        x = raw[1:].view("f8")
        segment = iso.Segment(x)
        assert same(np.array(segment.counts), np.array(x))
        assert segment.materialise().counts.flags.aligned

    def test_copy_protects_from_later_writes(self) -> None:
        x = np.zeros(4, dtype="f4")
        kept = iso.Segment(x, copy=True)
        x[:] = 1
        assert not kept.counts.any()

    def test_array_keywords(self) -> None:
        x = np.arange(4, dtype="i2")
        segment = iso.Segment(x)
        assert np.asarray(segment, dtype="f8").dtype == np.float64
        assert not np.shares_memory(np.array(segment, copy=True), x)
        assert np.array(segment, copy=True).flags.writeable
        assert np.shares_memory(np.asarray(segment, copy=False), x)
        with pytest.raises(ValueError, match="copy"):
            np.asarray(iso.Segment(x, scale=2.0), copy=False)

    def test_rate_and_labels(self) -> None:
        segment = iso.Segment(np.zeros(1), rate="44100000/1001", name="a/b", unit="Pa")
        assert segment.rate.fraction.denominator == 143
        assert (segment.name, segment.unit, segment.time) == ("a/b", "Pa", None)
        assert "a/b" in repr(segment)


class TestRefused:
    def test_segments_that_do_not_touch(self) -> None:
        a = iso.Segment(np.zeros(3, "i2"), name="a")
        with pytest.raises(iso.SegmentError, match="ends at 3") as caught:
            a.append(iso.Segment(np.zeros(3, "i2"), start=4, name="a"))
        assert caught.value.code == "not_adjacent"
        with pytest.raises(iso.SegmentError, match="stream"):
            a.append(iso.Segment(np.zeros(3, "i2"), start=3, name="b"))
        with pytest.raises(TypeError, match="int16"):
            a.append(iso.Segment(np.zeros(3, "i4"), start=3, name="a"))

    def test_ranges_outside(self) -> None:
        with pytest.raises(IndexError, match=r"holds 5\.\.8") as caught:
            iso.Segment(np.zeros(3, "i2"), start=5).subseg(4, 6)
        assert isinstance(caught.value, iso.SegmentError)

    @pytest.mark.parametrize("bad", [np.zeros(3, "u8"), np.zeros(3, "f2"), np.array(["a"]), np.array([object()])])
    def test_types_that_signals_cannot_have(self, bad: np.ndarray) -> None:
        with pytest.raises(TypeError, match="dtype"):
            iso.Segment(bad)

    def test_more_dimensions(self) -> None:
        with pytest.raises(iso.SegmentError, match="1-D"):
            iso.Segment(np.zeros((2, 2)))

    def test_unusable_calibration(self) -> None:
        with pytest.raises(iso.SegmentError, match="scale"):
            iso.Segment(np.zeros(2), scale=0.0)

    def test_arrow_with_nulls_or_text(self) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        for bad in (pyarrow.array([1, None]), pyarrow.array(["a"]), pyarrow.array([[1.0], [2.0]])):
            with pytest.raises(TypeError, match="Arrow"):
                iso.Segment.from_arrow(bad)
