"""Feeds that arrive now, as sources of plans, and samples that are sent on."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ..errors import with_code
from ..errors.native import OptionError
from ..latency import Latency
from ..options import byte_count, duration, flag, sample_dtype, text, whole
from ..steps.chain import Chain

if TYPE_CHECKING:
    from .._native import NativeListener
    from ..plan.plan import Plan
    from .audio_device import AudioDevice
    from .seedlink import SeedLink

__all__ = ["LateSamples", "Latency", "Listener", "LiveSteps", "listen"]


class LateSamples(NamedTuple):
    """Samples of a feed that arrived more than `lateness` after they were due, so that plans have a gap in their place.

    Attributes:
        start: index of the first sample, counted as in plans that read the feed.
        time: civil time of the first sample in UTC, as datetime64[ns]; NaT if it is not known.
        samples: the samples, shape (n,), of the feed's dtype; read-only.

    >>> import numpy as np
    >>> from isochrony.live.listening import LateSamples
    >>> late = LateSamples(start=500, time=np.datetime64("2026-03-01T10:20", "ns"), samples=np.zeros(20, "i2"))
    >>> late.start + len(late.samples)
    520
    """

    start: int
    time: np.datetime64
    samples: npt.NDArray[Any]


class Listener:
    """A live feed; made by `listen`. ``iso.scan(listener)`` makes a plan of it.

    Its address is open from the start. One run at a time reads it, and each sample is read once; index 0 is the first
    sample that a run reads. The address of a feed in a saved plan is opened when its first run begins.

    >>> import isochrony as iso
    >>> listener = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=1000, silence=0.1)
    >>> iso.scan(listener).rewindow(250).count().collect(), listener.counts["samples"]
    (0, 0)
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
        """The address where it listens, with the actual port if 0 was requested.

        >>> import isochrony as iso
        >>> listener = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=1000, silence=0.1)
        >>> listener.address  # doctest: +ELLIPSIS
        'udp://127.0.0.1:...'
        """
        return self._address or self._native.address

    @property
    def sender_unit(self) -> str | None:
        """Unit of the values as the sender states it; None if the sender has not stated any.

        >>> import isochrony as iso
        >>> listener = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=1000, silence=0.1)
        >>> listener.sender_unit is None
        True
        """
        return self._native.sender_unit

    @property
    def counts(self) -> dict[str, int]:
        """Counters since the listener was made, a dict.

        ``frames``: received. ``samples``: passed to plans. ``lost_samples``: never received, or too late; each is in a
        gap. ``late_samples``: those of them that were too late, and those that came before the first passed on but
        arrived after it, which are not lost; each once, however often it is sent. ``late_frames``: frames with such
        samples; ``dropped_late_samples``: those of them for which `keep_late` had no room, also those that earlier
        runs left. ``duplicate_frames``; ``reordered_frames``. ``overrun_frames``: dropped because the plan was too
        slow. ``malformed_frames``. ``foreign``: frames of other senders, and refused connections. ``clock_steps``.
        ``truncated_feeds``: ended before the sender announced the end. For an audio device also ``device_overruns``:
        how often the device itself lost samples. For SeedLink also ``reconnects``.

        >>> import isochrony as iso
        >>> listener = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=1000, silence=0.1)
        >>> listener.counts["samples"], listener.counts["lost_samples"]
        (0, 0)
        """
        counts = dict(self._native.counts())
        return counts | self._driver.counts if self._driver is not None else counts

    def take_late(self) -> list[LateSamples]:
        """Take the samples that arrived too late since the last call.

        Call it during a run, from another thread, or after the run. Without `keep_late` late samples are only counted.

        Returns:
            A list of `LateSamples`, in order of arrival. Edges: if they exceeded `keep_late` bytes, the latest ones.

        >>> import isochrony as iso
        >>> iso.listen("udp://127.0.0.1:0", dtype="i2", rate=1000, lateness=1, keep_late=1 << 20).take_late()
        []
        """
        dtype = self._native.dtype
        return [
            LateSamples(start, np.datetime64("NaT" if time is None else time, "ns"), np.frombuffer(samples, dtype))
            for start, time, samples in self._native.take_late()
        ]

    def late(self) -> Plan:
        """Make a plan of the samples that arrive too late: a side output of the run that reads the feed.

        Run it together with a plan of the feed: ``iso.run(plan, listener.late().each(alarm))``. A row is passed on when
        its sample comes, and the plan ends with the feed. Rows that wait for the plan take at most `keep_late` bytes;
        the oldest make room and are counted (``dropped_late_samples``), and the feed never waits. The same recorded
        arrivals give the same rows. A sample is given once: to this plan, or by `take_late`. If this plan ends before
        the feed, `take_late` gives what it had not read; rows on their way to its operators are dropped.

        Returns:
            Rows, one per sample, in order of arrival: ``start``, ``end`` and ``time`` state where the feed was when the
            sample came (everything before index ``start`` had been passed on or given up); ``index``, ``sample_time``
            and ``value`` are those of the sample, as it arrived. So rows ascend, and `join` and `group_by` with `every`
            pass on what meets them without waiting for more. Times that are not known are null. Edges: none.

        Raises:
            OptionError: the listener keeps no late samples (`keep_late`).
            RunError: when the plan runs, that no run in the same process reads the feed.

        >>> import isochrony as iso
        >>> listener = iso.listen(
        ...     "udp://127.0.0.1:0", dtype="i2", rate=1000, silence=0.1, lateness=0.1, keep_late=1 << 20
        ... )
        >>> samples, late = iso.scan(listener), listener.late()
        >>> iso.collect(samples.count(), late.filter(lambda r: r.start - r.index > 500).count())
        (0, 0)
        """
        from ..plan.plan import Plan

        return Plan(self._native.late())

    @property
    def latency(self) -> Latency:
        """Time from arrival to result, over all items so far: a `Latency`, in seconds. Of a run in stages, until the
        first stage has processed them; its `report.latency` has the time until the last one has.

        >>> import isochrony as iso
        >>> listener = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=1000, silence=0.1)
        >>> listener.latency.items
        0
        """
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
    buffer: int | str = 32 << 20,
    max_frame: int | str = 1 << 20,
    step: float = 0.01,
    silence: float | None = None,
    lateness: float | None = None,
    keep_late: int | str = 0,
    anyone: bool = False,
    bind: bool = True,
    clock: Listener | None = None,
    channel: int = 0,
    timeout: float = 60.0,
) -> Listener:
    """Receive live samples from the network, standard input, an audio device or a SeedLink server.

    Lost samples are a gap of exactly their number, and are counted. Frames out of order are sorted within `reorder`. A
    plan that is too slow makes TCP senders and standard input wait; datagrams that exceed `buffer` are dropped,
    counted, and become a gap. Times are those in the frames; without them, times of arrival, with a robust fit through
    the frames with the least delay. A clock step begins a run. The feed ends when the sender announces the end, when a
    stream of raw samples closes, or after `silence`.

    A jump of a frame's counter or time stamp is accepted when two more frames agree with it, so that a stray datagram
    changes nothing; other jumps are counted as malformed frames. Of several TCP senders one is served at a time; the
    others wait, and their data is not lost.

    A silent feed holds up the plans that it is combined with (`join`, `zip`, `merge`, `align`, `sync`), unless
    `lateness` states for how long: then its time moves on, and overdue samples become a gap. ``docs/silence.md`` has
    the details of `reorder`, `lateness` and `silence`.

    Two feeds are combined by civil time, like different signals (`join`, `align`); if one converter samples both, say
    so with `clock`, and they are combined index by index.

    An **audio device** is opened while a plan runs. Samples that it loses become a gap, of the length that its own
    clock shows and of at least one sample; so do samples that exceed `buffer`. Times are those of conversion, with the
    robust fit. It needs the extra `device` (the package sounddevice) and PortAudio.

    From **SeedLink** (version 3) one channel is received; use a listener for each channel. Records are placed by their
    times, to half a sample: gaps stay gaps, duplicate and late records are counted, a clock step of the station begins
    a run. A lost connection is made again after half a second to half a minute, and continues after the last record
    received. It needs the extra `seismic` (ObsPy). The connection is neither encrypted nor authenticated.

    Returns:
        A `Listener`, to pass to `isochrony.scan`.

    Parameters:
        address: ``"udp://HOST:PORT"``; ``"tcp://HOST:PORT"``, one connection at a time; ``"-"``, standard input. Port 0
            selects a free port. ``"audio:"`` is the default audio device, ``"audio:NAME"`` one by its number or a part
            of its name. ``"seedlink://HOST:PORT/NET.STA.LOC.CHA"``; the port defaults to 18000, and the location may be
            empty.
        dtype: dtype of the samples, with byte order for raw samples, such as ``">i2"``. Default for an audio device:
            float32, full scale 1; for SeedLink: that of the first record, for which it waits.
        rate: nominal sample rate in Hz, a number or an exact ratio as for `Store.create`. Default for an audio device:
            its own; for SeedLink: that of the first record.
        name: name of the stream; default: the address, or the name of the device or channel.
        unit: unit of the values. Isochrony senders state the unit and calibration of their samples; a sink that stores
            the samples of the feed takes these, with the sender's attributes. A unit stated here takes precedence, and
            drops the sender's calibration if the sender states another unit. Plans compute with the samples as they
            arrive.
        framing: ``"isochrony"``: frames of `Plan.send`, with indices, times and checksums. ``"raw"``: samples only;
            losses cannot be detected. Or the dtype of a packet counter at the start of each datagram, such as
            ``">u4"``; a counter that starts again begins a run.
        reorder: seconds that a frame out of order waits for earlier ones, 0 or more.
        buffer: largest number of bytes that wait for the plan, or text such as "64MB".
        max_frame: largest legal frame in bytes, 64 to 2^28, or text such as "1MB"; a larger one is malformed.
        step: deviation of the sender's time stamp from the expected time, in seconds, from which it counts as a clock
            step, 0 or more; for SeedLink at least three quarters of a sample.
        silence: seconds without data after which the feed ends, 0 or more; None: never.
        lateness: seconds, at least `reorder`, that samples may be overdue while nothing arrives. Samples that arrive
            later are not passed on, but counted, and plans continue. None: wait for ever. Not with ``framing="raw"``.
        keep_late: largest number of bytes of late samples to keep for `Listener.late` and `Listener.take_late`,
            about 100 bytes for each frame included, or text such as "1MB"; 0: none.
        anyone: accept data from other machines. Anyone who reaches the address can send samples: there is no
            authentication.
        bind: open the address now, so that no sample is missed from here on and the port is known. False: the run that
            reads the feed opens it, on another host with `Plan.on`. Only for udp, tcp and "-".
        clock: another listener of the same rate whose samples have the same clock, index for index, such as channels of
            one converter. Index n of both feeds is then sample n of the senders, not of the run. Set it before either
            feed is read. Only for udp, tcp and "-".
        channel: channel of the audio device, from 0.
        timeout: seconds to wait for the first SeedLink record if `dtype` or `rate` is not stated.

    Raises:
        OptionError: a parameter out of range; an address that other machines can reach, without `anyone`; no such
            host, device or channel.
        LiveOSError: the system refuses to open the address.
        BadSourceError: the SeedLink server cannot be reached, or refuses the request.
        MissingExtraError: a package for audio devices or SeedLink is not installed.

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

    scheme = _scheme(address)
    name, unit = text("listen name=", name, ""), text("listen unit=", unit, "")
    framing = text("listen framing=", framing, "")
    buffer, max_frame = byte_count("buffer", buffer), byte_count("max_frame", max_frame)
    late = byte_count("keep_late", keep_late, 0)
    anyone, bind = flag("anyone", anyone), flag("bind", bind)
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
    reorder, step = duration("reorder=", reorder), duration("step=", step)
    silence = None if silence is None else duration("silence=", silence)
    lateness = None if lateness is None else duration("lateness=", lateness)
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
            late,
        )
        if scheme == "audio":
            return _audio(address, asked, rate, channel, common)
        return _seedlink(address, asked, rate, timeout, common)
    if dtype is None or rate is None:
        raise OptionError(f"{address} needs dtype= and rate=; state those of the sender, such as dtype='i2', rate=1000")
    spelled = sample_dtype(dtype).str
    other = None if clock is None else clock._native
    times = (step, silence, lateness, late)
    native = NativeListener(
        address, spelled, rate, name, unit, framing, reorder, buffer, max_frame, *times, anyone, other, bind
    )
    return Listener(native)


def _scheme(address: object) -> str:
    """The scheme of a feed's address; an error before any of missing options."""
    if not isinstance(address, str):
        raise OptionError(f"listen({address!r}) is refused; {_ADDRESSES}")
    scheme, _, rest = address.partition(":")
    why = ""
    if address != "-" and scheme not in _SCHEMES:
        # A host, with or without a port.
        has_scheme = rest and not rest.isdecimal() and re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme, re.IGNORECASE)
        why = f"unknown scheme {scheme!r}" if has_scheme else "it has no scheme"
    elif scheme in ("udp", "tcp") and not re.fullmatch(r"\w+://.+:[0-9]+", address):
        why = "it has no host and port"
    if why:
        raise with_code(OptionError(f"{address!r} is not a feed address: {why}; {_ADDRESSES}"), "live_address")
    return scheme


