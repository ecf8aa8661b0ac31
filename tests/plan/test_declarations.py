"""Methods that are generated from declarations: what they check, what their docstrings promise, and what is refused."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import numpy as np
import pytest

import isochrony as iso
from isochrony.plan import declarations
from isochrony.plan.declarations import declared, docstring, legal_values, obstacle, others

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import generate  # noqa: E402 - a script beside the package

DECLARED = {one["name"]: one for one in declared()}
GENERATED = {name: one for name, one in DECLARED.items() if name not in generate.BY_HAND | generate.INTERNAL}
PARAMETERS = [
    pytest.param(name, param, id=f"{name}-{param['name']}")
    for name, one in GENERATED.items()
    for param in one["params"]
    if param["kind"] != "list"
]
SAMPLES = iso.scan(np.arange(64, dtype="f4"), rate=100)


def legal(param: dict[str, Any]) -> Any:
    """A value that a method takes."""
    if param["choices"]:
        return param["choices"][0]
    low = param["range"][0] or 0
    low += 1.0 if param["open"][0] else 0
    values = {"integer": int(low), "integers": [int(low)], "bool": False, "text": "x", "taper": "hann"}
    return values.get(param["kind"], float(low))


def call(name: str, given: dict[str, Any]) -> iso.Plan:
    """Calls a generated method with legal values of what must be given, and with others."""
    declaration = DECLARED[name]
    lists = [param["choices"][0] for param in declaration["params"] if param["kind"] == "list"]
    required = {
        param["name"]: legal(param)
        for param in declaration["params"]
        if param["kind"] != "list" and (param["required"] or param["explicit"])
    }
    method = getattr(SAMPLES, name)
    plan: iso.Plan = method(*(SAMPLES for _ in others(declaration)), *lists, **required | given)
    return plan


def raises(name: str, error: str) -> str:
    """What a generated docstring says of an error."""
    found = re.search(rf"\n    {error}: ((?:.*\n)(?:        .*\n)*)", docstring(DECLARED[name]))
    return "" if found is None else " ".join(found[1].split())


@pytest.mark.parametrize(("name", "param"), PARAMETERS)
def test_a_value_of_another_type_is_refused_by_name(name: str, param: dict[str, Any]) -> None:
    with pytest.raises(iso.OptionError, match=rf"\b{param['name']}=.* is refused; give "):
        call(name, {param["name"]: object()})
    assert "wrong type" in raises(name, "OptionError")


@pytest.mark.parametrize(("name", "param"), PARAMETERS)
def test_a_value_out_of_range_raises_what_the_docstring_says(name: str, param: dict[str, Any]) -> None:
    low, high = param["range"]
    if param["choices"]:
        with pytest.raises(iso.OptionError, match=rf"\b{param['name']}='other' is refused"):
            call(name, {param["name"]: "other"})
        assert "an unknown choice" in raises(name, "OptionError")
    elif param["kind"] in ("integer", "integers") and low is not None and low >= 0:
        below = int(low) - 1
        with pytest.raises(iso.OptionError, match=rf"\b{param['name']}=.*, {re.escape(param['legal'])}"):
            call(name, {param["name"]: below if param["kind"] == "integer" else [below]})
        assert "a count below its least value" in raises(name, "OptionError")
    for bound, beyond in ((low, -1.0), (high, 1.0)):
        if bound is None or (beyond < 0 <= bound and param["kind"].startswith("integer")):
            continue
        value: Any = bound + beyond * max(1.0, abs(bound) / 1024)
        value = int(value) if param["kind"].startswith("integer") else value
        with pytest.raises(iso.PlanError, match=rf"{name}: {param['name']}=.* must be ") as caught:
            call(name, {param["name"]: [value] if param["kind"].endswith("s") else value})
        assert caught.value.code == "parameter"
        assert re.search(r"\ba(nother)? value out of range", raises(name, "PlanError"))


NUMBERS = [one for one in PARAMETERS if one.values[1]["kind"].startswith(("integer", "number"))]  # type: ignore[index, union-attr]


@pytest.mark.parametrize(("name", "param"), NUMBERS)
def test_a_number_that_64_bits_do_not_hold_raises_what_the_docstring_says(name: str, param: dict[str, Any]) -> None:
    is_list = param["kind"] in ("integers", "numbers")
    if param["kind"].startswith("integer"):
        bound = "to 2^63 - 1" if param["range"][1] is None else param["legal"]
        values, stated = (1 << 63,), "a whole number above 2^63 - 1"
    else:
        values, bound, stated = (float("nan"), float("inf")), "a finite number", "a number that is not finite"
    for value in values:
        with pytest.raises(iso.OptionError, match=rf"\b{param['name']}=.*{re.escape(bound)}"):
            call(name, {param["name"]: [value] if is_list else value})
    assert stated in raises(name, "OptionError")


def test_what_was_accepted_by_mistake_is_refused() -> None:
    windows = SAMPLES.rewindow(8)
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: SAMPLES.between(None, 3), "between start=None is refused; give a whole number of samples"),  # type: ignore[arg-type]
        (
            lambda: SAMPLES.between(0, 1 << 63),
            "between end=9223372036854775808 is refused; give a whole number of samples, from -9.2e18 to 9.2e18",
        ),
        (
            lambda: windows.combine_packets(windows, clusters=5),  # type: ignore[arg-type]
            "combine_packets clusters=5 is refused; give a list of whole numbers of clusters",
        ),
        (lambda: windows.taper(symmetric="no"), "symmetric='no' is refused; give True or False"),  # type: ignore[arg-type]
        (lambda: SAMPLES.rewindow(0), "rewindow window=0 is refused; give a whole number of samples, from 1"),
        (lambda: SAMPLES.cfar(deviations=6, memory=3), "give a whole number of samples or windows, from 8"),
        (lambda: SAMPLES.limit(0), "limit(0) is refused"),
    ]
    for build, part in cases:
        with pytest.raises(iso.OptionError, match=re.escape(part)):
            build()
    assert str(SAMPLES.between(-3, np.int64(3))) == "scan(array) -> between(start=-3, end=3)"
    assert SAMPLES.cfar(deviations=6, memory=8).kind == "samples"


def test_parameters_that_call_for_others_are_named() -> None:
    cases: list[tuple[Callable[[], Any], str]] = [
        (SAMPLES.cfar, "cfar needs pfa= or deviations=; give one of them"),
        (
            lambda: SAMPLES.cfar(1e-3, deviations=3),
            "cfar takes pfa= or deviations=, and both were given; leave one of them out",
        ),
        (lambda: SAMPLES.iir("cheby1", "lowpass", 3), 'iir with kind="cheby1" needs ripple_db=; give it'),
        (lambda: SAMPLES.fir(5, cutoff_hz=3), "fir with cutoff_hz= needs band=; give it"),
    ]
    for build, text in cases:
        with pytest.raises(iso.PlanError) as caught:
            build()
        assert (str(caught.value), caught.value.code) == (text, "parameter")


@pytest.mark.parametrize(
    ("param", "text"),
    [
        ({"unit": "samples", "legal": "from 1"}, "samples, from 1"),
        ({"unit": "s", "legal": "above 0 and at most 1e9"}, "seconds, above 0 and at most 1e9"),
        ({"unit": "", "legal": "from 8 to 2^52 - 1"}, "from 8 to 2^52 - 1"),
        ({"unit": "levels", "legal": "from 1 to 62", "name": "levels"}, "from 1 to 62"),
        ({"unit": "samples", "legal": "from 0", "length": True}, "samples or text, from 0"),
        ({"unit": "samples", "legal": ""}, "samples"),
        ({"unit": "", "legal": ""}, ""),
        ({"unit": "", "legal": "", "choices": ["a", "b"]}, '"a" or "b"'),
    ],
)
def test_units_and_ranges_in_words(param: dict[str, Any], text: str) -> None:
    assert legal_values({"name": "x", "choices": [], **param}) == text


NOTCH = DECLARED["notch"]
NUMBER = NOTCH["params"][0]
UNBOUNDED = {"range": [None, None], "open": [False, False], "legal": ""}


class Plan(iso.Plan):
    """A class that may get methods, so that the real one stays as it is; its operator `mains` is `notch`."""

    __slots__ = ()

    def _then(self, name: str, others: tuple[Any, ...] = (), /, **params: object) -> Any:
        return super()._then({"mains": "notch"}.get(name, name), others, **params)


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Adds methods of declarations to a class like `Plan`, and gives it."""

    def of(**changes: Any) -> Any:
        own = {**NOTCH, "name": "mains", **changes}
        monkeypatch.setattr(declarations, "declared", lambda *, added: [own] if added else [])
        made = type("Plan", (Plan,), {"__slots__": ()})
        declarations.add_methods(made)
        return made

    return of


