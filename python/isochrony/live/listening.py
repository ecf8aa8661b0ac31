"""Feeds that arrive now, as sources of plans, and samples that are sent on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ..errors.native import OptionError
from ..latency import Latency
from ..options import sample_dtype, seconds, whole
from ..steps.chain import Chain

if TYPE_CHECKING:
    from .._native import NativeListener
    from .audio_device import AudioDevice
    from .seedlink import SeedLink

__all__ = ["LateSamples", "Latency", "Listener", "LiveSteps", "listen"]


class LateSamples(NamedTuple):
    """Samples of a feed that came after they were given up."""

    start: int
    """Index of the first, as that of the samples that plans got."""
    time: np.datetime64
    """Its civil time in UTC, to the nanosecond; NaT if it is not known."""
    samples: npt.NDArray[Any]
    """Shape (n,), of the feed's dtype; read-only."""


class Listener:
    """A feed that is listened to; made by `listen`, read by ``iso.scan(listener)``.

    It is bound from the beginning and read while a plan runs, by one run at a time: each sample arrives once. Index 0
    is the first sample that a run takes. A feed of a saved plan is bound when the first run begins.
    """

    __slots__ = ("_address", "_driver", "_native")

    def __init__(self, native: NativeListener, driver: AudioDevice | SeedLink | None = None, address: str = "") -> None:
        self._native = native
        self._driver = driver
        self._address = address

    def __repr__(self) -> str:
        return f"<Listener at {self.address}>"

    @property
    def address(self) -> str:
        """Where it listens, with the port that was found if none was asked for."""
        return self._address or self._native.address

    @property
    def sender_unit(self) -> str | None:
        """The unit that the sender says its values have; None if it has said nothing of its recording."""
        return self._native.sender_unit

    @property
    def counts(self) -> dict[str, int]:
        """Counters of frames and samples since the listener was made.

        ``frames`` that came at all; ``samples`` that plans got; ``lost_samples`` that never came, or too late, each
        of them within a gap; ``late_samples``, those of them that came too late, in ``late_frames`` or a part of one;
        ``duplicate_frames``, ``reordered_frames``; ``overrun_frames`` that were
        dropped since the plan did not keep up; ``malformed_frames``; ``foreign`` frames of other senders and
        connections that were refused; ``clock_steps``; ``truncated_feeds`` that ended before the sender said that all
        was sent. Of an audio device also ``device_overruns``, the times that it
        lost samples by itself; of SeedLink ``reconnects``.
        """
        counts = dict(self._native.counts())
        return counts | self._driver.counts if self._driver is not None else counts

    def take_late(self) -> list[LateSamples]:
        """Take the samples that came too late, since the last call; `keep_late` says how many bytes are kept.

        They may be taken while a plan runs, by another thread, or after it. Without `keep_late` they are only counted.

        Returns:
            `LateSamples` in order of arrival; where there was no room, the latest.

        >>> import isochrony as iso
        >>> iso.listen("udp://127.0.0.1:0", dtype="i2", rate=1000, lateness=1, keep_late=1 << 20).take_late()
        []
        """
        dtype = self._native.dtype
        return [
            LateSamples(start, np.datetime64("NaT" if time is None else time, "ns"), np.frombuffer(samples, dtype))
            for start, time, samples in self._native.take_late()
        ]

    @property
    def latency(self) -> Latency:
        """From arrival to result, of every item so far."""
        return Latency(*self._native.latency())


