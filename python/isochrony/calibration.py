"""What samples mean: steps of `isochrony.Plan`."""

from __future__ import annotations

from typing import Self

from .chain import Chain
from .filters import number
from .native_errors import OptionError

__all__ = ["CalibrationSteps"]


def _text(step: str, value: object) -> str:
    if not isinstance(value, str):
        raise OptionError(f"{step}{value!r} is refused; give the name of a unit, as 'm/s'")
    return value


class CalibrationSteps(Chain):
    """Of `isochrony.Plan`: calibrations and units. Nothing is computed or rounded: the samples stay as they are.

    Counts stay counts, with another scale, offset and unit. Whatever computes sees values; `collect` gives the counts,
    and a kept signal has them, with their calibration.
    """

    __slots__ = ()

    def calibrate(self, gain: float = 1.0, offset: float = 0.0, unit: str | None = None) -> Self:
        """Say what samples mean: values become ``value * gain + offset``, in a unit.

        Parameters:
            gain: what values are multiplied by, other than 0.
            offset: what is added then, in the new unit.
            unit: of the result; left out, it stays as it was.

        Raises:
            OptionError: an option that is no number, or no text.
            PlanError: no samples come in, or a gain by which a count is no finite number of units, or none.

        >>> import numpy as np, isochrony as iso
        >>> volts = iso.scan(np.array([0, 100, 200], "i2"), rate=100).calibrate(0.01, unit="V")
        >>> volts.calibrate(250, -50, "kPa").map(lambda s: s + 0.0).collect()
        array([-50., 200., 450.])
        """
        return self._then(
            "calibrate",
            gain=number("calibrate gain=", gain, ""),
            offset=number("calibrate offset=", offset, ""),
            unit=None if unit is None else _text("calibrate unit=", unit),
        )

    def to_unit(self, unit: str) -> Self:
        """Give the same values in another unit of the same kind.

        Parameters:
            unit: a product of names with powers, as ``m/s``, ``m s-2``, ``mm/s^2``, ``mV/Pa``: SI units with prefixes
                (f to P), and bar, atm, psi, mmHg, mH2O, g0 (of gravity), min, h, d, L, deg, rpm, degC, degF, in, ft,
                %, ppm, counts.

        Raises:
            OptionError: `unit` is no text.
            PlanError: no samples come in, they or `unit` have a unit that is not known, or the two measure different
                things; the message names both.

        >>> import numpy as np, isochrony as iso
        >>> cold = iso.scan(np.array([-10.0, 0.0]), rate=1, unit="degC")
        >>> cold.to_unit("degF").map(lambda s: s + 0.0).collect().round(9)
        array([14., 32.])
        """
        return self._then("to_unit", unit=_text("to_unit unit=", unit))
