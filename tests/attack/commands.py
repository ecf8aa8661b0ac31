"""Runs random command lines on a small store, and looks how each ends.

    python tests/attack/commands.py [COUNT [SEED]]

Each begins as a line that works, and gets options that the parser has, or other words: plausible values, odd ones, and
paths. `LEFT_OUT` are left out, and what would wait for a peer.
Each process runs some in a folder of its own. A command ends within `TIMEOUT_S` with a documented exit code, never
70 (a mistake of ours), and prints no trace. Prints a line for each failure, counts, and the seed.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import isochrony as iso
from isochrony._native import open_cache
from isochrony.cli.main import build_parser

TIMEOUT_S = 200
#: Command lines that one process runs: it takes a second to begin.
TOGETHER = 10
#: What a command may end with: `isochrony help`, and argparse's own 2.
EXITS = {0, 1, 2, 3, 4, 5, 6, 130}
#: Options that wait for ever, or for a peer, by their meaning.
WAITING = {"--follow", "--loop", "--forever", "--help", "-h", "--version"}

RUNNER = """
import contextlib, io, json, os, sys
from isochrony.cli import main
for line in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    print(json.dumps({"begins": line}), flush=True)
    with contextlib.redirect_stderr(err):
        real = os.dup(1)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        try:
            code = main(line)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 2
        except BaseException as error:
            code = f"{type(error).__name__}: {error}"
        finally:
            sys.stdout.flush()
            os.dup2(real, 1)
            os.close(real)
            os.close(null)
    print(json.dumps({"code": code, "said": err.getvalue()[-2000:]}), flush=True)