def listen(
    address: str,
    *,
    dtype: npt.DTypeLike | None = None,
    rate: Any = None,
    name: str = "",
    unit: str = "",
    framing: str = "isochrony",
    reorder: float = 0.05,
    buffer: int = 32 << 20,
    max_frame: int = 1 << 20,
    step: float = 0.01,
    silence: float | None = None,
    lateness: float | None = None,
    keep_late: int = 0,
    anyone: bool = False,
    bind: bool = True,
    clock: Listener | None = None,
    channel: int = 0,
    timeout: float = 60.0,
) -> Listener:
    """Listen to samples that arrive over the network, on standard input, from an audio device or a SeedLink server.

    What is lost on the way is a gap to the sample and is counted; what is late is put in order within `reorder`. A plan
    that is too slow holds TCP and standard input back; datagrams that find no room are dropped, counted and a gap.
    Times are the sender's where frames have them, else those of arrival, with a robust fit through the quickest frames;
    a clock that is set begins a run. The feed ends when the sender says so, when a stream of raw samples closes, or
    after `silence`.

    A frame whose counter or stamp jumps is believed when two more agree with it, so one stray datagram changes nothing;
    what nothing confirms is counted as malformed. Of several who connect over TCP one is listened to at a time; the
    others wait, and nothing of what they sent is lost.

    A feed that falls silent holds up what it meets (`join`, `zip`, `merge`, `align`, `sync`), unless `lateness` says
    for how long: then its clock goes on, and what is overdue is a gap. What `reorder`, `lateness` and `silence` wait
    for, and what they do then, is in ``docs/silence.md``.

    Two feeds meet by civil time, as plans over different signals do (`join`, `align`); where one converter samples
    both, state that with `clock`, and they meet index by index.

    An **audio device** is opened while a plan runs. What it loses by itself is a gap, as long as its own clock says,
    at least one sample; so is what finds no room. Times are those of its samples' conversion, by the robust fit. It
    needs the extra `device` (the package sounddevice) and PortAudio.

    From **SeedLink** (version 3) one channel is received; listen to others beside it. Records are placed by their
    times, to half a sample: gaps are gaps, what comes twice or too late is counted, a station's clock that is set
    begins a run. When the connection is lost it is made again, half a second to half a minute later, and the server is
    asked to go on behind the last record that came. It needs the extra `seismic` (ObsPy). Servers are believed: nothing
    is encrypted.

    Returns:
        A `Listener`, of which `scan` makes a plan.

    Parameters:
        address: ``"udp://HOST:PORT"``, ``"tcp://HOST:PORT"`` (one connection at a time) or ``"-"``, standard input;
            port 0 is one that is free. ``"audio:"``, the default device, or ``"audio:NAME"`` by its number or a part of
            its name. ``"seedlink://HOST:PORT/NET.STA.LOC.CHA"``, where :18000 and an empty location may be left out.
        dtype: of the samples; with byte order, as ``">i2"``, where they come without frames of ours. Default of an
            audio device: float32, full scale 1; of SeedLink: that of the first record, which is waited for.
        rate: nominal sample rate in Hz, exact as everywhere. Default of an audio device: its own; of SeedLink: that of
            the first record.
        name: of the stream; default: the address, the device's name, or the channel's.
        unit: of the values. Senders of ours say the unit and calibration of what they send: a signal that a sink makes
            of the feed's own samples has these, and the sender's attributes. A unit that is stated here counts, and
            leaves out the sender's calibration where the sender says another unit. Plans compute with the samples as
            they come.
        framing: ``"isochrony"``, frames as `Plan.send` makes them, with indices, times and checksums; ``"raw"``,
            samples and nothing else, whose loss on the way cannot be known; or the type of a packet counter with which
            each datagram begins, as ``">u4"``. A device that counts anew begins a run.
        reorder: seconds that a frame that came early waits for those before it.
        buffer: most bytes that wait for the plan.
        max_frame: largest frame in bytes; what is larger is none.
        step: seconds by which a sender's time must be off to mean that its clock was set; of SeedLink no less than
            three quarters of a sample.
        silence: seconds without anything after which the feed ends; default: never.
        lateness: seconds, from `reorder`, that samples may be overdue while nothing comes; then they are given up: what
            comes of them later is not passed on, but counted, and plans go on. Default: they are waited for, for ever.
            Not with ``framing="raw"``.
        keep_late: most bytes of samples that came too late and are kept for `Listener.take_late`; default: none.
        anyone: let other machines reach it. Whoever reaches it can send samples: nothing is authenticated.
        bind: open the address now, so that nothing is missed from here on and its port is known; False: the run that
            reads the feed opens it, in the process that reads it, which is on another host with `Plan.on`. Only of
            udp, tcp and "-".
        clock: another listener whose samples are taken by the same clock, index for index, as the channels of one
            converter; its rate must be the same. Index n of both is then the senders' own sample n, instead of the
            first that a run takes. Neither feed may be read when it is stated. Only of udp, tcp and "-".
        channel: of an audio device, from 0.
        timeout: seconds to wait for SeedLink's first record, where `dtype` or `rate` is left out.

    Raises:
        OptionError: one of these is refused, or the address can be reached from elsewhere and `anyone` is not set;
            there is no such device or channel.
        LiveOSError: the system does not let us listen there.
        BadSourceError: a SeedLink server cannot be reached, or refuses.
        MissingExtraError: what audio devices or SeedLink need is not installed.

    >>> import threading, numpy as np, isochrony as iso
    >>> listener = iso.listen("udp://127.0.0.1:0", dtype="f4", rate=1000, silence=5)
    >>> send = iso.scan(np.arange(500, dtype="f4"), rate=1000).send(listener.address)
    >>> threading.Thread(target=send.run).start()
    >>> iso.scan(listener).rewindow(250).map(lambda s: s.mean()).collect()[:, 0]
    array([124.5, 374.5], dtype=float32)
    >>> listener.counts["lost_samples"]
    0
    """
    from .._native import NativeListener

    scheme = address.partition(":")[0]
    driven = scheme in ("audio", "seedlink")
    foreign: dict[str, tuple[Any, Any]] = {"channel": (channel, 0)} if scheme != "audio" else {}
    foreign |= {"timeout": (timeout, 60.0)} if scheme != "seedlink" else {}
    if clock is not None and not isinstance(clock, Listener):
        raise OptionError(
            f"clock={clock!r} is refused; give what listen() returned for another feed that is sampled by the same "
            "clock"
        )
    if driven:
        foreign |= {"clock": (clock, None)}
        foreign |= {
            "framing": (framing, "isochrony"),
            "max_frame": (max_frame, 1 << 20),
            "anyone": (anyone, False),
            "bind": (bind, True),
        }
    for option, (value, default) in foreign.items():
        if value != default:
            raise OptionError(f"{option}={value!r} has no meaning for {address}; leave out {option}=")
    reorder, step = seconds("reorder=", reorder), seconds("step=", step)
    silence = None if silence is None else seconds("silence=", silence)
    lateness = None if lateness is None else seconds("lateness=", lateness)
    if driven:
        asked = None if dtype is None else sample_dtype(dtype)
        common = (
            name,
            unit,
            reorder,
            buffer,
            step,
            silence,
            lateness,
            whole("listen keep_late=", keep_late, "bytes", 0),
        )
        if scheme == "audio":
            return _audio(address, asked, rate, channel, common)
        return _seedlink(address, asked, rate, timeout, common)
    if dtype is None or rate is None:
        raise OptionError(f"{address} needs dtype= and rate=; state those of the sender, such as dtype='i2', rate=1000")
    text = sample_dtype(dtype).str
    other = None if clock is None else clock._native
    late = whole("listen keep_late=", keep_late, "bytes", 0)
    times = (step, silence, lateness, late)
    native = NativeListener(
        address, text, rate, name, unit, framing, reorder, buffer, max_frame, *times, anyone, other, bind
    )
    return Listener(native)


