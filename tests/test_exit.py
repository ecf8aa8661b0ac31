"""The interpreter ends while daemon threads are at work: never by a signal, and without a word."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
import textwrap

import pytest

# Lives of each kind of work; an exit takes some tenths of a second, most of which is imports.
LIVES = int(os.environ.get("ISOCHRONY_EXITS", "8"))

PROGRAM = """
import random, sys, threading, time
import numpy as np
import isochrony as iso

seed, kind = int(sys.argv[1]), sys.argv[2]
chance = random.Random(seed)
x = np.random.default_rng(seed).normal(size=400_000)
begun = threading.Event()

def look(values, start):
    begun.set()

def slowly(values, start):
    begun.set()
    time.sleep(0.003)

def noise():
    begun.set()
    while True:
        yield np.ones(100)

def busy(values, start):
    begun.set()
    while True:
        sum(range(100))

class Echo(iso.Operator):
    def process(self, block, emit):
        begun.set()
        emit(block.values)

def plans_inside(values, start):
    begun.set()
    other.apply(Echo).count().collect()
    other.apply(Echo).explain()

windows = iso.scan(x, rate=1000, segment=1000).rewindow(100)
other = iso.scan(x[:1000], rate=1000, segment=100)
same = iso.py(lambda rows: (begun.set(), rows)[1], dtype="f8", width=100, on_workers="threads")
PLANS = {
    "each": lambda: windows.each(look).run(),
    "slow": lambda: windows.each(slowly).run(),
    "map": lambda: windows.map(iso.py(lambda rows: (begun.set(), rows)[1], dtype="f8", width=100)).count().collect(),
    "threads": lambda: windows.map(same).count().collect(workers=2),
    "generate": lambda: iso.generate(noise, dtype="f8", rate=100).count().collect(),
    "native": lambda: (begun.set(), windows.power().count().collect()),
    "busy": lambda: windows.each(busy).run(),
    "apply": lambda: other.apply(Echo).count().explain() and begun.set(),
    "apply inside each": lambda: windows.each(plans_inside).run(),
}

def work():
    while True:
        PLANS[kind]()

for _ in range(chance.randint(1, 3)):
    threading.Thread(target=work, daemon=True).start()
begun.wait()
time.sleep(chance.random() * 0.02)
"""


KINDS = ["each", "slow", "map", "threads", "generate", "native", "busy", "apply", "apply inside each"]


@pytest.mark.parametrize("kind", KINDS)
def test_exits_beside_running_plans_are_quiet(kind: str) -> None:
    def life(seed: int) -> tuple[int, int, str]:
        command = [sys.executable, "-c", PROGRAM, str(seed), kind]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return seed, done.returncode, done.stdout + done.stderr

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(life, range(LIVES if kind != "busy" else 2)))
    assert [end for end in ends if end[1:] != (0, "")] == []


# Registered before the package is: called after its own. Says how long that took.
TIMED = """
import atexit, os, time
atexit.register(lambda: print(f"{time.monotonic() - ended:.3f}"))
"""


def seconds_to_close(program: str, *arguments: str) -> float:
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return float(done.stdout)


@pytest.mark.parametrize("kind", ["each", "threads"])
def test_threads_that_sleep_for_good_are_not_waited_for(kind: str) -> None:
    program = f"{TIMED}{PROGRAM}\nended = time.monotonic()\n"
    # Those that still work are waited for, at most for a second.
    assert min(seconds_to_close(program, str(seed), kind) for seed in range(5)) < 0.5


def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    forks = """
child = os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ended = time.monotonic()
"""
    assert seconds_to_close(f"{TIMED}{PROGRAM}{forks}", "1", "slow") < 0.5


def test_a_plan_may_still_run_when_the_interpreter_is_about_to_end() -> None:
    code = """
    import atexit
    import numpy as np

    def late():
        plan = iso.scan(np.arange(4.0), rate=10).each(lambda values, start: print("late", start))
        plan.run(workers=2)

    # Registered before the package is: called after its own.
    atexit.register(late)
    import isochrony as iso
    iso.scan(np.arange(4.0), rate=10).count().collect()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "late 0\n", "")
