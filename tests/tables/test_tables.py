"""Tables: rows and columns, and other libraries that take them."""

import copy
import json
import pickle
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso
from made import pressure


def made(rows: int = 7) -> iso.Table:
    """A table of every kind of column that plans give, made here."""
    rng = np.random.default_rng(3)
    times = np.datetime64("2024-01-01T00:00:00.000000001", "ns") + np.arange(rows) * np.timedelta64(1, "s")
    if rows:
        times[-1] = np.datetime64("NaT")
    columns = {
        "start": np.arange(rows) * 10,
        "time": times,
        "max": rng.integers(-9, 9, rows).astype("i2"),
        "mean": rng.normal(size=rows).astype("f4"),
        "loud": rng.integers(0, 2, rows).astype(bool),
        "phase": np.exp(1j * np.arange(rows)).astype("c8"),
        "wave": rng.normal(size=(rows, 3)),
    }
    return iso.Table(columns, {"mean": "kPa", "wave": "V"})


def gathered(store: iso.Store) -> iso.Table:
    """The same kinds of columns from a plan."""
    table: iso.Table = (
        iso.scan(pressure(store))
        .rewindow(100)
        .rows(
            max=lambda s: s.max(),
            mean=lambda s: s.mean(),
            loud=lambda s: s.max() > 300,
            phase=lambda s: s.mean() + 1j,
            wave=lambda s: s * 2,
        )
        .collect()
    )
    return table


def same(got: np.ndarray, expected: np.ndarray) -> None:
    """Also where NaT is in structured arrays, which NumPy finds unequal."""
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert got.tobytes() == expected.tobytes()


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_rows_are_those_of_a_structured_array(data: st.DataObject) -> None:
    table = made(data.draw(st.integers(0, 12)))
    whole = table.to_numpy()
    count = len(whole)
    assert len(table) == table.num_rows == count
    assert table.shape == (count, 7)
    ends = st.one_of(st.none(), st.integers(-15, 15))
    step = st.sampled_from([None, 1, 2, -1, -3])
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
    keys: list[Any] = [slice(data.draw(ends), data.draw(ends), data.draw(step)), mask, mask.tolist() or slice(0)]
    if count:
        keys.append(data.draw(st.lists(st.integers(-count, count - 1), max_size=9)))
    for key in keys:
        expected = whole[np.array(key, int) if isinstance(key, list) and not len(key) else key]
        same(table[key].to_numpy(), expected)
        assert table[key].units == table.units
    for row in range(-count, count):
        one = table[row]
        assert list(one) == list(table.columns)
        for name in table.columns:
            np.testing.assert_array_equal(one[name], whole[row][name])
    assert len(list(table)) == count
    same(table.head(3).to_numpy(), whole[:3])


def test_columns_are_read_as_in_a_dict() -> None:
    table = made()
    assert "max" in table
    assert "min" not in table
    assert 0 not in table
    assert [*table.keys()] == [*dict(table)] == [name for name, _ in table.items()] == list(table.columns)
    assert all(one is table[name] for name, one in table.items())
    assert next(iter(table.values())) is table["start"]
    assert table.get("max") is table["max"]
    assert table.get("min", 5) == 5
    two = table[["mean", "start"]]
    assert two.columns == ("mean", "start")
    assert two.units == {"mean": "kPa"}
    assert len(two) == len(table)
    assert not iso.Table({})
    assert iso.Table({}).shape == (0, 0)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_sorting_is_stable_and_leaves_what_is_unknown_to_the_end(data: st.DataObject) -> None:
    values = st.sampled_from([np.nan, -np.inf, -1.0, -0.0, 0.0, 2.0])
    a = np.array(data.draw(st.lists(values, max_size=20)))
    b = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(a), max_size=len(a))), "i8")
    table = iso.Table({"a": a, "b": b, "at": np.arange(len(a))})
    down = data.draw(st.booleans())
    sign = -1 if down else 1

    def key(row: int) -> tuple[Any, ...]:
        return sign * b[row], np.isnan(a[row]), 0 if np.isnan(a[row]) else sign * a[row], row

    expected = sorted(range(len(a)), key=key)
    assert table.sort("b", "a", descending=down)["at"].tolist() == expected


def test_times_and_texts_are_sorted() -> None:
    table = iso.Table(
        {"time": np.array(["2024", "NaT", "2025"], "M8[ns]"), "text": np.array(["b", "c", "a"]), "at": np.arange(3)}
    )
    assert table.sort("time", descending=True)["at"].tolist() == [2, 0, 1]
    assert table.sort("time")["at"].tolist() == [0, 2, 1]
    assert table.sort("text", descending=True)["at"].tolist() == [1, 0, 2]