# Name, unit, reorder, buffer, step, silence, lateness, keep_late.
_Common = tuple[str, str, float, int, float, float | None, float | None, int]


def _audio(address: str, dtype: np.dtype[Any] | None, rate: Any, channel: int, common: _Common) -> Listener:
    from .audio_device import AudioDevice

    device = AudioDevice(
        address.removeprefix("audio:").removeprefix("//"), whole("channel=", channel, "", 0), dtype, rate
    )
    more = {"channel": channel}
    return _driven(device, address, device.dtype, device.rate, device.name, common, more)


def _seedlink(address: str, dtype: np.dtype[Any] | None, rate: Any, timeout: float, common: _Common) -> Listener:
    from .seedlink import Channel, SeedLink, first_record

    asked = Channel.parse(address)
    after = None
    if dtype is None or rate is None:
        found, hz, after = first_record(asked, timeout)
        dtype, rate = found if dtype is None else dtype, hz if rate is None else rate
    name, unit, reorder, buffer, step, silence, lateness, late = common
    driver = SeedLink(asked, dtype, float(rate), reorder, after)
    # A gap is a whole number of samples on the index axis: by so much stamps may be off behind it.
    common = (name, unit, reorder, buffer, max(step, 0.75 / float(rate)), silence, lateness, late)
    return _driven(driver, str(asked), dtype, rate, asked.name, common, {})


