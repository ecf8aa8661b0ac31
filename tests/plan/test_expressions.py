"""Functions of single values in traced expressions, against NumPy, special values included."""

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

import isochrony as iso

Array = npt.NDArray[Any]

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "arctan2": lambda s: np.arctan2(s, 0.75),
    "hypot": lambda s: np.hypot(s, 0.75),
    "power 1.5": lambda s: s**1.5,
    "power -0.375": lambda s: np.power(s, -0.375),
    "power 11": lambda s: s**11.0,
    "exponent": lambda s: 1.75**s,
}
EXACT: dict[str, Callable[[Any], Any]] = {
    "modulo": lambda s: s % 3,
    "modulo of a fraction": lambda s: s % 0.7,
    "modulo of a negative": lambda s: np.remainder(s, -2.5),
    "fmod": lambda s: np.fmod(s, 0.7),
    "fmod of a negative": lambda s: np.fmod(s, -3),
    "by samples": lambda s: 7 % s,
    "quotient rounded down": lambda s: s // 3,
    "of a fraction": lambda s: s // -0.7,
    "rounded down by samples": lambda s: 100 // s,
}


def mapped(function: Callable[[Any], Any], x: Array, wrap: bool = False) -> Array:
    result: Array = iso.scan(x, rate=100).map(function, wrap=wrap).collect()
    return result


def floats(width: int) -> st.SearchStrategy[Array]:
    edges = st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0**-140, 1e6 + 0.5, 88.5, -104.0])
    whole = st.integers(-100, 100).map(float)
    near = st.floats(-100, 100, width=width)  # type: ignore[call-overload]
    anything = st.floats(width=width)  # type: ignore[call-overload]
    values = st.one_of(near, whole, edges, anything)
    return arrays(f"f{width // 8}", st.integers(1, 40), elements=values)


@given(st.sampled_from(sorted(FUNCTIONS)), st.one_of(floats(32), floats(64)))
@settings(max_examples=400, deadline=None)
def test_functions_are_numpys_to_a_few_units_of_the_last_place(name: str, x: Array) -> None:
    function = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        # Of the same numbers in double precision, which is closer than NumPy's own single one.
        expected = function(x.astype("f8")).astype(x.dtype)
    got = mapped(function, x)
    assert got.dtype == function(np.ones(1, x.dtype)).dtype
    info = np.finfo(x.dtype)
    np.testing.assert_allclose(got, expected, rtol=4 * float(info.eps), atol=4 * float(info.smallest_subnormal))
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


@given(st.sampled_from(sorted(EXACT)), st.one_of(floats(32), floats(64)))
@settings(max_examples=400, deadline=None)
def test_remainders_are_numpys_bits(name: str, x: Array) -> None:
    with np.errstate(all="ignore"):
        expected = EXACT[name](x)
    got = mapped(EXACT[name], x)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


@given(
    st.sampled_from(["%", "//", "fmod"]),
    st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4"]),
    st.data(),
)
@settings(max_examples=300, deadline=None)
def test_quotients_of_integers_are_numpys(op: str, dtype: str, data: st.DataObject) -> None:
    x = data.draw(arrays(dtype, st.integers(1, 40)))
    by = data.draw(st.integers(0 if dtype[0] == "u" else -128, 127))
    functions: dict[str, Callable[[Any], Any]] = {
        "%": lambda s: s % by,
        "//": lambda s: s // by,
        "fmod": lambda s: np.fmod(s, by),
    }
    with np.errstate(all="ignore"):
        expected = functions[op](x)
    got = mapped(functions[op], x, wrap=True)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda s, by: s + by,
    "-": lambda s, by: s - by,
    "reflected -": lambda s, by: by - s,
    "*": lambda s, by: s * by,
    "//": lambda s, by: s // by,
    "minus": lambda s, by: -s,
    "abs": lambda s, by: abs(s),
    "** 2": lambda s, by: s**2,
}


@given(
    st.sampled_from(sorted(ARITHMETIC)),
    st.sampled_from(["i1", "i2", "i4", "u1", "u2", "u4"]),
    st.one_of(st.integers(-128, 127).filter(bool), st.integers(-(2**31), 2**31 - 1).filter(bool)),
    st.data(),
)
@settings(max_examples=400, deadline=None)
def test_integer_arithmetic_is_that_of_python_and_wraps_as_numpys_on_request(
    name: str, dtype: str, by: int, data: st.DataObject
) -> None:
    info = np.iinfo(dtype)
    limits = st.sampled_from([int(info.min), int(info.max), 0, 1])
    numbers = data.draw(st.lists(st.one_of(limits, st.integers(int(info.min), int(info.max))), min_size=1, max_size=40))
    x = np.array(numbers, dtype)

    def function(s: Any) -> Any:
        return ARITHMETIC[name](s, by)

    expected = [function(number) for number in numbers]
    got = mapped(function, x)
    # Squares of uint32, and products with a constant as large, may be beyond 64 bits, which is as wide as it gets.
    if all(-(2**63) <= number < 2**63 for number in expected):
        assert got.tolist() == expected
    else:
        assert got.dtype == np.int64
    if info.min <= by <= info.max:
        with np.errstate(all="ignore"):
            numpys = function(x)
        wrapped = mapped(function, x, wrap=True)
        assert wrapped.dtype == numpys.dtype
        np.testing.assert_array_equal(wrapped, numpys)


