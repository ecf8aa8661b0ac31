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
    ],
}


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
        "### The thesis's tables 5.2 and 6.1 to 6.7\n\n"
        "Medians; 3,947 MB on twelve cores and a disk of 160 MB/s in 2010. Times are compared with the first row of "
        "each table. Backwards scans are five times slower there, since that disk has to seek; here it has not.\n\n"
        "| table | thesis | s | MB/s | times | here | s | MB/s | times |\n"
        "|---|---|---|---|---|---|---|---|---|\n" + "\n".join(lines) + "\n"
    )