def _driven(
    driver: AudioDevice | SeedLink,
    address: str,
    dtype: np.dtype[Any],
    rate: Any,
    default_name: str,
    common: _Common,
    more: dict[str, Any],
) -> Listener:
    from .._native import NativeListener

    name, unit, reorder, buffer, step, silence, lateness, keep_late = common
    options = {"dtype": dtype.name, "rate": str(rate), "name": name, "unit": unit, "reorder": reorder}
    options |= {"buffer": buffer, "step": step, "silence": silence, "lateness": lateness, "keep_late": keep_late} | more
    saved = json.dumps({"listen": address, "driven": options})
    arguments = (dtype.str, rate, name or default_name, unit, reorder, buffer, step, silence, lateness, keep_late)
    return Listener(NativeListener.driven(driver, saved, *arguments), driver, address)


def _from_saved(saved: str) -> NativeListener:
    """The feed that a saved plan names."""
    plan = json.loads(saved)
    address, options = plan["listen"], plan["driven"]
    for option in ("dtype", "rate"):
        if not isinstance(options.get(option), str):
            # Else a server or a device that somebody else's plan names would be asked for it now.
            raise OptionError(
                f"{address} in the saved plan has no {option}; build the plan again with listen({address!r}, "
                f"{option}=...) and save that"
            )
    return listen(address, **options)._native


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
        """Send samples over the network, and pass them on: ``plan.send("udp://127.0.0.1:9000").run()``.

        Frames say the index and civil time of their first sample, so whoever listens finds gaps and clock steps where
        they were; what a filter removed is a gap there. Unit and calibration are sent, too, and of a signal's own
        samples its attributes and the gaps at its ends. Their bytes are described in ``crates/live/src/frame.rs``.

        Returns:
            The same samples, shape (n,), unchanged. No edges, no delay.

        Parameters:
            address: ``"udp://HOST:PORT"``, ``"tcp://HOST:PORT"``, or ``"-"`` for standard output.
            speed: how many times faster than it was recorded; default: as fast as it comes and goes, which datagrams
                may not survive. A paced run can be stopped between items: scan with a `segment` of a fraction of a
                second.
            frame: most samples of a frame; default: what fits a packet of 1400 bytes (UDP) or 16 KiB.
            loss: probability that a frame is dropped, to test a listener (UDP only).
            twice: probability that a frame is sent twice, to test a listener (UDP only).
            jitter: longest time in seconds that a frame is held back, 0 to 60, so that others overtake it, to test a
                listener (UDP only).
            seed: of the random faults.

        Raises:
            PlanError: no samples come in. OptionError: a parameter is refused.

        >>> import numpy as np, isochrony as iso
        >>> print(iso.scan(np.zeros(8), rate=100).send("udp://127.0.0.1:9"))
        scan(array) -> send(udp://127.0.0.1:9)
        """
        return type(self)(self._native.send(address, speed, frame, loss, twice, jitter, seed))