def test_errors_name_the_value_and_what_there_is() -> None:
    table = made()
    for missing in (lambda: table["min"], lambda: table[["max", "min"]], lambda: table.sort("min")):
        with pytest.raises(iso.OptionError, match="no column 'min'; it has start, time, max") as error:
            missing()
        assert isinstance(error.value, KeyError)
        assert error.value.code == "unknown_column"
    for outside in (lambda: table[7], lambda: table[-8], lambda: table[[0, 7]]):
        with pytest.raises(IndexError, match=r"row -?\d is outside a table of 7 rows") as index_error:
            outside()
        assert getattr(index_error.value, "code", None) == "row_out_of_range"
    with pytest.raises(IndexError, match="the mask has 3 values, but the table has 7 rows"):
        table[np.ones(3, bool)]
    for wrong in (2.5, None, [1.5], {"max": 1}, np.zeros((2, 2), int)):
        with pytest.raises(iso.OptionError, match="give a column's name"):
            table[wrong]  # type: ignore[call-overload]
    for count in (-1, 2.5, True):
        with pytest.raises(iso.OptionError, match="head"):
            table.head(count)  # type: ignore[arg-type]
    with pytest.raises(iso.OptionError, match="needs a column"):
        table.sort()
    with pytest.raises(iso.OptionError, match="compute one"):
        table.sort("wave")
    with pytest.raises(iso.OptionError, match="descending"):
        table.sort("max", descending="yes")  # type: ignore[arg-type]
    with pytest.raises(iso.OptionError, match=r"column 'a'.*one value a row"):
        iso.Table({"a": np.array(3)})
    with pytest.raises(iso.OptionError, match="equally long"):
        iso.Table({"a": np.arange(3), "b": np.arange(4)})


def test_what_cannot_be_a_column_is_refused() -> None:
    refused: list[tuple[Any, str]] = [
        ([1, 2], "a table of a list is refused; give a dict"),
        ({1: np.arange(2)}, "named 1; give text"),
        ({"a": [[1, 2], [3]]}, "'a' of a table is no array .*equal length"),
        ({"a": np.ma.array([1, 2], mask=[0, 1])}, "'a' of a table has masked values"),
        ({"a": np.array(["3000"], "M8[Y]")}, "'a' of a table has times .*1678 to 2262"),
        ({"a": np.array([1], "m8[ps]")}, "'a' of a table has times"),
    ]
    for columns, message in refused:
        with pytest.raises(iso.OptionError, match=message):
            iso.Table(columns)
    assert iso.Table({"a": np.ma.array([1, 2])})["a"].tolist() == [1, 2]
    for units, message in (({"typo": "m"}, "'typo', which is no column; the table has a"), ({"a": 5}, "is 5; give")):
        with pytest.raises(iso.OptionError, match=message):
            iso.Table({"a": np.arange(2)}, units)  # type: ignore[arg-type]


def test_columns_have_native_byte_order_and_nanoseconds() -> None:
    table = iso.Table({
        "big": np.array([1, 2], ">i4"),
        "day": np.array(["2024-01-02", "NaT"], "M8[D]"),
        "took": np.array([3, 4], "m8[s]"),
    })  # fmt: skip
    assert [column.dtype.str for column in table.values()] == ["<i4", "<M8[ns]", "<m8[ns]"]
    assert table["big"].tolist() == [1, 2]
    assert table["day"][0] == np.datetime64("2024-01-02")
    assert np.isnat(table["day"][1])
    assert table["took"][1] == np.timedelta64(4, "s")


def test_equal_tables_have_the_same_values_and_units() -> None:
    table = made()
    assert np.isnat(table["time"]).any()
    assert table == made()
    assert table != table[:-1]
    assert table != table[["start", "time"]]
    same_columns = dict(table)
    assert table != iso.Table(same_columns, {"mean": "Pa", "wave": "V"})
    assert table != iso.Table(same_columns)
    unknown = np.array([1, np.nan, np.nan + 1j])
    assert iso.Table({"a": unknown}) == iso.Table({"a": unknown.copy()})
    assert iso.Table({"a": unknown}) != iso.Table({"a": unknown + 1})
    assert iso.Table({"a": np.array([1, 2])}) == iso.Table({"a": np.array([1.0, 2.0])})
    times = np.array([1, 2], "M8[ns]")
    assert iso.Table({"a": times}) != iso.Table({"a": times.view("m8[ns]")})
    assert iso.Table({"a": times}) != iso.Table({"a": np.array(["1", "2"])})


