"""The WaveScope thesis's tables 5.2 and 6.1 to 6.7 beside what `archives.py` measured here."""

from __future__ import annotations

from typing import Any

#: The thesis's load in megabytes (section 5.3.2).
LOAD = 3947.364352

#: Of each table its rows: what it is in the thesis, its seconds there (median of three), the run of ours that is most
#: like it. The first row of a table is what its others are compared with.
TABLES: dict[str, list[tuple[str, float, str]]] = {
    "5.2, 6.1: Scan Summarize": [
        ("C++, Fread, total loop", 32.90, "scan-summarize/cold/bare loop"),
        ("C++, Ptr RA, total loop", 26.10, "scan-summarize/cold/plan, 1 worker"),
    ],
    "6.2, 6.3: Windowed FFT": [
        ("C++, total loop", 244.00, "windowed-fft/cached/bare loop"),
        ("linear Python, total loop", 246.17, "windowed-fft/cached/plain Python"),
        ("1 worker, preprocessing and execution", 264.96, "windowed-fft/cached/tasklets, 1 worker"),
    ],
    "6.4 to 6.6: Backwards Scan": [
        ("C++, forwards", 26.67, "backwards-scan/cold/bare loop forward"),
        ("C++, backwards", 132.47, "backwards-scan/cold/bare loop backward"),
        ("Python, backwards", 141.70, "backwards-scan/cold/plain Python backward"),
        ("1 worker, not reordered", 63.91, "backwards-scan/cold/tasklets as given"),
        ("1 worker, reordered", 28.49, "backwards-scan/cold/tasklets reordered"),
    ],
    "6.7: FFT Adder": [
        ("the model, serial", 260.0, "fft-adder/cached/plain Python"),
        ("1 worker", 278.33, "fft-adder/cached/tasklets, 1 worker"),
        ("1 worker", 278.33, "fft-adder/cached/tasklets that are plans, 1 worker"),
    ],
}

#: What explains the tables, beside the numbers themselves.
DIFFERS = """### What differs from 2010

- **Faults.** The thesis paid 11.7 µs for each page of 4 KiB that it touched (963,712 of them for 3.9 GB) and 0.46 ms
  where the disk had to be waited for. Linux maps 16 pages around each fault since 3.15, and pages lie in large folios
  (ext4 since 6.16), of which a fault maps many: table 5.3 above has a fifth to a fiftieth of the thesis's faults, and
  none where the same process scans again. So mapping costs next to nothing over what is cached, where it was the
  slowest.
- **Whole-signal read-ahead** gained the thesis nothing: the kernel took in one window of what it was asked for at
  once. Here it is asked step by step, by a thread of its own, and takes nearly all waiting away. `readahead`, which
  asks at each piece for twice its length, was the thesis's best and costs smaller folios here, and so more faults.
- **The disk** has no seeks: backwards scans took five times as long there and take as long as forward ones here, so
  what reordering gains is shown behind a stand-in that waits 1 ms where it would have to seek. And it is faster, so
  that the adder, bound by the disk from four workers on there, is bound by its transforms here.
- **Memory** comes from a host. A virtual machine may give back what is free (free page reporting), here within a
  second, and wait for each page that it takes anew, by one core as long as by two: a gibibyte of it is touched in 0.2
  to 0.3 s where it became free just now, and in 5 s after a second. So before each run that fills the page cache as
  much memory is taken, and given to the system little by little while the run takes it (`bench/src/supply.rs`), for all
  alike; without that, what takes longer than a second, or waits for the disk in between, measures the host.
- **Loads** are smaller (the column of seconds), on two cores instead of twelve. A load larger than memory is
  in figure 6-1 below.
- **Windowed FFT and the adder** are computed in single precision; SciPy's transform takes about twice as long as
  the bare loop's, where the thesis's Python called the same library as its C++.
"""


def measured(results: list[dict[str, Any]]) -> dict[str, tuple[float, int]]:
    """By the run's name its median seconds and its bytes."""
    found: dict[str, tuple[float, int]] = {}
    for result in results:
        if "ratio" not in result or not result["name"].startswith("archives/"):
            continue
        name = result["name"].removeprefix("archives/")
        size = result["bytes"]
        found[name] = (result["seconds"][0], size)
        found.setdefault(f"{name.rpartition('/')[0]}/{result['other']}", (result["other_seconds"][0], size))
    return found


def section(results: list[dict[str, Any]]) -> str:
    """Seconds, megabytes a second, and how they compare with the table's first row; nothing if nothing was measured."""
    here = measured(results)
    lines = []
    for table, rows in TABLES.items():
        firsts = here.get(rows[0][2])
        for what, there, name in rows:
            if name not in here or firsts is None:
                continue
            seconds, size = here[name]
            run = name.rpartition("/")[2]
            lines.append(
                f"| {table} | {what} | {there:.1f} | {LOAD / there:.0f} | {there / rows[0][1]:.2f} | {run} "
                f"| {seconds:.2f} | {size / seconds / 1e6:.0f} | {seconds / firsts[0]:.2f} |"
            )
    if not lines:
        return ""
    return (
        "## The thesis's tables 5.2 and 6.1 to 6.7\n\n"
        "Medians; 3,947 MB on twelve cores and a disk of 160 MB/s in 2010. Times are compared with the first row of "
        "each table.\n\n"
        "| table | thesis | s | MB/s | times | here | s | MB/s | times |\n"
        "|---|---|---|---|---|---|---|---|---|\n" + "\n".join(lines) + "\n\n" + DIFFERS
    )
