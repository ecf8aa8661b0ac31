"""SeedLink (version 3): one channel of a seismological server as a feed.

A record says when its first sample was taken, to the microsecond and of a clock that is believed. So a record is
placed by its time against the end of those before: what is off by less than half a sample follows on, what is missing
is a gap, what came before is counted as duplicate or late. When the connection is lost it is made again, and the
server is asked to continue behind the last sequence number that came.
"""

from __future__ import annotations

import io
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import BadSourceError
from ..errors.native import RunError
from ..extras import require
from .failures import Failures, failures_of_this_run, may_fail
from .seedlink_channel import Channel
from .seedlink_connection import BrokenError, Connection

if TYPE_CHECKING:
    from .._native import NativePusher

__all__ = ["Channel", "SeedLink", "first_record"]

# A thread that does not end within so many seconds looks up a name, which nothing can break off; it ends after that.
_HANGS_UP = 0.75
# Times in ns since 1970 that the engine knows.
_FIRST_NS, _LAST_NS = -(1 << 63), (1 << 63) - 1
# Seconds between attempts, at first and at most.
_AGAIN, _SELDOM = 0.5, 30.0
# Records behind one another, all new and all further back than any that are late: the station's clock was set back.
_SET_BACK = 8
# Where counting begins, so that there is room before.
_ORIGIN = 1 << 40
# Beyond so many seconds what is missing is no gap but a clock that was set.
_LONGEST_GAP = 30 * 86_400


class _Record(NamedTuple):
    start_ns: int
    rate: float
    samples: npt.NDArray[Any]


def _decode(record: bytes, channel: Channel) -> _Record | None:
    """A record's samples, if it is one of the channel."""
    obspy = require("obspy", "listening to SeedLink")
    try:
        (trace,) = obspy.read(io.BytesIO(record), format="MSEED")
    except Exception:
        # Of what is no record ObsPy says so in many ways.
        return None
    if trace.id != channel.name or not len(trace.data) or not trace.stats.sampling_rate > 0:
        return None
    if not _FIRST_NS <= trace.stats.starttime.ns <= _LAST_NS:
        return None
    return _Record(trace.stats.starttime.ns, float(trace.stats.sampling_rate), np.asarray(trace.data))


class _Places:
    """Where records belong on an index axis, by their times."""

    def __init__(self, rate: float, reorder: float) -> None:
        self._rate = rate
        self._late = reorder + 1.0
        self.session = 0
        self._end = 0
        self._end_ns: int | None = None
        self._back = (0, 0)

    def place(self, start_ns: int, count: int, *, new: bool) -> int:
        """Index of a record's first sample; `new`: it did not come before, by its sequence number."""
        off = 0.0 if self._end_ns is None else (start_ns - self._end_ns) * self._rate / 1e9
        if (
            self._end_ns is None
            or abs(off) > _LONGEST_GAP * self._rate
            or (new and self._set_back(start_ns, count, off))
        ):
            if self._end_ns is not None:
                self.session += 1
            first = _ORIGIN
            self._end = 0
        else:
            first = self._end + round(off)
        if first + count > self._end:
            self._end = first + count
            self._end_ns = start_ns + self._lasts(count)
        return max(first, 0)

    def _lasts(self, count: int) -> int:
        return round(count * 1e9 / self._rate)

    def _set_back(self, start_ns: int, count: int, off: float) -> bool:
        if (off + count) / self._rate > -self._late:
            return False
        follows, many = self._back
        many = many + 1 if abs(start_ns - follows) * self._rate < 0.5e9 else 1
        self._back = (start_ns + self._lasts(count), many % _SET_BACK)
        return many == _SET_BACK


