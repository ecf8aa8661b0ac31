from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from isochrony.cli import main
from isochrony.cli.completion import _commands
from isochrony.cli.main import COMMANDS, build_parser
from isochrony.cli.message_options import as_options
from isochrony.cli.scan import parse_stats, window_length
from isochrony.cli.summary import print_refused
from isochrony.cli.tables import render, short_time
from isochrony.errors import IsochronyError, MissingExtraError, UsageError


def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert "examples:" in shown
        assert f"isochrony {command}" in shown


def test_a_command_imports_no_other_one() -> None:
    code = (
        "import sys; from isochrony.cli.main import COMMANDS, main; main(['pipe', '--memory', 'none']); "
        "print([name for name in COMMANDS if f'isochrony.cli.{name}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "['pipe']\n", done.stderr


def test_every_command_is_attacked_or_left_out_by_name() -> None:
    specification = importlib.util.spec_from_file_location("commands", Path(__file__).parents[1] / "attack/commands.py")
    assert specification is not None and specification.loader is not None
    commands = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(commands)
    assert {line.split()[0] for line in commands.BASES} == set(COMMANDS) - commands.LEFT_OUT


def test_every_option_has_help() -> None:
    for name, parser in _commands(build_parser()).items():
        for action in parser._actions:
            assert action.help, f"{name} {action.option_strings or action.dest}"


def test_help_of_an_option_needs_no_other_help() -> None:
    for name, parser in _commands(build_parser()).items():
        for action in parser._actions:
            shown = f"{name} {action.option_strings or action.dest}: {action.help}"
            assert "likewise" not in action.help, shown
            assert "the file if" not in action.help, shown
            assert action.help != "print JSON", shown
            assert "time (UTC)" not in action.help or "such as" in action.help, shown
            assert "civil time" not in action.help, shown


def test_exit_codes_are_documented(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    for code in ("0 ", "1 ", "2 ", "3 ", "4 ", "130 "):
        assert f"\n  {code}" in shown


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            ["import", "/nowhere", "x.iso"],
            "/nowhere does not exist; name a folder or a file of recordings; the store comes last",
        ),
        (["info", "/nowhere"], "/nowhere does not exist; check the path of the store"),
        (["import", ".", "x.iso", "--format", "raw"], "also give --layout, --dtype, --rate, or give --preset instead"),
        (
            ["import", ".", "x.iso", "--dtype", "<i2"],
            "also give --layout, --rate, or give --preset instead; if the files have a format",
        ),
        (
            ["import", ".", "x.iso", "--preset", "censam", "--signal", "a"],
            "--signal cannot be used with raw recordings",
        ),
        (["import", ".", "x.iso", "--signal", ""], "--signal: is empty; give a text, or leave it out; see"),
        (["import", ".", "x.iso", "--ignore-times"], "--ignore-times also needs the sample rate"),
        (["import", ".", "x.iso", "--zone", "Mars"], "--zone: 'Mars' is not a time zone; give one such as Europe/"),
        (["import", "a*.wav", "x.iso"], "nothing matches a*.wav; check the pattern, or name a folder"),
        (
            ["import", ".", "x.iso", "--format", "mseed", "--dtype", "<i2"],
            "--dtype is for raw recordings; leave it out",
        ),
        (
            ["import", ".", "x.iso", "--format", "audio", "--time-column", "t"],
            "--time-column is for csv and parquet files, not audio; leave it out",
        ),
        (["import", ".", "x.iso", "--preset", "censam", "--start", "2010-01-01"], "as --preset says that these are"),
        (["import", ".", "x.iso"], "holds no files; name the folder that holds the recordings"),
        (["import", __file__, "x.iso", "--preset", "censam"], "is a file; raw recordings are imported by folder: name"),
        (["import", __file__, __file__], "is a file; name a folder for the store, such as"),
        (["import", __file__, "/usr"], "/usr is a folder of other files; name a new one for the store"),
        (
            ["import", "", "x.iso"],
            "SRC: the path is empty; give the path of a file or a folder; see isochrony import --help",
        ),
        (["import", "."], "the following arguments are required: STORE; see isochrony import --help"),
        (["import", ".", "x.iso", "--start", "yesterday"], "'yesterday' is not a time; write ISO 8601"),
        (["import", ".", "x.iso", "--start", "2010-13-01"], "'2010-13-01' is not a time (Month out of range"),
        (["import", ".", "x.iso", "--start", "9999-01-01"], "(it is not between the years 1678 and 2262)"),
        (["import", ".", "x.iso", "--alpha", "0"], "'0' is not a number above 0 and at most 1; see"),
        (["import", ".", "x.iso", "--gap-slip=-1"], "'-1' is not a duration above 0; give seconds"),
        (["import", ".", "x.iso", "--max-gap", "x"], "'x' is not a duration above 0; give seconds"),
        (["import", ".", "x.iso", "--value-jump", "nan"], "'nan' is not a number above 0; see"),
        (["demo", "--dir", __file__], "is a file; name a folder with --dir"),
    ],
)
def test_errors_are_one_line_that_says_how_to_mend(
    line: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("isochrony: ")
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_store_is_no_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    iso.open(tmp_path / "a.iso", mode="x").close()
    assert main(["import", str(tmp_path / "a.iso"), str(tmp_path / "b.iso")]) == 2
    assert "a.iso is an Isochrony store, not recordings; name the recordings first" in capsys.readouterr().err
    assert not (tmp_path / "b.iso").exists()


def test_messages_name_options_where_the_library_names_keywords() -> None:
    assert (
        as_options("fetch it, or take its 7 samples with partial=True")
        == "fetch it, or take its 7 samples with --partial"
    )
    assert as_options("give it with rate=HZ, or time_column=; alpha=3 is refused") == (
        "give it with --rate HZ, or --time-column; --alpha 3 is refused"
    )
    for path in ('"rate=100/a.npy"', "x/rate=100/a", "sample_rate=3", "'start=1'"):
        assert as_options(f"cannot read {path}") == f"cannot read {path}"


def _without_tests(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("#[cfg(test)]")[0]


def test_no_message_advises_what_only_a_program_can_do() -> None:
    sources = Path(__file__).parents[2] / "crates/store/src"
    said = [
        text.replace('\\"', '"')
        for name in ("error.rs", "io_hint.rs")
        for text in re.findall(r'"((?:[^"\\]|\\.)*)"', _without_tests(sources / name))
    ]
    advice = [text for text in said if re.search(r"mode \"|unseal", text)]
    assert len(advice) >= 8
    for text in advice:
        told = as_options(text)
        assert told != text
        assert 'mode "' not in told, told


def test_a_folder_that_is_no_store_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(tmp_path)]) == 2
    assert "is not an Isochrony store; check the path, or create one with: isochrony import" in capsys.readouterr().err


