"""What functions of tasklets write to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._native import Selection
from ..errors.native import OptionError, StoreValueError
from ..store.samples import as_samples

__all__ = ["Output"]


class Output:
    """The output of a tasklet, which its function fills: ``output[:] = samples``, or parts of it in any order.

    Samples of another dtype are converted if that loses nothing, as in `Signal.append`. They become visible together,
    with all outputs of the tasklet, when the function has returned. An output that the function does not fill
    completely is an error.

    >>> import isochrony as iso, tempfile
    >>> with iso.open(tempfile.mkdtemp() + "/ramp.iso", "x") as store:
    ...     ramp = store.create("ramp", dtype="f4", rate=10)
    ...     _ = ramp.reserve(6)
    ...     def fill(inputs: list, outputs: list[iso.Output]) -> None:
    ...         outputs[0][3:] = 9
    ...         outputs[0][:3] = [0, 1, 2]
    ...     executor = iso.Executor()
    ...     executor.add(iso.Tasklet(fill, outputs=[ramp[:]]))
    ...     _ = executor.run()
    ...     ramp.counts[:]
    array([0., 1., 2., 9., 9., 9.], dtype=float32)
    """

    __slots__ = ("_length", "_memory", "_pieces", "_room", "_selection")

    def __init__(self, selection: Selection, room: Any) -> None:
        self._selection = selection
        self._room = room
        self._length = len(selection)
        self._pieces: list[tuple[int, int]] = []
        self._memory: npt.NDArray[Any] | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the samples.

        >>> import isochrony as iso, tempfile
        >>> with iso.open(tempfile.mkdtemp() + "/ramp.iso", "x") as store:
        ...     ramp = store.create("ramp", dtype="f4", rate=10)
        ...     _ = ramp.reserve(6)
        ...     def fill(inputs: list, outputs: list[iso.Output]) -> None:
        ...         outputs[0][:] = [0] * 6
        ...         print(outputs[0].dtype)
        ...     executor = iso.Executor()
        ...     executor.add(iso.Tasklet(fill, outputs=[ramp[:]]))
        ...     _ = executor.run()
        float32
        """
        return self._selection.signal.dtype

    @property
    def name(self) -> str:
        """Name of the signal.

        >>> import isochrony as iso, tempfile
        >>> with iso.open(tempfile.mkdtemp() + "/ramp.iso", "x") as store:
        ...     ramp = store.create("ramp", dtype="f4", rate=10)
        ...     _ = ramp.reserve(6)
        ...     def fill(inputs: list, outputs: list[iso.Output]) -> None:
        ...         outputs[0][:] = [0] * 6
        ...         print(outputs[0].name)
        ...     executor = iso.Executor()
        ...     executor.add(iso.Tasklet(fill, outputs=[ramp[:]]))
        ...     _ = executor.run()
        ramp
        """
        return self._selection.name

    def __len__(self) -> int:
        return self._length

    @property
    def array(self) -> npt.NDArray[Any]:
        """The whole output as an array to fill in place, such as by ``out=``: shape (n,), of the signal's dtype.

        Reading it counts as filling all of it; samples that were not written before are 0.

        An array may be assigned instead: ``outputs[0].array = np.fft.rfft(samples)``. It becomes the output, without a
        copy if nothing else refers to it when the function has returned. Its content is not changed: later writes go to
        a copy, which `array` then is.

        >>> import isochrony as iso, numpy as np, tempfile
        >>> with iso.open(tempfile.mkdtemp() + "/ramp.iso", "x") as store:
        ...     ramp = store.create("ramp", dtype="f4", rate=10)
        ...     _ = ramp.reserve(4)
        ...     def fill(inputs: list, outputs: list[iso.Output]) -> None:
        ...         np.add([0, 1, 2, 3], 7, out=outputs[0].array)
        ...     executor = iso.Executor()
        ...     executor.add(iso.Tasklet(fill, outputs=[ramp[:]]))
        ...     _ = executor.run()
        ...     ramp.counts[:]
        array([ 7.,  8.,  9., 10.], dtype=float32)
        """
        if self._memory is None:
            self._memory = self._room.array(True)
        else:
            at = 0
            for start, stop in [*self._joined(), (self._length, self._length)]:
                self._memory[at:start] = 0
                at = stop
        self._pieces = [(0, self._length)]
        return self._memory

    @array.setter
    def array(self, samples: npt.ArrayLike) -> None:
        values = self._fitting(samples, 0, self._length)
        # As in `output.array *= 2`, where it is ours already.
        if values is not self._memory:
            self._room.give(values)
            self._memory = None
        self._pieces = [(0, self._length)]

    def __setitem__(self, key: Any, samples: npt.ArrayLike) -> None:
        if not isinstance(key, slice) or key.step not in (None, 1):
            raise OptionError(f"output[{key!r}] = ... is refused; give a slice without a step, such as output[:1000]")
        start, stop, _ = key.indices(self._length)
        stop = max(start, stop)
        values = np.asarray(samples)
        if values.ndim == 0:
            self._buffer()[start:stop] = as_samples([samples], self.dtype.name, self.name)
        else:
            self._buffer()[start:stop] = self._fitting(samples, start, stop)
        self._pieces.append((start, stop))

    def _fitting(self, samples: npt.ArrayLike, start: int, stop: int) -> npt.NDArray[Any]:
        values = as_samples(samples, self.dtype.name, self.name)
        if len(values) != stop - start:
            raise StoreValueError(
                f"output[{start}:{stop}] of {self.name!r} takes {stop - start} samples, got {len(values)}; "
                f"give {stop - start} samples, or write to another slice"
            )
        return values

    def _buffer(self) -> npt.NDArray[Any]:
        if self._memory is None:
            self._memory = self._room.array(False)
        return self._memory

    def _written(self) -> Iterable[Sequence[int]]:
        """Stretches that were written, apart. The memory is handed back."""
        self._memory = None
        return self._joined()

    def _joined(self) -> Sequence[Sequence[int]]:
        if len(self._pieces) < 2:
            return self._pieces
        joined: list[list[int]] = []
        for start, stop in sorted(self._pieces):
            if joined and start <= joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], stop)
            else:
                joined.append([start, stop])
        return joined