@pytest.mark.parametrize("kind", ["gathered", "made"])
def test_tables_are_pickled_and_copied(store: iso.Store, kind: str) -> None:
    table = gathered(store) if kind == "gathered" else made()
    for part in parts(table):
        for other in (pickle.loads(pickle.dumps(part)), copy.deepcopy(part), copy.copy(part)):
            assert other == part
            assert not any(column.flags.writeable for column in other.values())


def test_keys_with_two_meanings_are_refused() -> None:
    table = made()
    masked = np.ma.array(np.ones(7, bool), mask=np.arange(7) == 2)
    keys: list[tuple[Any, str]] = [
        ((0, 1), r"no \(0, 1\); give"),
        ((), r"no \(\); give"),
        (["max", "max"], "repeat a name"),
        (["max", 1], "no .*'max', 1"),
        ([[1], [2, 3]], r"no \[\[1\], \[2, 3\]\]; give"),
        (masked, "with masked values; give"),
        (np.array([True, False], object), r"no array of dtype object, shape \(2,\); give.*dtype bool"),
        (slice(None, None, 0), "None:None:0 .*zero"),
        (slice("start", "max"), "'start':'max'.*a list of names"),
    ]
    for key, message in keys:
        with pytest.raises(iso.OptionError, match=message):
            table[key]
    for names in (np.array(["max", "mean"]), np.array(["max", "mean"], object), ("max", "mean")):
        assert table[names].columns == ("max", "mean")  # type: ignore[call-overload]
    assert ["max"] not in table
    assert table.get(["max"]) is None  # type: ignore[arg-type]
    with pytest.raises(iso.OptionError, match=r"sort.*comparable"):
        iso.Table({"a": np.array([1, None], object)}).sort("a")


def test_columns_without_an_arrow_type_are_refused() -> None:
    pytest.importorskip("pyarrow")
    columns = [
        np.ones(2, "clongdouble"), np.ones(2, "longdouble"), np.ones((2, 0)), np.array([1, "a"], object),
        np.zeros(2, [("x", "i4")]),
    ]  # fmt: skip
    for column in columns:
        with pytest.raises(iso.OptionError, match=r"column 'odd' of dtype .* has no Arrow type"):
            iso.Table({"odd": column}).to_arrow()
    made_here = iso.Table({"day": np.array(["2024-01-02"], "M8[D]"), "big": np.array([7], ">f8")})
    assert made_here.to_arrow()["day"].cast("int64").to_pylist() == [1_704_153_600_000_000_000]
    assert made_here.to_arrow()["big"].to_pylist() == [7.0]


def test_numpy_makes_a_structured_array() -> None:
    for table in (made(), made(1), made(0), iso.Table({})):
        array = np.asarray(table)
        same(array, table.to_numpy())
        assert array.shape == (len(table),)


