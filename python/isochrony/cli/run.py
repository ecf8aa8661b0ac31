"""``isochrony run``: run a saved plan."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError
from ..errors.native import PlanError
from ..output.files import check_output, writing
from ..plan.plan import Plan
from ..running.options import RunOptions
from ..running.report import RunResult
from ..running.runs import collect_reported, run_reported
from ..store.exporters import write_npy
from ..tables.table import Table
from ..tuning.configuration import tuning_fields
from .exits import Exit
from .paths import output_path, store_path
from .run_options import add_run_options, run_options
from .scan import write_columns
from .tables import listed, print_json
from .target import is_store, open_store

__all__ = ["EXAMPLES", "HELP", "INTERRUPTED", "add_arguments", "run"]

HELP = "run a saved plan, and print its result and a report"
INTERRUPTED = "committed samples stay; no unfinished file is left"
EXAMPLES = """examples:
  isochrony run voiced.json
  isochrony run voiced.json --explain
  isochrony run mean.json --out mean.parquet
  isochrony run detect.json --store other.iso --report report.json

PLAN is a file with the text of Plan.to_json(). Its signals are read from the stores that it
names, or all from --store; a store that the plan writes to is opened for writing. A plan that
calls Python functions is refused, since that imports and runs their modules. Allow them with
--allow-functions, or one by one, for plans that you trust like a script.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("plan", metavar="PLAN", type=Path, help="JSON file of the plan")
    parser.add_argument(
        "--store", type=store_path, metavar="S", help="store to read from and write to, instead of those in the plan"
    )
    parser.add_argument(
        "--allow-functions",
        action="store_true",
        help="allow the plan to import and call all Python functions that it names",
    )
    parser.add_argument(
        "--allow-function",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="allow the plan to import and call this Python function; may be repeated",
    )
    parser.add_argument("--explain", action="store_true", help="show the plan and how it would run, without running it")
    parser.add_argument(
        "--out", type=output_path, metavar="F", help="write the result to this file: .csv, .parquet or .npy"
    )
    parser.add_argument("--counts", action="store_true", help="output samples as stored, instead of values in the unit")
    parser.add_argument("--report", type=output_path, metavar="F", help="write the report of the run to this JSON file")
    parser.add_argument(
        "--save-configuration",
        type=output_path,
        metavar="F",
        help="write the configuration that --tune found to this JSON file; use it with --tune F",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace the files of --out, --report and --save-configuration"
    )
    add_run_options(parser)
    parser.add_argument("--json", action="store_true", help="print result and report as JSON, instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Run the plan, with a progress line on a terminal."""
    if arguments.explain:
        for option, path in (("--out", arguments.out), ("--report", arguments.report)):
            if path is not None:
                raise UsageError(
                    f"{option} {path} cannot be used with --explain, which runs nothing; leave out "
                    f"--explain or {option}"
                )
    if arguments.out is not None and arguments.out.suffix not in (".csv", ".parquet", ".pq", ".npy"):
        raise UsageError(f"--out {arguments.out} has an unknown suffix; give a .csv, .parquet or .npy file")
    for out in (arguments.out, arguments.report, arguments.save_configuration):
        if out is not None:
            check_output(out, replace=arguments.force)
    options = run_options(arguments)
    if arguments.save_configuration is not None and (options.request is None or options.request.mode == "measure"):
        raise UsageError(
            f"--save-configuration {arguments.save_configuration} needs --tune, which finds the configuration; add "
            "--tune yes or --tune recommend"
        )
    if not arguments.plan.exists():
        raise UsageError(f"{arguments.plan} does not exist; give the path of a plan's JSON file")
    if arguments.plan.is_dir():
        kind = "a store" if is_store(arguments.plan) else "a folder"
        raise UsageError(f"{arguments.plan} is {kind}; give the path of a plan's JSON file")
    saved = arguments.plan.read_bytes()
    if arguments.store is None:
        return _run(arguments, options, _plan(arguments, saved))
    if not is_store(arguments.store):
        raise UsageError(f"--store {arguments.store} is not an Isochrony store; check the path")
    with open_store(arguments.store, "r+" if _writes(saved) else "r") as store:
        return _run(arguments, options, _plan(arguments, saved, store))


def _plan(arguments: argparse.Namespace, saved: bytes, store: Any = None) -> Plan:
    """The plan of the file, which what is wrong with it names."""
    allowed = arguments.allow_functions or arguments.allow_function or False
    try:
        return Plan.from_json(saved, store=store, allow_functions=allowed)
    except PlanError as error:
        error.args = (f"{arguments.plan}: {error}", *error.args[1:])
        raise


def _writes(saved: bytes) -> bool:
    """Whether a saved plan has an operator that writes to a store; broken ones are refused elsewhere."""
    try:
        return any(node.get("op") in ("sink", "annotate") for node in json.loads(saved)["nodes"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _run(arguments: argparse.Namespace, options: RunOptions, plan: Plan) -> int:
    if arguments.explain:
        print(plan.explain(), end="")
        return Exit.OK
    result: Any = None
    columns: dict[str, Any] | None = None
    if arguments.out is not None or plan.kind in ("count", "ranges", "rows"):
        (result,), (parts,), done = collect_reported((plan,), options, counts=arguments.counts)
        columns = _columns(plan, result, parts)
    else:
        done = run_reported((plan,), options)
    if arguments.report is not None:
        with writing(arguments.report, replace=arguments.force) as file:
            file.write(f"{json.dumps(_report(done), indent=1)}\n".encode())
    tuning = done.report.tuning
    if arguments.save_configuration is not None and tuning is not None:
        if tuning.configuration is None:
            print(f"{arguments.save_configuration} is not written, since the plan ran in one thread", file=sys.stderr)
        else:
            tuning.configuration.save(arguments.save_configuration, replace=arguments.force)
    if arguments.out is not None:
        _write(arguments.out, result, columns, replace=arguments.force)
    if arguments.json:
        shown = result if columns is None else {name: listed(column) for name, column in columns.items()}
        print_json({"result": None if arguments.out is not None else shown, "report": _report(done)})
        return Exit.OK
    if arguments.out is None and result is not None:
        print(result if columns is None else Table(columns))
    print(done.report, file=sys.stdout)
    return Exit.OK


def _columns(plan: Plan, result: Any, parts: Any) -> dict[str, Any] | None:
    """A result as named columns, with the index of each row's first sample; None of a number."""
    if isinstance(result, Table):
        return dict(result)
    if not isinstance(result, np.ndarray):
        return None
    if plan.kind == "ranges":
        return {"start": result[:, 0], "end": result[:, 1]}
    empty = np.empty(0, "i8")
    index = np.concatenate([empty, *(start + plan.hop * np.arange(count) for start, count in parts)])
    if result.ndim == 1:
        return {"index": index, "value": result}
    names = ["value"] if result.shape[1] == 1 else [f"value{k}" for k in range(result.shape[1])]
    return {"index": index} | {name: result[:, k] for k, name in enumerate(names)}


def _write(out: Path, result: Any, columns: dict[str, Any] | None, *, replace: bool) -> None:
    if out.suffix == ".npy":
        with writing(out, replace=replace) as file:
            array = np.asarray(result)
            write_npy(file, array.dtype, array.shape, [array])
    else:
        write_columns({"count": np.array([result])} if columns is None else columns, out, replace=replace)


def _report(done: RunResult) -> dict[str, Any]:
    report = done.report
    return {
        "operators": [
            {
                "name": o.name,
                "items": o.items,
                "samples": o.samples,
                "gaps": o.gaps,
                "useful_s": o.useful_s,
                "threads": o.threads,
            }
            for o in report.operators
        ],
        "reads": list(report.reads),
        "workers": [asdict(worker) for worker in report.workers],
        "tasks": len(report.tasks),
        "tuning": None if report.tuning is None else tuning_fields(report.tuning),
        "stages": [
            {
                "number": s.number,
                "replica": s.replica,
                "operators": list(s.operators),
                "busy_s": s.busy_s,
                "input_wait_s": s.input_wait_s,
                "output_wait_s": s.output_wait_s,
                "core_wait_s": s.core_wait_s,
            }
            for s in report.stages
        ],
        "links": [
            {"stages": list(one.stages), "bytes": one.bytes, "occupancy": list(one.occupancy)} for one in report.links
        ],
        "threads": [
            {"cpu_s": t.cpu_s, "involuntary_switches": t.involuntary_switches, "elapsed_s": t.elapsed_s}
            for t in report.threads
        ],
        "bursts": report.bursts,
        "elapsed_s": report.elapsed_s,
        "peak_bytes": report.peak_bytes,
        "engine_share": report.engine_share,
        "latency": None if report.latency is None else report.latency._asdict(),
    }
