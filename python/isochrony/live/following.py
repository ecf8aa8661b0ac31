"""Stored signals that are still being appended to, as sources of plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors.native import PlanError
from ..options import seconds, whole

if TYPE_CHECKING:
    from .._native import NativeFollowed, Signal

__all__ = ["Followed", "follow"]


class Followed:
    """A stored signal and what is still to be committed of it; made by `follow`, read by ``iso.scan(followed)``."""

    __slots__ = ("_name", "_native")

    def __init__(self, native: NativeFollowed, name: str) -> None:
        self._native = native
        self._name = name

    def __repr__(self) -> str:
        return f"<Followed {self._name}>"

    @property
    def counts(self) -> dict[str, int]:
        """Counters over all executions so far.

        ``samples`` that plans got; ``commits``, times that there was something new, the first included;
        ``backfilled_samples`` that a late file put behind the place that was read, or that were committed after
        `lateness` had given them up, so that plans did not get them: a scan of the signal as it is then has them.
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
    """Follow a stored signal that another process, or this one, still appends to.

    A plan over it reads what is there and then goes on with what is committed later, a few milliseconds after it was.
    Gaps, clock steps and windows are those of the stored signal, wherever commits cut it: a gap-free stretch goes on
    across them. Samples come in the order of their indices, each once. What a late file fills in behind the place that
    is read does not come, and is counted.

    The plan ends when the signal is sealed, after `silence`, when nobody writes any more if `while_written` says so, or
    by Ctrl-C; a signal that is removed or replaced meanwhile ends it with an error. Several runs may follow one signal,
    and plans over several followed signals meet as any others do.

    A signal to which nothing is appended holds up what it meets (`join`, `zip`, `merge`, `align`, `sync`), unless
    `lateness` says for how long: then its clock goes on, and what is overdue is a gap. What `lateness` and `silence`
    wait for, and what they do then, is in ``docs/silence.md``.

    Parameters:
        signal: of a store that is open, for reading as a rule. In the process that writes, what waits for a commit
            counts as committed.
        start: index from which on it is read; ``signal.end_index`` leaves out what is there already.
        silence: seconds without anything new after which it ends; default: never.
        lateness: seconds that samples may be overdue while nothing is committed; then they are given up: what is
            committed of them later is not read, but counted, and plans go on. More than from one commit to the next.
            Default: they are waited for, for ever.
        while_written: end when no process has the store open for writing; it is looked for twice a second, after what
            was committed has been read.

    Raises:
        PlanError: `signal` is none. OptionError: `start`, `silence` or `lateness` is refused.

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
    silence = None if silence is None else seconds("silence=", silence)
    lateness = None if lateness is None else seconds("lateness=", lateness)
    native = NativeFollowed(signal, whole("follow start=", start, "samples", 0), silence, lateness, while_written)
    return Followed(native, signal.name)