def test_a_declaration_of_another_crate_becomes_a_method(plan: Callable[..., Any]) -> None:
    made = plan()
    hum = iso.scan(np.sin(2 * np.pi * 50 * np.arange(2000) / 1000), rate=1000)
    np.testing.assert_array_equal(made(hum._native).mains(50, q=10).collect(), hum.notch(50, q=10).collect())
    assert str(inspect.signature(made.mains)) == str(inspect.signature(iso.Plan.notch))
    assert inspect.getdoc(made.mains) == inspect.getdoc(iso.Plan.notch)
    assert made.mains.__qualname__ == "Plan.mains"
    with pytest.raises(iso.OptionError, match="mains hz='x' is refused"):
        made(hum._native).mains("x")


@pytest.mark.parametrize("name", ["index", "seconds", "text", "whole", "choice", "flag", "list", "name", "others"])
def test_a_parameter_may_have_the_name_of_what_checks_it(plan: Callable[..., Any], name: str) -> None:
    kinds: list[dict[str, Any]] = [
        {"unit": "s", "name": name},
        {"kind": "integer", "unit": "samples", "name": name},
        {"kind": "text", "choices": ["3"], "unit": "", "name": name},
        {"kind": "bool", "unit": "", "name": name},
    ]
    for changes, value in zip(kinds, (3.0, 3, "3", True), strict=True):
        made = plan(params=[{**NUMBER, **UNBOUNDED, **changes}])
        given: dict[str, Any] = {}
        made._then = lambda self, operator, /, **params: given.update(params)  # noqa: B023
        made(SAMPLES._native).mains(value)
        assert given == {name: value}