def parts(table: iso.Table) -> list[iso.Table]:
    """The table, and what is selected of it in every way."""
    every_other = np.arange(len(table)) % 2 == 0
    return [
        table, table[1:4], table[::-2], table[every_other], table[[3, 0]], table[:0], table.sort("max"),
        table[["mean", "time"]], table.sort("max")[::2][["start", "wave"]],
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["gathered", "made"])
def test_arrow_takes_tables_and_what_is_selected_of_them(store: iso.Store, kind: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = gathered(store) if kind == "gathered" else made()
    whole = pyarrow.table(table)
    assert whole.schema.field("time").type == pyarrow.timestamp("ns", "UTC")
    assert whole["phase"].type.list_size == 2
    for part in parts(table):
        arrow = pyarrow.table(part)
        assert arrow.schema == pyarrow.schema(part)
        assert arrow.schema.names == list(part.columns)
        for name in part.columns:
            assert arrow.schema.field(name).type == whole.schema.field(name).type
            assert (arrow.schema.field(name).metadata or {}).get(b"unit", b"").decode() == part.units.get(name, "")
        if "time" in part:
            got = np.array([-1 if t is None else t for t in arrow["time"].cast("int64").to_pylist()])
            np.testing.assert_array_equal(got, np.where(np.isnat(part["time"]), -1, part["time"].view("i8")))
        if "wave" in part:
            assert arrow["wave"].to_pylist() == part["wave"].tolist()
        if "phase" in part:
            assert [complex(*pair) for pair in arrow["phase"].to_pylist()] == part["phase"].tolist()


@pytest.mark.parametrize("kind", ["gathered", "made"])
def test_no_column_can_be_written(store: iso.Store, kind: str) -> None:
    """NumPy would show what was written, and Arrow the rows that the engine has."""
    table = gathered(store) if kind == "gathered" else made()
    for part in parts(table):
        for name in part.columns:
            with pytest.raises(ValueError, match="read-only"):
                part[name][:] = 0
    frame = table.to_pandas()
    frame.loc[0, "max"] = 77
    assert 77 not in table["max"]
    own = np.arange(3)
    iso.Table({"a": own})
    own[0] = 5
    assert own.flags.writeable


def test_unknown_values_stay_unknown_in_a_part() -> None:
    """NumPy has NaN for them; Arrow has null."""
    pyarrow = pytest.importorskip("pyarrow")
    from isochrony import _native

    class Native:
        names, units = ("a",), {}

        def column(self, name: str) -> np.ndarray:
            return np.array([1.0, np.nan, 3.0])

        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return pyarrow.table({"a": pyarrow.array([1, None, 3])}).__arrow_c_stream__(requested_schema)

    native: _native.NativeTable = Native()  # type: ignore[assignment]
    table = iso.Table._of(native)
    assert not table["a"].flags.writeable
    assert pyarrow.table(table[1:])["a"].to_pylist() == [None, 3]
    assert pyarrow.table(table[1:])["a"].type == pyarrow.int64()


@pytest.mark.parametrize("kind", ["gathered", "made"])
def test_pandas_polars_and_duckdb_take_tables(store: iso.Store, kind: str) -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    table = gathered(store) if kind == "gathered" else made()
    for part in parts(table):
        frame = part.to_pandas()
        assert list(frame.columns) == list(part.columns)
        for direct in (frame, pandas.DataFrame(part)) if len(part) else (frame,):
            for name in part.columns:
                if part[name].ndim == 1:
                    assert direct[name].dtype == part[name].dtype
                theirs = direct[name].to_numpy() if part[name].ndim == 1 else np.array(direct[name].tolist())
                np.testing.assert_array_equal(theirs.reshape(part[name].shape), part[name])
        columns = polars.DataFrame(part)
        assert columns.columns == list(part.columns)
        assert columns.shape == part.shape
        if "time" in part:
            assert columns["time"].dtype == polars.Datetime("ns", "UTC")
            np.testing.assert_array_equal(columns["time"].to_numpy(), part["time"])
        for name in {"start", "max", "mean"} & set(part.columns):
            np.testing.assert_array_equal(columns[name].to_numpy(), part[name])
        assert duckdb.sql("select count(*) from part").fetchall() == [(len(part),)]
        if {"time", "max"} <= set(part.columns):
            rows = duckdb.sql("select epoch_ns(time), max from part").fetchall()
            expected = [None if np.isnat(t) else int(t.view("i8")) for t in part["time"]]
            assert rows == [(t, m) for t, m in zip(expected, part["max"].tolist(), strict=True)]


def test_operators_emit_tables() -> None:
    class Loud(iso.Operator):
        def outputs(self, rows: iso.Port) -> iso.Port:
            return rows

        def process(self, block: iso.Block, emit: iso.Emitter) -> None:
            emit(block.values[block.values["max"] > 5])

    rows = iso.scan(np.arange(12) % 7, rate=10).rewindow(2).stats("max")
    table = rows.apply(Loud).collect()
    assert table["max"].tolist() == [6]
    everything = iso.scan(np.arange(12) % 7, rate=10).rewindow(1).stats("max")
    assert len(everything.apply(Loud).collect()) == 1


def test_functions_of_rows_return_tables_or_dicts() -> None:
    rows = iso.scan(np.arange(12), rate=10).rewindow(2).stats("max")
    doubled = rows.map(iso.py(lambda table: dict(table) | {"max": 2 * table["max"]})).collect()
    np.testing.assert_array_equal(rows.map(iso.py(lambda table: table)).collect()["max"], rows.collect()["max"])
    assert doubled["max"].tolist() == [2, 6, 10, 14, 18, 22]


def test_long_rows_print_short() -> None:
    table = iso.Table({"short": np.arange(6).reshape(2, 3), "long": np.arange(200.0).reshape(2, 100)})
    assert "[0 1 2]" in repr(table)
    assert "[100 101 ... 199]" in repr(table)
    assert len(repr(table).splitlines()) == 4


def test_rows_are_plain_dicts() -> None:
    row = made()[2]
    assert json.loads(json.dumps({"start": int(row["start"]), "max": int(row["max"])}))["start"] == 20
