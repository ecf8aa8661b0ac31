"""STACKING_TASKS: the tasks of a workload, and where they are done: in this process, or on the workers of a cluster."""

import gzip
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cutouts
import fits_tiles
import pixels
from coadd import Stack
from sky import Source


def workload(sources: list[Source], frames: list[Path], locality: float) -> list[cutouts.Task]:
    """Tasks, source by source: each in all frames, the last one in fewer, so that `locality` is the mean."""
    count = round(locality * len(frames))
    if not 0 < count <= len(sources) * len(frames):
        given = f"locality={locality:g} of {len(frames)} frames is refused"
        raise ValueError(f"{given}: give one frame or more, and above 0 to {len(sources)}, the sources of the field")
    pairs = [divmod(number, len(frames)) for number in range(count)]
    return [(k, sources[k].ra, sources[k].dec, str(frames[frame])) for k, frame in pairs]


def unpack(frame: Path, target: Path) -> None:
    """Writes a gzip frame as hosts cache it: decompressed once, not in each task. A damaged one is for tasks to name.

    With a locality of 4, two workers need half the time for it. Of a RICE frame tasks decompress what they read, which
    takes less time than the whole frame, up to a locality of 12 and more.
    """
    try:
        target.write_bytes(gzip.decompress(frame.read_bytes()))
    except fits_tiles.DAMAGE:
        shutil.copyfile(frame, target)


def each(function: Callable[..., Any], tasks: list[cutouts.Task], on: Any) -> Iterator[Any]:
    """Results of tasks in their order, here or on a cluster. The result of a task that failed is its exception."""
    if on is None:
        for task in tasks:
            try:
                yield function(task, task[-1])
            except ValueError as error:
                yield error
        return
    import cloudpickle

    from isochrony import cluster

    for module in (cutouts, fits_tiles, pixels, sys.modules[__name__]):
        cloudpickle.register_pickle_by_value(module)
    form = unpack if all(task[-1].endswith(".gz") for task in tasks) else None
    with cluster.attach(on) as caches:
        yield from cluster.map(
            function, tasks, client=caches, inputs=lambda task: task[-1], cache_form=form, keep_going=True
        )


def stack(sources: list[Source], tasks: list[cutouts.Task], on: Any = None) -> tuple[list[Stack], list[str]]:
    """A stack of each source that has tasks, and what was wrong with the frames of those that failed."""
    stacks, failures = [Stack(source) for source in sources[: tasks[-1][0] + 1]], []
    for (number, *_), found in zip(tasks, each(cutouts.cutout, tasks, on), strict=True):
        if isinstance(found, Exception):
            failures.append(str(found))
        else:
            stacks[number].add(found)
    return stacks, failures