_SCHEMES = ("udp", "tcp", "audio", "seedlink")
_ADDRESSES = (
    'give udp://HOST:PORT, tcp://HOST:PORT, "-" (standard input), audio: (the default device), audio:NAME, or '
    "seedlink://HOST:PORT/NET.STA.LOC.CHA"
)

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
    """Part of `isochrony.Plan`: sends samples over the network."""

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

        A frame states the index and the civil time of its first sample, so the receiver has gaps and clock steps at the
        same places; samples that a filter removed are a gap there. Unit and calibration are sent too, and for the
        samples of a stored signal its attributes and the gaps at its ends. ``crates/live/src/frame.rs`` specifies the
        bytes.

        Returns:
            The same samples, shape (n,), unchanged. No edges, no delay.

        Parameters:
            address: ``"udp://HOST:PORT"``, ``"tcp://HOST:PORT"``, or ``"-"`` for standard output.
            speed: speed relative to the recording, above 0, such as 2 for twice as fast; None: as fast as possible,
                which may lose datagrams. A paced run can be stopped between items: scan with a `segment` of a fraction
                of a second.
            frame: largest number of samples per frame; None: as many as fit into a packet of 1400 bytes (UDP) or into
                16 KiB.
            loss: probability that a frame is dropped, 0 to 1, to test a receiver (UDP only).
            twice: probability that a frame is sent twice, 0 to 1, to test a receiver (UDP only).
            jitter: longest random delay of a frame in seconds, 0 to 60, so that frames overtake one another, to test a
                receiver (UDP only).
            seed: seed of these random faults.

        Raises:
            PlanError: the input is not samples.
            OptionError: a parameter out of range.

        >>> import numpy as np, isochrony as iso
        >>> print(iso.scan(np.zeros(8), rate=100).send("udp://127.0.0.1:9"))
        scan(array) -> send(udp://127.0.0.1:9)
        """
        return type(self)(self._native.send(address, speed, frame, loss, twice, duration("jitter=", jitter), seed))