"""

#: Values for any option.
ODD = (
    *("", " ", "-", "--", "0", "-1", "1", "7", "100", "0.07", "1e308", "-1e308", "1e-320", "1e999999999", "nan", "inf"),
    *("9" * 400, "9" * 5000, "0." + "0" * 400 + "1", "1/0", "1/3", "9223372036854775808", "18446744073709551616"),
    *("\x1b[31m", "\u0661\u0662", "a\nb", "x" * 5000, "/dev/null", "/dev/full", ".", "~"),
    *("2020-01-01T00:00:00Z", "9999-12-31", "0001-01-01", "2020-02-30", "now", "min,max", "i2", "<f8", "O", "V8"),
    *("9" * 400 + "s", "9" * 400 + "TB", "60s", "5min", "1h", "1ns", "250ms", "lines", "fixed:0", "zstd:99", "zstd:3"),
)


def make(folder: Path) -> None:
    """A store of small signals, one of them damaged, a plan and files."""
    with iso.open(folder / "a.iso", "x") as store:
        rng = np.random.default_rng(1)
        store.create("n/x", dtype="i2", rate=100, unit="mbar", start="2020-01-01T00:00:00Z").append(
            rng.integers(-99, 99, 3000).astype("i2")
        )
        store.create("plain", dtype="f4", rate=8000).append(np.linspace(-1, 1, 4000, dtype="f4"))
        store.create("lost", dtype="i2", rate=100).append(np.zeros(100_000, "i2"))
        store.create("complex", dtype="c8", rate=50).append(np.ones(500, "c8"))
        store.commit()
        plan = iso.scan(store["n/x"]).rewindow(100).rms()
        (folder / "plan.json").write_text(json.dumps(json.loads(plan.to_json())))
    shutil.rmtree(folder / "a.iso" / "lost" / "data" / "c")
    (folder / "in").mkdir()
    (folder / "in" / "a.csv").write_text("time,v\n2020-01-01T00:00:00,1\n2020-01-01T00:00:01,2\n")
    np.save(folder / "in" / "b.npy", np.arange(9))
    open_cache(folder / "cache", 16 << 20)
    (folder / "broken.json").write_text('{"version": 1, "nodes": [')


def good(folder: Path) -> list[str]:
    """Values that some argument takes."""
    store = folder / "a.iso"
    names = ("n/x", "plain", "lost", "complex", "nothing", "n/*", "")
    places = [str(store), *(f"{store}/{name}" for name in names)]
    files = [folder / name for name in ("in", "in/a.csv", "in/b.npy", "plan.json", "broken.json", "new.iso", "absent")]
    outs = [folder / f"out.{suffix}" for suffix in ("csv", "parquet", "wav", "npy", "png", "mseed", "svg", "txt")]
    inside = store / "n" / "x" / "out.csv"
    return [*places, *map(str, files), *map(str, outs), str(inside), "udp://127.0.0.1:9", "tcp://127.0.0.1:1", "xyz://"]


def commands() -> dict[str, argparse.ArgumentParser]:
    """Parsers of all commands by name."""
    for action in build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("no commands")


#: Lines that work; each begins as one of its command's. `@` is the folder.
BASES = (
    *("info @/a.iso", "info @/a.iso/n/*", "gaps @/a.iso", "gaps @/a.iso/n/x", "verify @/a.iso", "verify @/a.iso/n/x"),
    *("scan @/a.iso/n/x --window 100", "scan @/a.iso/plain --window 10ms --out @/out.csv"),
    *(
        "export @/a.iso/n/x --out @/out.csv",
        "export @/a.iso/plain --out @/out.wav",
        "export @/a.iso/complex --out @/o.npy",
    ),
    *("plot @/a.iso/n/x --out @/out.png", "run @/plan.json", "run @/plan.json --out @/rows.parquet"),
    *("run @/plan.json --workers 2 --tune yes --save-configuration @/tuned.json", "top --once"),
    *("import @/in @/new.iso", "import @/in/a.csv @/new.iso", "import @/in/b.npy @/new.iso --rate 100"),
    *("import @/in @/raw.iso --format raw --layout {station}.npy --dtype <i2 --rate 100", "backup @/a.iso @/copy.iso"),
    *("seal @/a.iso/n/x", "seal @/a.iso/plain --codec zstd:1", "send @/a.iso/n/x udp://127.0.0.1:9 --speed 0"),
    *("operators", "operators notch", "operators --json"),
    *("calibrate --dir @ --size 1MB --repeats 1 --out @/machine.json", "completion bash"),
    *("push @/a.iso http://127.0.0.1:9/b.iso --signals n/*", "push @/a.iso @/c.iso", "pull @/a.iso @/c.iso --json"),
    *("map --on tcp://127.0.0.1:9 @/in/a.csv -- wc {}", "map --on nowhere --items @/in/a.csv -- cat {}"),
    *("cache info @/cache", "cache info @/cache --json", "cache clear @/cache"),
    "record xyz://127.0.0.1 @/live.iso mic --dtype f4 --rate 100",
)
#: Commands that no line begins with: each has an attack of its own, or takes minutes.
LEFT_OUT = {"demo", "pipe"}
#: Values that some option takes.
PLAUSIBLE = (
    "1",
    "2",
    "100",
    "0.5",
    "60s",
    "min,max",
    "i2",
    "<f8",
    "zstd:3",
    "mbar",
    "2020-01-01T00:00:05Z",
    "n/x",
    "x",
)


def value(random_: random.Random, places: list[str]) -> str:
    """A value for any argument."""
    return random_.choice(random_.choice((ODD, ODD, PLAUSIBLE, places)))


def line(parsers: dict[str, argparse.ArgumentParser], random_: random.Random, places: list[str], at: str) -> list[str]:
    """A line that works, with up to three more options, and sometimes another value for one of its words."""
    words = [word.replace("@", at) for word in random_.choice(BASES).split()]
    for _ in range(random_.choice((0, 1, 1, 1, 2, 3))):
        if random_.random() < 0.3 and len(words) > 1:
            words[random_.randrange(1, len(words))] = value(random_, places)
            continue
        action = random_.choice(parsers[words[0]]._actions)
        if not action.option_strings or WAITING & {*action.option_strings}:
            continue
        takes = action.nargs != 0
        chosen = random_.choice(list(action.choices)) if action.choices else value(random_, places)
        words += [f"{action.option_strings[-1]}={chosen}"] if takes else [action.option_strings[-1]]
    return words


def waits(words: list[str]) -> bool:
    """Whether a command waits for a peer, for hours, or measures more than a test should."""
    given = dict(word.partition("=")[::2] for word in words if word.startswith("--"))
    if words[0] == "send":
        # A paced one takes as long as the recording; what is absurdly fast ends at once.
        paced = float_of(given.get("--speed") or "0")
        return not any(word.startswith("--speed") for word in words) or (
            paced is not None and paced != 0 and paced < 100
        )
    if words[0] == "record":
        return not words[1].startswith("xyz:")
    if words[0] == "calibrate":
        sizes = [word for word in words if word.endswith("TB") or float_of(word.partition("=")[2]) is not None]
        return any(len(size) < 300 for size in sizes)
    return False


def float_of(text: str) -> float | None:
    """A number, if it is one."""
    try:
        return float(text)
    except ValueError:
        return None


def run(lines: list[list[str]], folder: Path) -> list[tuple[list[str], Any, str]]:
    """How each command line ended, and what it said."""
    given = json.dumps(lines)
    command = [sys.executable, "-c", RUNNER]
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=folder, check=False
        )
        printed, ended = done.stdout, f"process ended with {done.returncode}: {done.stderr[-500:]}"
    except subprocess.TimeoutExpired as late:
        printed = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        ended = f"hangs for {TIMEOUT_S} s"
    ends: list[tuple[list[str], Any, str]] = []
    begun: list[str] | None = None
    for text in printed.splitlines():
        told = json.loads(text)
        if "begins" in told:
            begun = told["begins"]
        elif begun is not None:
            ends.append((begun, told["code"], told["said"]))
            begun = None
    if begun is not None:
        ends.append((begun, ended, ""))
    return ends


def main() -> int:
    """Runs as many as asked for."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    print(f"{count} command lines, seed {seed}", flush=True)
    random_ = random.Random(seed)
    parsers = commands()
    codes: Counter[str] = Counter()
    failures = done = 0
    while done < count:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            make(folder)
            places = good(folder)
            lines: list[list[str]] = []
            while len(lines) < min(TOGETHER, count - done):
                words = line(parsers, random_, places, str(folder))
                if not waits(words):
                    lines.append(words)
            for words, code, said in run(lines, folder):
                codes[str(code)] += 1
                if code not in EXITS or "Traceback" in said or "a bug in isochrony" in said:
                    failures += 1
                    shown = [word if len(word) < 80 else f"{word[:80]}...({len(word)})" for word in words]
                    print(f"FAILED: {shown} -> {code}\n{said[-1000:]}", flush=True)
            done += len(lines)
    print(f"{done} command lines, seed {seed}: {failures} failures; exit codes {dict(sorted(codes.items()))}")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
