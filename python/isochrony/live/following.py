"""Stored signals that are still being appended to, as sources of plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors.native import PlanError
from ..options import duration, flag, whole

if TYPE_CHECKING:
    from .._native import NativeFollowed, Signal

__all__ = ["Followed", "follow"]


class Followed:
    """A stored signal that a plan follows while samples are appended to it; made by `follow`.

    ``iso.scan(followed)`` makes a plan of it.

    >>> import numpy as np, tempfile, isochrony as iso
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> signal = store.create("mic", dtype="i2", rate=1000)
    >>> _ = signal.append(np.arange(500, dtype="i2")), store.commit()
    >>> followed = iso.follow(signal, silence=0.1)
    >>> total = iso.scan(followed).rewindow(500).map(lambda s: s.sum()).collect()
    >>> followed.counts["samples"]
    500
    """

    __slots__ = ("_name", "_native")

    def __init__(self, native: NativeFollowed, name: str) -> None:
        self._native = native
        self._name = name

    def __repr__(self) -> str:
        return f"<Followed {self._name}>"

    @property
    def counts(self) -> dict[str, int]:
        """Counters over all runs so far, a dict.

        ``samples``: passed to plans. ``commits``: how often new samples were found, the first time included.
        ``backfilled_samples``: not passed to plans, since a late file filled them in behind the current position, or
        since they were committed after `lateness` had given them up. A new scan of the signal has them.

        >>> import numpy as np, tempfile, isochrony as iso
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> signal = store.create("mic", dtype="i2", rate=1000)
        >>> _ = signal.append(np.arange(500, dtype="i2")), store.commit()
        >>> iso.follow(signal, silence=0.1).counts["samples"]  # no run has read any yet
        0
        """
        return dict(self._native.counts())


def follow(
    signal: Signal,
    *,
    start: int = 0,
    silence: float | None = None,
    lateness: float | None = None,
    while_written: bool = False,
) -> Followed:
    """Follow a stored signal while this or another process appends to it.

    A plan over it reads what is stored and then continues with new commits, a few milliseconds after each. Gaps, clock
    steps and windows are those of the stored signal, wherever commits cut it: a gap-free range continues across
    commits. Samples come in order of their indices, each once. Samples that a late file fills in behind the current
    position are not passed on, but counted.

    The plan ends when the signal is sealed, after `silence`, when the writer closes the store (with `while_written`),
    or with Ctrl-C. If the signal is removed or replaced, it ends with an error. Several runs may follow one signal, and
    plans over several followed signals combine as others do.

    A signal that gets no new samples holds up the plans that it is combined with (`join`, `zip`, `merge`, `align`,
    `sync`), unless `lateness` states for how long: then its time moves on, and overdue samples become a gap.
    ``docs/silence.md`` has the details of `lateness` and `silence`.

    Parameters:
        signal: of an open store, as a rule one open for reading. In the process that writes, uncommitted samples count
            as committed.
        start: index of the first sample to read, from 0; ``signal.end_index`` skips what is stored already.
        silence: seconds without new samples after which the plan ends, 0 or more; with 0 it ends when it has read what
            is stored. None: never.
        lateness: seconds that samples may be overdue while nothing is committed, 0 or more; give more than the time
            between two commits. Samples that are committed later are not passed on, but counted, and plans continue.
            None: wait for ever.
        while_written: end when no process has the store open for writing; checked twice a second, after all committed
            samples were read.

    Returns:
        A `Followed`, to pass to `isochrony.scan`.

    Raises:
        PlanError: `signal` is not a signal of a store.
        OptionError: a parameter out of range.

    >>> import numpy as np, tempfile, isochrony as iso
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> signal = store.create("mic", dtype="i2", rate=1000)
    >>> _ = signal.append(np.arange(500, dtype="i2")), store.commit()
    >>> followed = iso.follow(iso.open(store.path)["mic"], silence=0.1)
    >>> iso.scan(followed).rewindow(250).count().collect()
    2
    """
    from .._native import NativeFollowed, Signal

    if not isinstance(signal, Signal):
        raise PlanError(f"follow got {type(signal).__name__}; give a signal of a store, such as store['name']")
    silence = None if silence is None else duration("silence=", silence)
    lateness = None if lateness is None else duration("lateness=", lateness)
    first, written = whole("follow start=", start, "samples", 0), flag("while_written", while_written)
    native = NativeFollowed(signal, first, silence, lateness, written)
    return Followed(native, signal.name)