def test_a_parameter_may_have_the_name_of_an_argument_of_then() -> None:
    with pytest.raises(iso.PlanError) as caught:
        SAMPLES._then("rewindow", window=4, name=3, others=2)
    assert caught.value.code == "unknown_parameter"


def test_an_integer_without_a_range_may_be_negative(plan: Callable[..., Any]) -> None:
    made = plan(params=[{**NUMBER, **UNBOUNDED, "kind": "integer"}])
    given: dict[str, Any] = {}
    made._then = lambda self, operator, /, **params: given.update(params)
    made(SAMPLES._native).mains(-3)
    assert given == {"hz": -3}


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"name": "notch"},
        "operator notch of isochrony_flow::operators::filters::notch is refused: Plan has notch already",
    ),
    ({"name": "collect"}, "Plan has collect already"),
    ({"name": "lambda"}, "'lambda' is no name in Python"),
    *(
        ({"params": [{**NUMBER, "kind": kind}]}, f"parameter hz is of kind {kind}, which no generated method takes")
        for kind in ("expression", "expressions", "aggregates")
    ),
    ({"params": [{**NUMBER, "name": "from"}]}, "'from' is no name in Python"),
    ({"params": [{**NUMBER, "name": "self"}]}, "parameter self has the name of another argument"),
    ({"params": [{**NUMBER, "name": "_options"}]}, "parameter _options has the name of another argument"),
    ({"params": 2 * DECLARED["stats"]["params"]}, "parameter names has the name of another argument"),
    (
        {"params": [{**DECLARED["stats"]["params"][0], "name": name} for name in ("a", "b")]},
        "parameter b is a list, and other arguments are one already",
    ),
    ({"params": [NUMBER, NUMBER]}, "parameter hz has the name of another argument"),
    ({"params": [NOTCH["params"][1], NUMBER]}, "parameter hz has no default and follows one that has"),
    ({"inputs": {"least": 2, "exact": True}}, "its section Inputs names 0 further inputs of 1"),
]


