"""Feeds that arrive now, as sources of plans, and samples that are sent on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from .chain import Chain

if TYPE_CHECKING:
    from ._native import NativeListener

__all__ = ["Latency", "Listener", "LiveSteps", "listen"]


class Latency(NamedTuple):
    """Seconds from the arrival of a frame until the plan had done with it; quantiles to a tenth."""

    items: int
    """Items that were measured."""
    median: float
    p99: float
    """99 of 100 took no longer."""
    most: float


class Listener:
    """A feed that is listened to; made by `listen`, read by ``iso.scan(listener)``.

    It is bound from the beginning and read while a plan runs, by one run at a time: each sample arrives once. Index 0
    is the first sample that a run takes.
    """

    __slots__ = ("_native",)

    def __init__(self, native: NativeListener) -> None:
        self._native = native

    def __repr__(self) -> str:
        return f"<Listener at {self.address}>"

    @property
    def address(self) -> str:
        """Where it listens, with the port that was found if none was asked for."""
        return self._native.address

    @property
    def counts(self) -> dict[str, int]:
        """What became of what came, since it was made.

        ``frames`` that came at all; ``samples`` that plans got; ``lost_samples`` that never came, or too late, each
        of them within a gap; ``late_frames``, ``duplicate_frames``, ``reordered_frames``; ``overrun_frames`` that were
        dropped since the plan did not keep up; ``malformed_frames``; ``foreign`` frames of other senders and
        connections that were refused; ``clock_steps``.
        """
        return dict(self._native.counts())

    @property
    def latency(self) -> Latency:
        """From arrival to result, of every item so far."""
        return Latency(*self._native.latency())


def listen(
    address: str,
    *,
    dtype: npt.DTypeLike,
    rate: Any,
    name: str = "",
    unit: str = "",
    framing: str = "isochrony",
    reorder: float = 0.05,
    buffer: int = 32 << 20,
    max_frame: int = 1 << 20,
    step: float = 0.01,
    silence: float | None = None,
    anyone: bool = False,
) -> Listener:
    """Listen to samples that arrive over the network or on standard input.

    What is lost on the way is a gap to the sample and is counted; what is late is put in order within `reorder`. A plan
    that is too slow holds TCP and standard input back; datagrams that find no room are dropped, counted and a gap.
    Times are the sender's where frames have them, else those of arrival, with a robust fit through the quickest frames;
    a clock that is set begins a run. The feed ends when the sender says so, when a stream of raw samples closes, or
    after `silence`.

    Parameters:
        address: ``"udp://HOST:PORT"``, ``"tcp://HOST:PORT"`` (one connection at a time) or ``"-"``, standard input.
            Port 0 is one that is free.
        dtype: of the samples; with byte order, as ``">i2"``, where they come without frames of ours.
        rate: nominal sample rate in Hz, exact as everywhere.
        name: of the stream; default: the address.
        unit: of the values.
        framing: ``"isochrony"``, frames as `Plan.send` makes them, with indices, times and checksums; ``"raw"``,
            samples and nothing else, whose loss on the way cannot be known; or the type of a packet counter with which
            each datagram begins, as ``">u4"``.
        reorder: seconds that a frame that came early waits for those before it.
        buffer: most bytes that wait for the plan.
        max_frame: largest frame in bytes; what is larger is none.
        step: seconds by which a sender's time must be off to mean that its clock was set.
        silence: seconds without anything after which the feed ends; default: never.
        anyone: let other machines reach it. Whoever reaches it can send samples: nothing is authenticated.

    Raises:
        OptionError: one of these is refused, or the address can be reached from elsewhere and `anyone` is not set.
        LiveOSError: the system does not let us listen there.

    >>> import threading, numpy as np, isochrony as iso
    >>> listener = iso.listen("udp://127.0.0.1:0", dtype="f4", rate=1000, silence=5)
    >>> send = iso.scan(np.arange(500, dtype="f4"), rate=1000).send(listener.address)
    >>> threading.Thread(target=send.run).start()
    >>> iso.scan(listener).rewindow(250).map(lambda s: s.mean()).collect()[:, 0]
    array([124.5, 374.5], dtype=float32)
    >>> listener.counts["lost_samples"]
    0
    """
    from ._native import NativeListener

    text = np.dtype(dtype).str
    native = NativeListener(address, text, rate, name, unit, framing, reorder, buffer, max_frame, step, silence, anyone)
    return Listener(native)


class LiveSteps(Chain):
    """Samples sent on."""

    __slots__ = ()

    def send(
        self,
        address: str,
        *,
        speed: float | None = None,
        frame: int | None = None,
        loss: float = 0.0,
        twice: float = 0.0,
        jitter: float = 0.0,
        seed: int = 1,
    ) -> Self:
        """Send samples to whoever listens, and pass them on: ``plan.send("udp://127.0.0.1:9000").run()``.

        Frames say the index and civil time of their first sample, so whoever listens finds gaps and clock steps where
        they were; what a filter removed is a gap there. Their bytes are described in ``crates/live/src/frame.rs``.

        Parameters:
            address: ``"udp://HOST:PORT"``, ``"tcp://HOST:PORT"``, or ``"-"`` for standard output.
            speed: how many times faster than it was recorded; default: as fast as it comes and goes, which datagrams
                may not survive. A paced run can be stopped between items: scan with a `segment` of a fraction of a
                second.
            frame: most samples of a frame; default: what fits a packet of 1400 bytes (UDP) or 16 KiB.
            loss: probability that a frame is dropped, to try out what listens (UDP). So are the next two.
            twice: probability that it is sent twice.
            jitter: longest time in seconds that a frame is held back, so that others overtake.
            seed: where chance begins.

        Raises:
            PlanError: no samples come in. OptionError: a parameter is refused.
        """
        return type(self)(self._native.send(address, speed, frame, loss, twice, jitter, seed))