def test_the_demo_does_not_touch_a_folder_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    assert main(["demo", "--dir", str(tmp_path)]) == 2
    assert "has files that are not from a demo" in capsys.readouterr().err
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("bad"), 2),
        (MissingExtraError("needs x"), 4),
        (IsochronyError("store broken"), 3),
        (OSError(28, "No space left on device", "water.iso"), 3),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 0),
    ],
)
def test_errors_have_their_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(_: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr("isochrony.cli.info.run", fail)
    assert main(["info", "x"]) == code
    assert "Traceback" not in capfd.readouterr().err


def test_a_trace_is_shown_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOCHRONY_DEBUG", "1")
    with pytest.raises(UsageError):
        main(["info", "/nowhere"])


@pytest.mark.parametrize("value", ["0", "fast", "-3"])
def test_rejects_a_rate_that_is_none(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", ".", "x.iso", f"--rate={value}"]) == 2
    assert "is not a positive number of Hz" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "samples"), [("4096", 4096), ("250ms", 500), ("60s", 120_000), ("5min", 600_000), ("1h", 7_200_000)]
)
def test_windows_are_samples_or_durations(text: str, samples: int) -> None:
    plan = iso.scan(np.zeros(1), rate=2000).rewindow(window_length(text))
    assert str(plan) == f"scan(array) -> rewindow(window={samples})"