@pytest.mark.parametrize(("changes", "part"), REFUSED)
def test_an_operator_that_cannot_be_a_method_is_named(
    plan: Callable[..., Any], changes: dict[str, Any], part: str
) -> None:
    with pytest.raises(ImportError) as caught:
        plan(**changes)
    name = changes.get("name", "mains")
    assert str(caught.value).startswith(f"operator {name} of isochrony_flow::operators::filters::notch is refused: ")
    assert part in str(caught.value)


def test_generated_methods_have_no_obstacle() -> None:
    assert {name: obstacle(one) for name, one in GENERATED.items() if obstacle(one)} == {}


def test_a_backslash_is_one_in_the_docstring(plan: Callable[..., Any]) -> None:
    summary = r"Removes \d from names."
    assert plan(summary=summary).mains.__doc__.startswith(r"Remove \d from names.")
    assert docstring({**NOTCH, "summary": summary}).startswith(r"Remove \d from names.")
    quotes = 'Removes """ from names.'
    assert plan(summary=quotes).mains.__doc__.startswith('Remove """ from names.')


def test_integers_below_a_negative_least_value_are_the_engines_to_refuse() -> None:
    changes = {"kind": "integer", "range": [-5, 5], "open": [False, False], "legal": "from -5 to 5"}
    text = docstring({**NOTCH, "params": [{**NUMBER, **changes}]})
    assert "OptionError: an argument of the wrong type, or a whole number above 2^63 - 1.\n" in text
    assert "PlanError: a value out of range; " in text


@pytest.mark.parametrize(
    ("verb", "imperative"),
    [
        *(("Fixes", "Fix"), ("Washes", "Wash"), ("Matches", "Match"), ("Passes", "Pass"), ("Multiplies", "Multiply")),
        *(("Removes", "Remove"), ("Buzzes", "Buzz"), ("Resizes", "Resize"), ("Computes", "Compute")),
    ],
)
def test_a_summary_becomes_imperative(verb: str, imperative: str) -> None:
    assert docstring({**NOTCH, "summary": f"{verb} it."}).startswith(f"{imperative} it.\n")


def test_choices_and_defaults_of_methods_written_by_hand_are_those_declared() -> None:
    needed: dict[str, dict[str, Any]] = {"fir": {"taps": [1.0]}, "resample": {"up": 2}}
    for name, given in needed.items():
        method = getattr(iso.Plan, name)
        signature, hints = inspect.signature(method), get_type_hints(method)
        for param in DECLARED[name]["params"]:
            default = signature.parameters[param["name"]].default
            assert default == param["default"], param["name"]
            if param["choices"]:
                options = [hints[param["name"]], *get_args(hints[param["name"]])]
                literal = next(one for one in options if str(one).startswith(str(Literal)))
                assert list(get_args(literal)) == param["choices"], param["name"]
                with pytest.raises(iso.OptionError) as caught:
                    getattr(SAMPLES, name)(**given | {param["name"]: "other"})
                assert str(caught.value).endswith(f"give {' or '.join(map(repr, param['choices']))}")
    decimated = inspect.signature(iso.Plan.decimate).parameters
    resampled = inspect.signature(iso.Plan.resample).parameters
    for option in ("attenuation_db", "passband", "edges"):
        assert decimated[option].default == resampled[option].default
    # What has its default is left out of the text.
    assert str(SAMPLES.envelope(low_hz=2)) == "scan(array) -> stream_envelope(low_hz=2.0)"