def test_a_filter_of_differences_does_not_wrap_unless_asked_to() -> None:
    x = np.array([0, 250, 5, 10], "u1")
    windows = iso.scan(x, rate=1).rewindow(2)
    assert windows.filter(lambda s: s.min() - s.max() < -100).collect().tolist() == [[0, 250]]
    assert windows.filter(lambda s: s.min() - s.max() > 0, wrap=True).collect().tolist() == [[0, 250], [5, 10]]
    rows = windows.rows(step=lambda s: (s.min() - s.max()).wrapping())
    assert np.asarray(rows.collect()["step"]).tolist() == [6, 251]


def test_fields_of_rows_widen_and_wrap_as_values_of_map_do() -> None:
    windows = iso.scan(np.array([100, 127, -3, -128], "i1"), rate=1).rewindow(2)
    for wrap, dtype in ((False, "int16"), (True, "int8")):
        expected = np.array([127 + 127, -3 - 3]).astype(dtype)
        rows = windows.rows(top=lambda s: s.max(), twice=lambda s: s.max() + s.max(), wrap=wrap)
        selected = windows.rows(top=lambda s: s.max()).select("top", twice=lambda r: r.top + r.top, wrap=wrap)
        for plan in (rows, selected):
            twice = np.asarray(plan.collect()["twice"])
            assert twice.dtype == expected.dtype
            np.testing.assert_array_equal(twice, expected)
    for step in (windows.rows, windows.rows(top=lambda s: s.max()).select):
        with pytest.raises(iso.OptionError, match=r"wrap=<function.*True or False: it says whether integers wrap"):
            step(wrap=lambda s: s.max())


@pytest.mark.parametrize(
    ("dtype", "by", "expected"),
    [("i1", 2, "i1"), ("i1", -2, "i1"), ("i1", -1, "i2"), ("i4", 3, "i4"), ("i4", -1, "i8"), ("u4", 7, "u4")],
)
def test_a_constant_divisor_widens_only_where_a_quotient_needs_it(dtype: str, by: int, expected: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 7], dtype)
    for divisor in (by, np.array(by, dtype)[()]):
        got = mapped(lambda s, divisor=divisor: s // divisor, x)
        assert got.dtype == expected
        assert got.tolist() == [int(value) // by for value in x]


def test_wrapping_is_of_expressions_and_saved_with_them(store: iso.Store) -> None:
    counts = iso.scan(np.int16([30_000]), rate=1)
    with pytest.raises(iso.PlanError, match="wrap=True is for expressions"):
        counts.rewindow(1).map(iso.py(np.negative), wrap=True)
    plan = counts.map(lambda s: s * 2, wrap=True)
    assert "wrapping_mul(s, 2)" in str(plan)
    assert str((iso.Expr.input() * 2).wrapping()) == "wrapping_mul(s, 2)"


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "power 1.5"])
def test_counts_of_16_bits_give_single_precision_as_in_numpy(name: str) -> None:
    x = np.arange(-300, 300, dtype="i2")
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x)
    got = mapped(FUNCTIONS[name], x)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_new_functions_print_save_and_run_again() -> None:
    x = np.linspace(0.5, 3, 100)

    def function(s: Any) -> Any:
        return np.fmod(np.log2(s) + np.tanh(s), 0.5) + np.trunc(s)

    s = iso.Expr.input()
    assert str(function(s)) == "fmod(log2(s) + tanh(s), 0.5) + trunc(s)"
    plan = iso.scan(x, rate=100).map(function)
    np.testing.assert_allclose(plan.collect(), function(x), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["i2", "i4", "i8", "f4", "f8"])
def test_rint_gives_the_dtype_that_numpy_gives(dtype: str) -> None:
    samples = np.array([-3, 0, 2, 5], dtype)
    got = iso.scan(samples, rate=1).map(lambda s: np.rint(s)).collect()
    want = np.rint(samples)
    assert got.dtype == want.dtype and np.array_equal(got, want)
