"""What a tasklet does and gives, as a run that goes on sees it."""

from __future__ import annotations

import functools
import random
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.errors.native import OptionError
from isochrony.tasklets import identity as identities
from isochrony.tasklets.identity import NoIdentityError, identity


def scale(inputs: list[Any], outputs: list[Any], by: float = 1) -> float:
    return by


def made(text: str) -> Any:
    """A function of a text, as one that was edited."""
    space: dict[str, Any] = {"np": np}
    exec(textwrap.dedent(text), space)
    return space["f"]


def enclosing(value: Any) -> Callable[..., Any]:
    return lambda inputs, outputs: value


class Scaled:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, inputs: list[Any], outputs: list[Any]) -> float:
        return self.by


LARGE = np.zeros(1 << 18)
OTHER = LARGE + 1
PAIRS: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
    (lambda: functools.partial(scale, by=2), lambda: functools.partial(scale, by=3)),
    (lambda: functools.partial(scale, 2), lambda: functools.partial(scale, 2, by=2)),
    (lambda: lambda i, o: 1, lambda: lambda i, o: 2),
    (lambda: lambda i, o: np.min(i[0]), lambda: lambda i, o: np.max(i[0])),
    (lambda: enclosing(2), lambda: enclosing(2.0)),
    (lambda: enclosing([1, {"a": {3}}]), lambda: enclosing([1, {"a": {4}}])),
    (lambda: enclosing(np.arange(3)), lambda: enclosing(np.arange(4))),
    (lambda: enclosing(LARGE), lambda: enclosing(OTHER)),
    (lambda: enclosing(enclosing(1)), lambda: enclosing(enclosing(2))),
    (lambda: Scaled(2), lambda: Scaled(3)),
    (lambda: Scaled(2).__call__, lambda: Scaled(3).__call__),
    (lambda: made("def f(i, o, k=1): return k"), lambda: made("def f(i, o, k=2): return k")),
    (lambda: made("def f(i, o, *, k=1): return k"), lambda: made("def f(i, o, *, k=2): return k")),
    (
        lambda: made("def f(i, o):\n  def g(): return 1\n  return g()"),
        lambda: made("def f(i, o):\n  def g(): return 2\n  return g()"),
    ),
]


class Several(list[float]):
    by = 1.0


def with_attribute(value: Any, by: float) -> Any:
    value.by = by
    return value


def nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def frame(by: float, rows: int = 10_000) -> Any:
    values = np.zeros(rows)
    values[rows // 2] = by
    return pytest.importorskip("pandas").DataFrame({"a": values, "t": values.astype("M8[s]")})


def arrow(by: float) -> Any:
    pyarrow: Any = pytest.importorskip("pyarrow")
    return pyarrow.table({"a": frame(by)["a"].to_numpy()})


ENCLOSED: dict[str, Callable[[float], Any]] = {
    "masked array, its data": lambda by: np.ma.masked_array([1, by], [0, 0]),
    "masked array, its mask": lambda by: np.ma.masked_array([1, 2], [0, by == 2]),
    "masked array, its fill value": lambda by: np.ma.masked_array([1.0, 2.0], [0, 0], fill_value=by),
    "structured array, its names": lambda by: np.zeros(2, [(f"a{by}", "f4")]),
    "long regex": lambda by: re.compile("a" * 300 + str(by)),
    "regex, its flags": lambda by: re.compile("a", re.IGNORECASE if by == 2 else 0),
    "memoryview": lambda by: memoryview(bytes([int(by)])),
    "NumPy's generator": lambda by: np.random.default_rng(int(by)),
    "its method": lambda by: np.random.default_rng(int(by)).normal,
    "Python's generator": lambda by: random.Random(by),
    "deeply nested": lambda by: nested(by, 60),
    "span": lambda by: iso.span("2020-01-01", f"2020-01-0{int(by)}"),
    "rate": lambda by: iso.Rate(int(by)),
    "table": lambda by: iso.Table({"a": np.array([by])}),
    "DataFrame": frame,
    "DataFrame of a row": lambda by: frame(by, 1),
    "Series": lambda by: frame(by)["a"],
    "Arrow table": arrow,
    "list with an attribute": lambda by: with_attribute(Several([1.0]), by),
    "function with an attribute": lambda by: with_attribute(made("def f(i, o): pass"), by),
}


@pytest.mark.parametrize("which", ENCLOSED)
def test_other_enclosed_values_have_other_identities(which: str) -> None:
    made_of = ENCLOSED[which]
    one, same, other = (identity(enclosing(made_of(by))) for by in (2.0, 2.0, 3.0))
    assert one == same
    assert one != other


def test_a_frame_that_was_used_is_the_same() -> None:
    table = frame(2)
    before = identity(enclosing(table))
    assert table.loc[5000, "a"] == 2
    assert table.groupby("t").a.sum().sum() == 2
    assert identity(enclosing(table)) == before


@pytest.mark.parametrize(
    "value", [(_ for _ in "ab"), nested(1, 200), np.frompyfunc(abs, 1, 1), iso.scan(np.ones(3), rate=1)]
)
def test_what_has_no_text_that_is_the_same_everywhere_has_no_identity(value: Any) -> None:
    with pytest.raises(NoIdentityError):
        identity(enclosing(value))


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_other_functions_have_other_identities(number: int) -> None:
    one, other = PAIRS[number]
    assert identity(one()) == identity(one())
    assert identity(other()) == identity(other())
    assert identity(one()) != identity(other())


def test_an_identity_is_the_same_in_each_process_and_at_any_place() -> None:
    program = """
        import functools, logging, sys, threading
        import numpy as np
        from isochrony.tasklets.identity import identity

        class Node:
            def __init__(self): self.circle, self.lock = [self], threading.Lock()
            def __call__(self, i, o): return sorted(names)

        names = {"taps", "hop", "nfft", "sta", "lta"}
        node, log = Node(), logging.getLogger("x")
        def work(i, o, to=np.fft.rfft, kind=np.dtype("f4")):
            return names, node, object, len, log, {k: k in {"p", "q", "r"} for k in names}
        print(identity(work), identity(node), identity(functools.partial(work, at=object())))
    """
    found = set()
    for hashing in ("1", "2", "3"):
        code = "\n" * int(hashing) + textwrap.dedent(program)
        known = {**__import__("os").environ, "PYTHONHASHSEED": hashing}
        found.add(subprocess.run([sys.executable, "-c", code], env=known, check=True, capture_output=True).stdout)
    assert len(found) == 1


@pytest.fixture
def water(tmp_path: Path) -> Any:
    with iso.open(tmp_path / "water.iso", "x") as store:
        store.create("a", dtype="f8", rate=100).append(np.arange(1000.0))
        store.create("out", dtype="f8", rate=100).reserve(1000)
        yield store


def states(tmp_path: Path, *tasklets: iso.Tasklet) -> list[str]:
    executor = iso.Executor(journal=tmp_path / "journal")
    executor.add(*tasklets)
    return [one.state for one in executor.run(resume=True).tasklets]


def test_what_a_tasklet_does_otherwise_is_done_again(water: iso.Store, tmp_path: Path) -> None:
    a = water["a"]

    def tasklets(by: float, end: int) -> list[iso.Tasklet]:
        return [
            iso.Tasklet(functools.partial(scale, by=by), [a[:10]], name="partial"),
            iso.Tasklet(lambda i, o: by, [a[:10]], name="enclosed"),
            iso.Tasklet(iso.scan(a[:end]).count(), [a[:]], name="plan"),
            iso.Tasklet(scale, [a[:10]], name="as it was"),
        ]

    assert states(tmp_path, *tasklets(2, 10)) == ["done"] * 4
    assert states(tmp_path, *tasklets(2, 10)) == ["kept"] * 4
    assert states(tmp_path, *tasklets(3, 500)) == ["done"] * 3 + ["kept"]
    shown = iso.Executor()
    shown.add(*tasklets(3, 500))
    assert "scale(a[0:10])" in shown.explain()


def test_what_cannot_be_compared_is_never_kept(water: iso.Store, tmp_path: Path) -> None:
    opaque = [enclosing(_ for _ in "ab") for _ in "ab"]
    executor = iso.Executor(journal=tmp_path / "journal")
    executor.add(*(iso.Tasklet(one, name=name) for name, one in zip("ab", opaque, strict=True)))
    plan = iso.scan(np.ones(1000), rate=100).count()
    executor.add(iso.Tasklet(plan, [water["a"][:]], name="plan"), iso.Tasklet(scale, name="scale"))
    for states in (["done"] * 4, ["done"] * 3 + ["kept"]):
        report = executor.run(resume=True)
        assert [one.state for one in report.tasklets] == states
        assert report.notes[-2:] == (
            'tasklet "a" and 1 more cannot be told from what it was, because of an object of builtins.generator, which '
            "cannot be pickled: with resume they are run again",
            'tasklet "plan" cannot be told from what it was, because of a plan that scans an array in memory, '
            "which cannot be saved: with resume it is run again",
        )


def test_an_enclosed_plan_that_changed_is_noticed(water: iso.Store, tmp_path: Path) -> None:
    def tasklet(by: float) -> iso.Tasklet:
        plan = iso.scan(water["a"]).map(lambda sample: sample * by)
        return iso.Tasklet(lambda i, o: float(plan.collect()[1]), name="enclosing")

    assert [states(tmp_path, tasklet(by)) for by in (1, 1, 3)] == [["done"], ["kept"], ["done"]]


def test_a_large_array_that_changed_in_place_is_noticed_and_read_once_a_run(
    water: iso.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taps, reads, read = np.ones(1 << 18), [], identities._array

    def counted(*args: Any) -> bytes:
        reads.append(1)
        return read(*args)

    monkeypatch.setattr(identities, "_array", counted)

    def tasklets() -> list[iso.Tasklet]:
        return [iso.Tasklet(functools.partial(lambda i, o, by: by[0], by=taps), name=str(k)) for k in range(50)]

    assert states(tmp_path, *tasklets()) == ["done"] * 50
    assert states(tmp_path, *tasklets()) == ["kept"] * 50
    assert len(reads) == 2
    taps[0] = 3
    assert states(tmp_path, *tasklets()) == ["done"] * 50


def test_values_are_kept_as_they_were_or_not_at_all(water: iso.Store, tmp_path: Path) -> None:
    kept = {
        "big": 2**70,
        "float": 0.1 + 0.2,
        "tiny": 5e-324,
        "zero": -0.0,
        "text": "é\ud800",
        "nested": {"a": [1, None, True]},
    }
    unkept = {"keys": {1: 2}, "tuple": (1, 2), "nan": float("nan"), "array": np.arange(3), "inner": [(1,)]}

    def run() -> Any:
        executor = iso.Executor(journal=tmp_path / "journal")
        executor.add(*(iso.Tasklet(enclosing(value), name=name) for name, value in (kept | unkept).items()))
        return executor.run(resume=True)

    first, second = run(), run()
    assert [one.name for one in second.tasklets if one.state == "kept"] == list(kept)
    for report in (first, second):
        assert {name: repr(report.values[name]) for name in kept} == {name: repr(value) for name, value in kept.items()}
        assert repr(report.values["keys"]) == "{1: 2}"
        assert report.values["inner"] == [(1,)]
        assert any(note.startswith('tasklet "keys" and 4 more returned what no journal keeps') for note in report.notes)


def test_what_is_returned_outlives_the_scratch_that_it_looked_into(water: iso.Store) -> None:
    scratch = water.scratch(dtype="f8", rate=100)
    scratch.reserve(1 << 15)
    samples = np.arange(1.0, (1 << 15) + 1)

    def fill(_: Any, outputs: list[iso.Output]) -> None:
        outputs[0][:] = samples

    def views(inputs: list[iso.Selection], _: Any) -> Any:
        whole = np.asarray(inputs[0])
        assert not whole.flags.owndata
        return {"whole": whole, "several": [whole[::2], (whole[5:], 3)]}

    executor = iso.Executor()
    executor.add(
        iso.Tasklet(fill, outputs=[scratch[:]], name="fill"),
        iso.Tasklet(lambda i, o: np.asarray(i[0]), [scratch[:]], name="whole"),
        iso.Tasklet(views, [scratch[:]], name="views"),
    )
    values = executor.run().values
    assert scratch.sample_count == 0
    np.testing.assert_array_equal(values["whole"], samples)
    np.testing.assert_array_equal(values["views"]["whole"], samples)
    np.testing.assert_array_equal(values["views"]["several"][0], samples[::2])
    np.testing.assert_array_equal(values["views"]["several"][1][0], samples[5:])


def test_what_is_given_otherwise_than_in_a_list_is_refused_with_the_mend(water: iso.Store) -> None:
    a, copy = water["a"], iso.Tasklet(scale, name="copy")
    refusals: list[tuple[Callable[[], Any], str]] = [
        (lambda: iso.Tasklet(scale, after="copy"), "put it in a list"),
        (lambda: iso.Tasklet(scale, after=copy), "put it in a list"),  # type: ignore[arg-type]
        (lambda: iso.Tasklet(scale, after=[3]), "give tasklets or their names"),  # type: ignore[list-item]
        (lambda: iso.Tasklet(scale, inputs=a[0:10]), "inputs=.* put it in a list"),  # type: ignore[arg-type]
        (lambda: iso.Tasklet(scale, outputs=a), "outputs=.* put it in a list"),  # type: ignore[arg-type]
        (lambda: iso.Tasklet(iso.scan(a), a[:]), "put it in a list"),  # type: ignore[arg-type]
        (lambda: iso.Executor(keep_every_s="1"), "give a number of seconds, 0 or more"),  # type: ignore[arg-type]
        (lambda: iso.Executor(keep_every_s=float("nan")), "give a number of seconds, 0 or more"),
    ]
    for refused, match in refusals:
        with pytest.raises(OptionError, match=match):
            refused()
    assert iso.Tasklet(scale, after=["copy", copy]).after == ("copy", "copy")
