"""Plans on a Dask cluster: ``plan.collect(on=client)``. Only this package knows Dask.

A worker of the cluster has a *slot* for each of its threads. A slot is an actor: an object that lives in the worker for
the run, and whose calls do not go through Dask's scheduler. A call takes a batch of tasks and returns their results; it
runs in a thread of its own, so that the worker's heartbeats go on. All slots of a worker process share the plan that
was prepared there, and its open stores.

    client                                    worker process
    ClusterRun: which slots there are         plans by their hash, prepared once
    Slot.send(batch)  == actor call ========> SlotActor.run(batch): in its thread
    Slot.receive()    <== results ===========

A worker that is to leave is *drained*: its slots finish what they have, are given back, and then it is retired.
`scaling` decides when, if the run may scale its cluster.

A slot whose worker is gone is given up, and its tasks are done by others. While there is none the run waits for workers
that join, but no longer than `client.WORKER_TIMEOUT_S`. A plan that reads a live feed sends blocks of samples instead
of tasks, and needs no worker: its process computes what no slot does.
"""

from .attachment import Attachment, attach
from .client import ClusterRun
from .connect import checked_client
from .exceptions import pickled_exception, unpickled_exception
from .executables import Executable, unpack
from .mapping import MapResults, map  # noqa: A004 - as concurrent.futures names it
from .scaling import drain
from .worker import SlotActor

__all__ = [
    "Attachment",
    "ClusterRun",
    "Executable",
    "MapResults",
    "SlotActor",
    "attach",
    "checked_client",
    "drain",
    "map",
    "pickled_exception",
    "unpack",
    "unpickled_exception",
]
