"""What an error advises can be done where it is raised, and helps."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.cli.message_options import as_options
from isochrony.errors.native import NBufferOSError, NBufferPermissionError

SAMPLES = iso.scan(np.arange(100.0), rate=100)


def raised(call: Callable[[], Any], kind: type[Exception] = iso.IsochronyError) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, iso.IsochronyError)
    return str(caught.value)


def with_signal(folder: Path) -> iso.Store:
    store = iso.open(folder / "a.iso", "x")
    store.create("stn/p", dtype="f8", rate=100).append(np.arange(10.0))
    store.commit()
    return store


@pytest.mark.parametrize(
    "step",
    [
        "zip",
        "merge",
        "align",
        "xcorr",
        "delay",
        "gcc_phat",
        "combine_packets",
        "error_correlation",
        "join",
        "sync",
        "sync on",
        "map",
        "filter",
        "apply",
        "Control.set",
        "Control.add",
        "Control.remove",
        "save_plan",
    ],
)
@pytest.mark.parametrize("other", [3, np.zeros(5), "plan", None])
def test_what_is_no_plan_is_refused_by_each_method_that_takes_plans(step: str, other: Any, tmp_path: Path) -> None:
    class Both(iso.Operator):
        def outputs(self, first: iso.Port, second: iso.Port) -> iso.Port:
            return first

    ranges = SAMPLES.triggers(on=50)
    calls: dict[str, Callable[[], Any]] = {
        "zip": lambda: SAMPLES.zip(other),
        "merge": lambda: SAMPLES.merge(other),
        "align": lambda: SAMPLES.align(other),
        "xcorr": lambda: SAMPLES.xcorr(other, 5),
        "delay": lambda: SAMPLES.rewindow(10).delay(other, 5),
        "gcc_phat": lambda: SAMPLES.rewindow(10).gcc_phat(other, 5),
        "combine_packets": lambda: SAMPLES.rewindow(10).combine_packets(other),
        "error_correlation": lambda: SAMPLES.error_correlation(other),
        "join": lambda: SAMPLES.join(other),
        "sync": lambda: SAMPLES.sync(other, on=ranges),
        "sync on": lambda: SAMPLES.sync(on=other),
        "map": lambda: SAMPLES.map(lambda x, y: x + y, other),
        "filter": lambda: SAMPLES.rewindow(10).filter(lambda x, y: x.max() > y.max(), other),
        "apply": lambda: SAMPLES.apply(Both, other),
        "Control.set": lambda: iso.Control().set(other, on=3),
        "Control.add": lambda: iso.Control().add(other),
        "Control.remove": lambda: iso.Control().remove(other),
        "save_plan": lambda: with_signal(tmp_path).save_plan("saved", other),
    }
    said = raised(calls[step], iso.PlanError)
    assert said == (
        f"{step.split()[0]} got {type(other).__name__}; "
        "give plans, such as iso.scan(signal) or iso.scan(array, rate=100)"
    )


def test_no_store_is_created_by_advice_where_none_can_be(tmp_path: Path) -> None:
    file, folder, missing = tmp_path / "a.txt", tmp_path / "full", tmp_path / "none"
    file.write_text("text")
    folder.mkdir()
    (folder / "other.txt").write_text("text")
    for mode in ("r", "a"):
        said = raised(lambda mode=mode: iso.open(file, mode))
        assert said.endswith(
            "it is a file; give the store's folder, or import recordings into a new one with isochrony.import_files"
        )
    assert as_options(said).endswith("or import recordings with: isochrony import SRC STORE")
    assert raised(lambda: iso.open(folder, "a")).endswith(
        "the folder holds other files; give a missing or empty folder"
    )
    assert raised(lambda: iso.open(folder)).endswith("the folder has no .isochrony/MANIFEST; check the path")
    advice = 'nothing is there; check the path, or open with mode "a" to create one'
    assert raised(lambda: iso.open(missing)).endswith(advice)
    for call in (lambda: iso.verify(missing), lambda: iso.verify(missing, repair=True)):
        assert raised(call).endswith("nothing is there; check the path")
    assert raised(lambda: iso.backup(missing, tmp_path / "copy")).endswith("nothing is there; check the path")
    # And the advice that stays is right.
    (tmp_path / "empty").mkdir()
    assert raised(lambda: iso.open(tmp_path / "empty")).endswith('or open with mode "a" to create one')
    for path in (missing, tmp_path / "empty"):
        iso.open(path, "a").close()


@pytest.mark.parametrize("step", ["lowpass", "sink_wav", "calibrate", "send", "rms"])
def test_what_needs_samples_names_the_step_that_must_come_after_it(step: str, tmp_path: Path) -> None:
    made: dict[str, Callable[[Any], Any]] = {
        "lowpass": lambda plan: plan.lowpass(10),
        "sink_wav": lambda plan: plan.sink_wav(tmp_path / "x.wav"),
        "calibrate": lambda plan: plan.calibrate(2),
        "send": lambda plan: plan.send("udp://127.0.0.1:9"),
        "rms": lambda plan: plan.running_quantile(1.0, 0.5),
    }
    for plan, remedy in (
        (SAMPLES.triggers(on=2), "; put it before the step that makes ranges, such as triggers(...) or ranges(...)"),
        (
            SAMPLES.rewindow(10).stats("max"),
            "; put it before the step that makes rows, such as rows(...) or stats(...)",
        ),
    ):
        assert raised(lambda plan=plan: made[step](plan)).endswith(remedy)


def test_signals_are_named_with_the_calls_that_find_them(tmp_path: Path) -> None:
    store = with_signal(tmp_path)
    assert raised(lambda: store["stn/q"], KeyError).endswith(
        '"stn/q" in the store; did you mean "stn/p"? list(store) lists all names, store.find(pattern) searches'
    )
    assert list(store) == ["stn/p"] and [one.name for one in store.find("**/p")] == ["stn/p"]
    said = raised(lambda: store.create("stn/p", dtype="f8", rate=1), FileExistsError)
    assert said.endswith(
        "exists already; get it with store[name], delete it with store.delete(name), or give overwrite=True"
    )
    store.create("stn/p", dtype="f8", rate=1, overwrite=True)
    store.delete("stn/p")
    store.create("stn/p", dtype="f8", rate=1)


def test_keys_of_signals_show_the_text_that_is_none(tmp_path: Path) -> None:
    store = with_signal(tmp_path)
    signal = store["stn/p"]
    assert 'got str "foo" where a range of a signal is expected' in raised(lambda: signal["foo"], TypeError)  # type: ignore[call-overload]
    signal.events.add("burst", 2, 5)
    said = raised(lambda: signal.events.find("burst"), TypeError)  # type: ignore[arg-type]
    assert said.endswith('give events of a kind as find(kind="burst")')
    assert len(signal.events.find(kind="burst")) == 1


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("sound:mic", "unknown scheme 'sound'"),
        ("http://127.0.0.1:80", "unknown scheme 'http'"),
        ("127.0.0.1:9", "it has no scheme"),
        ("localhost", "it has no scheme"),
        ("localhost:9", "it has no scheme"),
        ("[::1]:9", "it has no scheme"),
    ],
)
def test_an_unknown_feed_address_is_named_before_missing_options(address: str, why: str) -> None:
    said = raised(lambda: iso.listen(address), ValueError)
    assert said.startswith(f"{address!r} is not a feed address: {why}; give udp://HOST:PORT, ")
    assert "audio:NAME" in said and "seedlink://HOST:PORT/NET.STA.LOC.CHA" in said
    assert raised(lambda: iso.listen(3), ValueError).startswith("listen(3) is refused; give udp://")  # type: ignore[arg-type]


def test_a_feed_address_without_a_port_is_wrong_before_options_are_missing() -> None:
    said = raised(lambda: iso.listen("udp://foo"), ValueError)
    assert said.startswith("'udp://foo' is not a feed address: it has no host and port; give udp://HOST:PORT")


def test_a_host_of_a_feed_that_has_no_address_is_named() -> None:
    for call in (
        lambda: iso.listen("udp://nowhere.invalid:9999", dtype="f4", rate=10),
        lambda: SAMPLES.send("tcp://nowhere.invalid:9999"),
    ):
        said = raised(call, iso.OptionError)
        assert said.startswith("cannot find the host nowhere.invalid: "), said
        assert said.endswith("; check the name, or give an IP address")


def test_an_option_of_a_feed_is_named_when_its_type_is_wrong() -> None:
    def refused(**option: Any) -> str:
        return raised(
            lambda: iso.listen("udp://127.0.0.1:0", dtype="f4", rate=10, silence=0.1, **option), iso.OptionError
        )

    assert refused(buffer=None).startswith("buffer=None is refused; give a whole number of bytes, from 1")
    assert refused(max_frame="1 MZ").startswith("max_frame='1 MZ' is refused; give bytes from 1")
    assert refused(keep_late=1.5).startswith("keep_late=1.5 is refused; give a whole number of bytes, from 0")
    assert refused(anyone="no") == "anyone='no' is refused; give True or False"
    assert refused(bind=None) == "bind=None is refused; give True or False"
    assert refused(unit=3).startswith("listen unit=3 is refused; give text")
    assert refused(framing="raw2").startswith('framing="raw2" is refused; give "isochrony", "raw", or the type')


def test_a_path_is_no_source_of_a_scan() -> None:
    for path in ("water.iso", Path("water.iso")):
        with pytest.raises(iso.PlanError) as caught:
            iso.scan(path)  # type: ignore[arg-type]
        assert caught.value.code == "bad_source"
        assert "give a signal, such as iso.open('water.iso')[\"stn_10/pressure\"]" in str(caught.value)


def test_codes_say_what_is_wrong_with_a_scan() -> None:
    array = np.zeros(3)
    for call, code in (
        (lambda: iso.scan(array), "missing_rate"),
        (lambda: iso.scan(3), "bad_source"),  # type: ignore[arg-type]
        (lambda: iso.scan(array, rate=1, io="mmap"), "bad_option"),
        (lambda: iso.scan(array, rate=-1), "bad_rate"),
        (lambda: iso.scan(array, rate="fast"), "bad_rate"),
        (lambda: iso.Rate(0, 5), "bad_rate"),
    ):
        with pytest.raises(iso.IsochronyError) as caught:
            call()
        assert caught.value.code == code, str(caught.value)


@pytest.mark.parametrize("parts", [("0/5",), (0, 5), (5, 0), (-1, 5), (1.5,), (True,), (None,)])
def test_a_rate_of_no_whole_numbers_is_refused(parts: tuple[Any, ...]) -> None:
    said = raised(lambda: iso.Rate(*parts), iso.TimeError)
    assert said.endswith("give whole numbers of samples and of seconds above zero, such as Rate(44_100_000, 1001)")


def test_an_index_that_is_a_time_is_found_by_index_of() -> None:
    for time in ("2010", np.datetime64("2010-01-01")):
        said = raised(lambda time=time: SAMPLES.between(time, 5), iso.OptionError)
        assert said.endswith(f"give a whole number of samples, such as signal.index_of({str(time)!r})")
    said = raised(lambda: SAMPLES.between(1.5, 5))  # type: ignore[arg-type]
    assert said.endswith("give a whole number of samples, from -9.2e18 to 9.2e18")


def test_a_missing_input_of_nbuffer_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing.bin"
    assert (
        raised(lambda: iso.nbuffer(path, "sha256"), FileNotFoundError)
        == f"input '{path}' does not exist; check the path"
    )


def test_a_path_that_nbuffer_cannot_open_is_named(tmp_path: Path) -> None:
    lost = tmp_path / "none" / "copy"
    for call, kind, code, said in (
        (
            lambda: iso.nbuffer(b"abc", None, lost), FileNotFoundError, errno.ENOENT,
            f"cannot open output '{lost}': No such file or directory; create its folder, or give another dst",
        ),
        (
            lambda: iso.nbuffer(b"abc", None, [tmp_path]), IsADirectoryError, errno.EISDIR,
            f"output '{tmp_path}' is a folder; give the path of a file",
        ),
        (
            lambda: iso.nbuffer(tmp_path), IsADirectoryError, errno.EISDIR,
            f"input '{tmp_path}' is a folder; give the path of a file",
        ),
        (
            lambda: iso.nbuffer(tmp_path / ("a" * 300)), iso.NBufferError, errno.ENAMETOOLONG,
            f"cannot open input '{tmp_path / ('a' * 300)}': File name too long; check the path",
        ),
    ):  # fmt: skip
        with pytest.raises(NBufferOSError) as caught:
            call()
        assert isinstance(caught.value, kind)
        assert (str(caught.value), caught.value.errno) == (said, code)
    with pytest.raises(iso.UsageError, match=r"input 'a\\x00b' is not a path \(embedded null byte\); give"):
        iso.nbuffer("a\0b")


def test_a_file_that_nbuffer_may_not_open_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever runs tests as root may open any file.
    opened = os.open

    def refuse(path: Any, *rest: Any) -> int:
        if Path(path).name in ("secret", "locked"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *rest)

    monkeypatch.setattr(os, "open", refuse)
    said = raised(lambda: iso.nbuffer("secret"), NBufferPermissionError)
    assert said == "cannot open input 'secret': Permission denied; change its permissions, or give another path"
    said = raised(lambda: iso.nbuffer(b"abc", None, tmp_path / "locked"), PermissionError)
    assert said.endswith("locked': Permission denied; change its permissions, or give another path")


@pytest.mark.parametrize(
    ("step", "name", "how"),
    [
        (
            "sink_parquet",
            "x.csv",
            "sink_parquet writes Parquet, but {} ends in .csv; name it x.parquet, or use isochrony.export",
        ),
        ("sink_parquet", "x.wav", "name it x.parquet, or use sink_wav"),
        ("sink_wav", "x.parquet", "sink_wav writes WAV, but {} ends in .parquet; name it x.wav, or use sink_parquet"),
        (
            "sink_ipc",
            "x.parquet",
            "sink_ipc writes Arrow IPC, but {} ends in .parquet; name it x.arrow, or use sink_parquet",
        ),
    ],
)
def test_a_file_is_not_named_as_another_format(tmp_path: Path, step: str, name: str, how: str) -> None:
    path = tmp_path / name
    assert raised(lambda: getattr(SAMPLES, step)(path), iso.OptionError).endswith(how.format(path))
    for free in ("x", "x.pq", "x.tmp", "x.d"):
        getattr(SAMPLES, step)(tmp_path / free)


def test_what_writes_to_a_store_needs_one() -> None:
    assert raised(lambda: SAMPLES.sink("name"), iso.OptionError).startswith(  # type: ignore[arg-type]
        'sink got str; give a store and a name, such as sink(store, "stn_10/mean")'
    )
    for target in ("name", 3, ("store", "name")):
        said = raised(lambda target=target: SAMPLES.rewindow(5).annotate(target, "kind"), iso.OptionError)
        assert said == f"annotate({target!r}) is refused; give a signal, or a pair of a store and a name"


def test_a_short_result_of_a_function_is_one_result_per_row() -> None:
    plan = SAMPLES.rewindow(10).map(iso.py(lambda rows: rows[:3, 0], dtype="f8", width=1))
    assert raised(plan.collect).endswith("was expected; return one result per row")


def test_explain_describes_how_results_depend_on_their_input() -> None:
    text = SAMPLES.lowpass(10).rewindow(10).fft().explain()
    assert "samples[float64] of array at 100 Hz; settles after 132 samples (relative error 1e-9)" in text
    assert "; lookahead of 9 samples" in text
    assert "{" not in text


def test_a_call_with_an_object_of_another_type_names_the_call_and_what_it_takes(tmp_path: Path) -> None:
    given: Any = 5
    for call, said in (
        (lambda: iso.open(given), "open got int; give the path or URL of a store"),
        (lambda: iso.verify(given), "verify got int; give the path or URL of a store"),
        (lambda: iso.backup(given, tmp_path), "backup got int; give the path or URL of a store"),
        (lambda: iso.backup(tmp_path, given), "backup dest= got int; give the path or URL of a store"),
        (lambda: iso.prefetch(given), "prefetch got int; give a signal, or a selection of one"),
    ):
        assert raised(call, TypeError) == said
    function: Any = iso.py(lambda s: s)
    said = raised(lambda: SAMPLES.apply(function), iso.PlanError)
    assert said.startswith("apply takes an operator class, got iso.py(<lambda>); write map(...)"), said


def test_a_wrong_argument_of_a_step_names_the_method_of_a_plan() -> None:
    steps: Any = SAMPLES
    for call, said in (
        (lambda: steps.delay(), "Plan.delay() missing"),
        (lambda: iso.Plan.from_json(), "Plan.from_json() missing"),  # type: ignore[call-arg]
        (lambda: steps.explain(foo=1), "Plan.explain() got an unexpected keyword argument 'foo'"),
        (lambda: steps.fir(numtaps=3), "Plan.fir() got an unexpected keyword argument 'numtaps'"),
        (lambda: steps.rewindow(3, step=1), "Plan.rewindow() got an unexpected keyword argument 'step'"),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value).startswith(said)


def test_a_limit_of_memory_that_is_too_low_says_which_would_do() -> None:
    plan = iso.scan(np.zeros(100_000), rate=1000).lowpass(10)
    said = raised(lambda: plan.collect(memory=1000), iso.RunError)
    assert "exceed memory=1000 bytes, the limit on the memory of queues and buffers (0 in use); raise memory=" in said
    assert int(said.removesuffix(" bytes or more").rpartition(" ")[2]) > 1000


def test_a_dtype_of_numpy_that_signals_cannot_have_is_not_called_unknown(tmp_path: Path) -> None:
    for samples in (np.array(["a"]), np.array([b"ab"]), np.array(["2026-01-01"], "M8[ns]"), np.zeros(1, "V8")):
        said = raised(lambda samples=samples: iso.scan(samples, rate=10))
        assert "is not supported; convert to one of bool, int8" in said, said
    said = raised(lambda: iso.open(tmp_path / "a.iso", "x").create("x", dtype="U1", rate=1), TypeError)
    assert "is not supported; convert to one of bool, int8" in said, said


def test_an_expression_is_said_to_stand_for_values_of_the_run() -> None:
    said = raised(lambda: SAMPLES.map(lambda s: s if s > 0 else -s))
    assert "no truth value while a plan is built, since it stands for values that are computed when the plan" in said
    said = raised(lambda: SAMPLES.map(lambda s: s[0]))
    assert "use reductions, such as s.max(), or cut other windows with rewindow" in said, said


def test_an_endpoint_that_is_no_url_names_the_variable_and_not_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "10.0.0.1:9000")
    said = raised(lambda: iso.open("s3://bucket/water.iso"), iso.StoreError)
    assert "the endpoint (AWS_ENDPOINT_URL) is not a URL: " in said, said
    assert "; check its environment variables (AWS_ACCESS_KEY_ID, " in said and "10.0.0.1" not in said, said