@pytest.mark.parametrize("text", ["", "0", "1.5", "ten", "0.0001s", "-5"])
def test_rejects_windows_that_hold_no_sample(text: str) -> None:
    with pytest.raises(ValueError, match="window"):
        iso.scan(np.zeros(1), rate=2000).rewindow(window_length(text))


@pytest.mark.parametrize("text", ["", "median", "min,min", "min,,median"])
def test_rejects_unknown_statistics(text: str) -> None:
    with pytest.raises(UsageError, match="--stats"):
        parse_stats(text)
    assert parse_stats("std, min") == ["std", "min"]


def test_tables_align_numbers_right_and_text_left() -> None:
    assert (
        render(("name", "n"), [("a", 5), ("bb", 1234), ("c", None)]) == "name     n\na        5\nbb    1234\nc        –"
    )


def test_times_on_the_screen_are_whole_microseconds() -> None:
    assert short_time("2010-03-01T00:00:00.13741804383852809Z") == "2010-03-01T00:00:00.137418Z"
    assert short_time("2010-03-01T00:00:00.0000001Z") == "2010-03-01T00:00:00Z"
    assert short_time("2010-03-01T00:00:00Z") == "2010-03-01T00:00:00Z"
    assert short_time(None) is None


def test_many_files_refused_for_one_reason_take_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_refused([*((f"a{i}", "needs x") for i in range(90)), ("b", "is empty"), ("", "5 more")], sys.stdout)
    assert capsys.readouterr().out.splitlines() == [
        "refused: 90 files (a0, a1, a2 and 87 more), such as: needs x",
        "refused: b: is empty",
        "refused: : 5 more",
        "refused: isochrony import --json lists every file",
    ]


def test_reasons_that_differ_in_names_and_numbers_only_are_one(capsys: pytest.CaptureFixture[str]) -> None:
    odd = [(f"f{i}.raw", f'"x" was expected at character {i} of "f{i}.raw", a file of {i} bytes') for i in range(30)]
    print_refused(odd, sys.stdout)
    told, where = capsys.readouterr().out.splitlines()
    assert told == (
        "refused: 30 files (f0.raw, f1.raw, f2.raw and 27 more), such as: "
        '"x" was expected at character 0 of "f0.raw", a file of 0 bytes'
    )
    assert "--json" in where


def test_a_screenful_of_reasons_says_how_many_more(capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"{a}{b}" for a in "abcdef" for b in "uvwxy"]
    print_refused([(word, f"reason {word}") for word in words], sys.stdout)
    lines = capsys.readouterr().out.splitlines()
    # A reason that holds its file's name is the same reason for every file.
    assert lines[0].startswith("refused: 30 files (au, av, aw and 27 more)")
    print_refused([(str(i), f"reason {word}") for i, word in enumerate(words)], sys.stdout)
    assert capsys.readouterr().out.splitlines()[-1].startswith("refused: 10 more reasons; ")


