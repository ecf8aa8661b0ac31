"""STACKING_TASKS: the tasks of a workload, and where they are done: in this process, or on the workers of a cluster."""

from collections.abc import Callable, Iterable, Iterator
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


def each(function: Callable[..., Any], tasks: Iterable[cutouts.Task], on: Any) -> Iterator[Any]:
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

    for module in (cutouts, fits_tiles, pixels):
        cloudpickle.register_pickle_by_value(module)
    with cluster.attach(on) as caches:
        yield from cluster.map(function, tasks, client=caches, inputs=lambda task: task[-1], keep_going=True)


def stack(sources: list[Source], tasks: list[cutouts.Task], on: Any = None) -> tuple[list[Stack], list[str]]:
    """A stack of each source that has tasks, and what was wrong with the frames of those that failed."""
    stacks, failures = [Stack(source) for source in sources[: tasks[-1][0] + 1]], []
    for (number, *_), found in zip(tasks, each(cutouts.cutout, tasks, on), strict=True):
        if isinstance(found, Exception):
            failures.append(str(found))
        else:
            stacks[number].add(found)
    return stacks, failures