class SeedLink:
    """A channel that a thread receives while a run reads it.

    Parameters:
        channel: what is received.
        dtype: of the samples that are handed on.
        rate: of the records, in Hz.
        reorder: seconds that the engine waits for what is late.
        after: sequence number behind which the first connection begins; None: what comes from now on.
    """

    def __init__(
        self, channel: Channel, dtype: np.dtype[Any], rate: float, reorder: float, after: int | None = None
    ) -> None:
        require("obspy", "listening to SeedLink")
        self._channel, self._dtype, self._rate, self._reorder = channel, dtype, rate, reorder
        self._after = after
        # Of one run: a thread that has not ended yet must not continue when the next run begins.
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.counts = {"reconnects": 0}
        may_fail(self)

    def begin(self, pusher: NativePusher) -> None:
        """Connect, and receive in a thread until `stop`."""
        stop = self._stop = threading.Event()
        try:
            connection = Connection(self._channel, self._after, stop)
        except BrokenError as error:
            raise BadSourceError(
                f"{self._channel} {error}; check the host and port, that a SeedLink server runs there, and "
                "that it has this channel"
            ) from error
        arguments = (connection, pusher, stop, failures_of_this_run())
        self._thread = threading.Thread(target=self._serve, args=arguments, name="isochrony-seedlink", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Hang up."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_HANGS_UP)
            self._thread = None

    def _serve(self, connection: Connection, pusher: NativePusher, stop: threading.Event, failures: Failures) -> None:
        try:
            self._receive(connection, pusher, stop)
        except Exception as error:
            # Else the run would wait for ever for what nobody receives.
            what = f"{self._channel} is not received any more: {type(error).__name__}: {error}; please report it"
            failed = RunError(what)
            failed.__cause__ = error
            failures.add(failed)

    def _receive(self, connection: Connection | None, pusher: NativePusher, stop: threading.Event) -> None:
        places = _Places(self._rate, self._reorder)
        again = _AGAIN
        try:
            while not stop.is_set():
                try:
                    if connection is None:
                        connection = Connection(self._channel, self._after, stop)
                        self.counts["reconnects"] += 1
                    packet = connection.packet()
                    if packet is not None:
                        self._take(*packet, places, pusher)
                        again = _AGAIN
                except BrokenError as error:
                    if "where a packet should begin" in str(error):
                        pusher.malformed()
                    if connection is not None:
                        connection.close()
                    connection = None
                    stop.wait(again)
                    again = min(2 * again, _SELDOM)
        finally:
            if connection is not None:
                connection.close()

    def _take(self, sequence: int, record: bytes, places: _Places, pusher: NativePusher) -> None:
        new = self._after is None or 0 < (sequence - self._after) & 0xFFFFFF < 1 << 23
        decoded = _decode(record, self._channel)
        if decoded is None or not self._is_ours(decoded):
            # No sequence number is believed that comes with what is no record.
            pusher.malformed()
            return
        if new:
            self._after = sequence
        samples = np.ascontiguousarray(decoded.samples, self._dtype)
        first = places.place(decoded.start_ns, len(samples), new=new)
        pusher.push(samples, first, time=decoded.start_ns, session=places.session)

    def _is_ours(self, record: _Record) -> bool:
        near = abs(record.rate - self._rate) <= 1e-4 * self._rate
        return near and np.can_cast(record.samples.dtype, self._dtype)


def first_record(channel: Channel, timeout: float) -> tuple[np.dtype[Any], float, int]:
    """What a channel sends: dtype and rate of the first record that comes, and the sequence number before it."""
    require("obspy", "listening to SeedLink")
    try:
        connection = Connection(channel, None, threading.Event())
    except BrokenError as error:
        raise BadSourceError(
            f"{channel} {error}; check the host and port, that a SeedLink server runs there, and "
            "that it has this channel"
        ) from error
    until = time.monotonic() + timeout
    try:
        while time.monotonic() < until:
            packet = connection.packet()
            decoded = None if packet is None else _decode(packet[1], channel)
            if packet is not None and decoded is not None:
                return decoded.samples.dtype.newbyteorder("="), decoded.rate, (packet[0] - 1) & 0xFFFFFF
    except BrokenError as error:
        raise BadSourceError(
            f"{channel} {error}; check the connection and the channel's name, then try again"
        ) from error
    finally:
        connection.close()
    raise BadSourceError(
        f"{channel} sent no record within {timeout:g} s, so its dtype and rate are not known; state dtype= and rate="
    )