MISTAKES = [
    (["imprt", ".", "x.iso"], "'imprt' is not one of demo, import"),
    (["imprt", ".", "x.iso"], "(did you mean import?); see isochrony --help"),
    (["--versoin"], "there is no option --versoin (did you mean --version?)"),
    ([], "the following arguments are required: COMMAND; see isochrony --help"),
    (["import", ".", "x.iso", "--formt", "raw"], "no option --formt (did you mean --format?); see isochrony import"),
    (["import", ".", "x.iso", "--format", "msed"], "--format: 'msed' is not one of raw"),
    (["import", ".", "x.iso", "--format", "msed"], "(did you mean mseed?)"),
    (["scan", "x.iso/a", "--windw=1s"], "no option --windw (did you mean --window?)"),
    (
        ["scan", "x.iso", "a", "--window", "1s"],
        "scan takes one STORE/SIGNAL, got also 'a'; write x.iso/a; see isochrony scan",
    ),
    (["send", "x.iso", "a", "-"], "send takes STORE/SIGNAL and ADDRESS, got also '-'; see isochrony send --help"),
    (["demo", "x.iso"], "demo takes no arguments but options, got 'x.iso'; see isochrony demo --help"),
    (["info", "x.iso", "-z"], "there is no option -z; see isochrony info --help"),
    (["scan", "x.iso/a", "--window"], "--window: expected one argument; see isochrony scan --help"),
    (["completion", "powershell"], "shell: 'powershell' is not one of bash, zsh, fish"),
]


@pytest.mark.parametrize(("line", "message"), MISTAKES)
def test_mistakes_on_the_command_line_are_one_line(
    line: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("isochrony: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("more", [["--nonsense"], ["a", "b", "c", "d"], ["-z"]])
def test_every_command_tells_a_mistake_in_one_line(
    command: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, *more]) == 2
    said = capsys.readouterr().err
    # An import takes any number of sources.
    assert "--help" in said or (command == "import" and "a does not exist" in said)
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--preset", "nope"], 2),
        (["--format", "raw", "--dtype", "<i2", "--rate", "100", "--layout", "{broken"], 2),
        (["--format", "raw", "--dtype", "<q9", "--rate", "100", "--layout", "{epoch}.raw"], 2),
        (["--format", "raw", "--dtype", "<i2", "--rate", "100", "--layout", "{epoch}.raw"], 1),
        ([], 1),
    ],
)
def test_a_refused_import_leaves_no_store_behind(
    options: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "notes.txt").write_text("not a recording")
    store = tmp_path / "new.iso"
    assert main(["import", str(source), str(store), *options]) == code
    assert not store.exists()
    assert "next: " not in capsys.readouterr().err


def test_a_refused_import_leaves_an_older_store_as_it_was(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    store = tmp_path / "old.iso"
    iso.open(store, mode="x").close()
    assert main(["import", str(source), str(store), "--preset", "nope"]) == 2
    assert iso.open(store).keys() == []


def complete(words: list[str]) -> list[str]:
    """What bash would offer for the last of `words`."""
    script = subprocess.run(["bash", "-c", _bash_probe(words)], capture_output=True, text=True, check=True)
    return script.stdout.split()


def _bash_probe(words: list[str]) -> str:
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["completion", "bash"]) == 0
    listed = " ".join(f"'{word}'" for word in words)
    return f"""{out.getvalue()}
COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; COMPREPLY=()
_isochrony; printf '%s\\n' "${{COMPREPLY[@]}}\""""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_and_choices() -> None:
    assert complete(["isochrony", "in"]) == ["info"]
    assert set(complete(["isochrony", ""])) >= set(COMMANDS)
    assert "--gap-slip" in complete(["isochrony", "import", "--"])
    assert "--gap-slip" not in complete(["isochrony", "info", "--"])
    assert complete(["isochrony", "import", "--format", "m"]) == ["mseed"]
    assert complete(["isochrony", "completion", "f"]) == ["fish"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_list_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command in COMMANDS:
        assert command in script
    assert "codec" in script
    if (path := shutil.which(shell)) is not None:
        subprocess.run([path, "-n"], input=script, text=True, check=True)


def test_a_window_in_seconds_is_a_decimal() -> None:
    for samples in range(1, 1000):
        plan = iso.scan(np.zeros(1), rate=100).rewindow(window_length(f"{samples / 100}s"))
        assert str(plan) == f"scan(array) -> rewindow(window={samples})"
