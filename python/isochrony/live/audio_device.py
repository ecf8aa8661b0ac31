"""A channel of a sound card as a feed, by way of PortAudio (package ``sounddevice``)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MissingExtraError
from ..errors.native import OptionError
from ..extras import require

if TYPE_CHECKING:
    from .._native import NativePusher

__all__ = ["AudioDevice"]

_DTYPES = ("f4", "i4", "i2", "i1", "u1")


def _sounddevice() -> Any:
    try:
        return require("sounddevice", "listening to an audio device")
    except OSError as error:
        # The package is there, the library that it calls is not.
        raise MissingExtraError(
            f"listening to an audio device needs PortAudio ({error}); install it, as with: apt install libportaudio2",
            name="sounddevice",
        ) from error


class AudioDevice:
    """A channel of an input device, which is open while a run reads it.

    Parameters:
        device: number, or part of a name; empty: the system's default.
        channel: from 0.
        dtype: of the samples; None: float32, full scale is 1.
        rate: in Hz; None: the device's own.

    Raises:
        MissingExtraError: the package or PortAudio is not there.
        OptionError: there is no such device, or it has no such channel, dtype or rate.
    """

    def __init__(self, device: str, channel: int, dtype: np.dtype[Any] | None, rate: Any) -> None:
        self._sounddevice = _sounddevice()
        self._device: int | str | None = int(device) if device.isdecimal() else device or None
        self._channel = channel
        self.dtype = np.dtype("f4") if dtype is None else dtype
        if self.dtype.str[1:] not in _DTYPES or not self.dtype.isnative:
            raise OptionError(
                f"dtype={self.dtype.name} is refused; give one that audio devices have: float32, int32, int16, int8, "
                "uint8"
            )
        try:
            known = self._sounddevice.query_devices(self._device, "input")
        except (ValueError, self._sounddevice.PortAudioError) as error:
            raise OptionError(
                f"there is no audio device {device or '(default)'} to listen to: {error}{self._others()}"
            ) from None
        if not 0 <= channel < known["max_input_channels"]:
            most = known["max_input_channels"] - 1
            raise OptionError(
                f"channel={channel} is refused; {known['name']} has channels from 0 to {most}: give one of these"
            )
        self.name = str(known["name"])
        self.rate = known["default_samplerate"] if rate is None else rate
        if float(self.rate) != round(float(self.rate)):
            raise OptionError(f"rate={self.rate} is refused; give a whole number of Hz, as audio devices have")
        try:
            self._sounddevice.check_input_settings(
                device=self._device, channels=channel + 1, dtype=self.dtype.name, samplerate=float(self.rate)
            )
        except (ValueError, self._sounddevice.PortAudioError) as error:
            raise OptionError(
                f"audio device {self.name} cannot record {self.dtype.name} at {self.rate} Hz: {error}; give another "
                "dtype= or rate="
            ) from None
        self.counts = {"device_overruns": 0}
        self._stream: Any = None

    def _others(self) -> str:
        try:
            names = [str(one["name"]) for one in self._sounddevice.query_devices() if one["max_input_channels"] > 0]
        except (ValueError, self._sounddevice.PortAudioError):
            names = []
        return f"; there are {', '.join(names)}" if names else "; there is none at all: connect one"

    def begin(self, pusher: NativePusher) -> None:
        """Open the device; from then on its own thread hands samples on."""
        rate = float(self.rate)
        first = 0
        expected: float | None = None

        def take(block: Any, frames: int, when: Any, status: Any) -> None:
            nonlocal first, expected
            begun = when.inputBufferAdcTime
            now = time.time_ns()
            if status.input_overflow:
                # PortAudio says that samples were lost before this block, not how many: its own clock does.
                self.counts["device_overruns"] += 1
                lost = 1 if expected is None or not begun else round((begun - expected) * rate)
                first += max(1, lost)
            # Some systems do not say when a block was taken; then it is as old as it is long.
            age = when.currentTime - begun if begun and when.currentTime >= begun else frames / rate
            pusher.push(block[:, self._channel].copy(), first, taken=now - round(age * 1e9), wait=False)
            first += frames
            expected = begun + frames / rate if begun else None

        stream = self._sounddevice.InputStream(
            device=self._device,
            channels=self._channel + 1,
            samplerate=rate,
            dtype=self.dtype.name,
            callback=take,
            finished_callback=pusher.end,
        )
        try:
            stream.start()
        except BaseException:
            stream.close()
            raise
        self._stream = stream

    def stop(self) -> None:
        """Close the device."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.stop()
            stream.close()