def test_names_of_statistics_and_tapers_are_those_declared() -> None:
    from isochrony.steps.rows import STATS
    from isochrony.steps.tapers import TAPERS

    assert list(STATS) == DECLARED["stats"]["params"][0]["choices"]
    for name, parameter in TAPERS.items():
        taper: Any = name if parameter is None else (name, 0.5)
        assert SAMPLES.rewindow(8).taper(taper).collect().shape == (8, 8)
    # The engine lists what it knows.
    with pytest.raises(iso.PlanError, match='taper="hat" must be ') as caught:
        SAMPLES.rewindow(8)._then("taper", taper="hat", symmetric=False)
    listed = str(caught.value).partition("must be ")[2].split(", ")
    assert {re.split(r"\W", one)[0] for one in listed} == {*TAPERS}


SAYS = re.compile(r"float32\s+for\s+float32")
#: Operators whose results are "float32 for float32".
SINGLE: dict[str, Callable[[iso.Plan], iso.Plan]] = {
    "ca_cfar": lambda p: p.ca_cfar(1e-3),
    "cfar": lambda p: p.cfar(1e-3, memory=8),
    "envelope": lambda p: p.rewindow(8).envelope(),
    "fir": lambda p: p.fir([0.5, 0.5]),
    "haar": lambda p: p.rewindow(8).haar(2),
    "iir": lambda p: p.lowpass(10),
    "notch": lambda p: p.notch(10),
    "power": lambda p: p.rewindow(8).power(),
    "quantile": lambda p: p.rewindow(8).quantile(0.5),
    "resample": lambda p: p.resample(up=2, edges="zeros"),
    "rms": lambda p: p.rewindow(8).rms(),
    "running_mean": lambda p: p.running_mean(0.05),
    "running_quantile": lambda p: p.running_quantile(0.05, 0.5),
    "running_rms": lambda p: p.running_rms(0.05),
    "spectral_score": lambda p: p.rewindow(8).spectral_score(),
    "stalta": lambda p: p.stalta(0.02, 0.1),
    "stream_envelope": lambda p: p.envelope(low_hz=15, attenuation_db=20),
    "welch": lambda p: p.rewindow(8).welch(4),
    "zero_crossings": lambda p: p.rewindow(8).zero_crossings(),
    "zero_phase": lambda p: p.zero_phase("butter", "lowpass", 10),
}


def test_results_are_float32_for_float32_without_a_calibration() -> None:
    says = {name for name, one in DECLARED.items() if SAYS.search(one["sections"]["returns"])}
    assert set(SINGLE) == says
    for name, of in SINGLE.items():
        assert of(SAMPLES).collect().dtype == "f4", name
        assert of(SAMPLES.calibrate(2.0)).collect().dtype == "f8", name


#: Calls of the operators that declare several implementations: of the taps, and of the one that is asked for.
IMPLEMENTED: dict[str, Callable[[iso.Plan, Any, str], iso.Plan]] = {
    "fir": lambda p, taps, how: p.fir(taps, method=how),
    "running_quantile": lambda p, taps, how: p.running_quantile(len(taps) / 100, 0.5, method=how),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("taps", [1, 7, 79, 80, 1000])
@pytest.mark.parametrize("name", [name for name, one in DECLARED.items() if one["alternatives"]])
def test_implementations_agree_as_declared(name: str, taps: int, dtype: str) -> None:
    rng = np.random.default_rng(taps)
    weights = rng.standard_normal(taps)
    weights /= abs(weights).sum()  # so that no result exceeds the largest sample
    samples = (1000 * rng.standard_normal(50_000)).astype(dtype)
    plan = iso.scan(samples, rate=100)
    usual = IMPLEMENTED[name](plan, weights, "auto").collect()
    assert usual.dtype == dtype
    for other, tolerance in DECLARED[name]["alternatives"]:
        limit = 0.0 if tolerance is None else tolerance * (2**29 if dtype == "f4" else 1) * abs(samples).max()
        found = IMPLEMENTED[name](plan, weights, other).collect()
        assert abs(found - usual).max() <= limit, other
    assert {other for other, _ in DECLARED[name]["alternatives"]} | {"auto"} == {
        choice for param in DECLARED[name]["params"] if param["name"] == "method" for choice in param["choices"]
    }
