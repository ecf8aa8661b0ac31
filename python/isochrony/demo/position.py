"""Where a front began, from the times at which stations heard it.

Along a pipe the travel time to a station falls or rises linearly, by either end, so it has
one kink where both ways are equally fast. Between the kinks of all stations the weighted
sum of squared time residuals, with the unknown time of the burst eliminated, is a parabola
of the place: `locate` takes the exact least of all parabolas of all pipes, no grid.

What is stated is a set, not a point: all places whose misfit is within that of a 95 %
region of the least. Where times cannot tell places apart (a dead end behind the only
station that hears it; both ways round a loop) the set is long, or has several parts, and
says so. Whether the times fit at all is told by the misfit's chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..errors import UsageError
from .network import PIPES, Pipe, Place, distance_m, shortest

__all__ = ["Heard", "Position", "Stretch", "locate"]

Float = npt.NDArray[np.float64]

# Of one unknown, the place: 95 % of a chi-squared of one degree of freedom.
_WITHIN = 3.841
# Times whose misfit chance gives less often than this contradict each other.
_UNLIKELY = 1e-3
# Parts of a region that end within this of a junction meet there.
_TOUCH_M = 1e-6


@dataclass(frozen=True, slots=True)
class Heard:
    """A front at a station's junction: s after any common zero, with its standard error in s."""

    junction: str
    at_s: float
    error_s: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a pipe, between two distances from its first end in m."""

    pipe: Pipe
    from_m: float
    to_m: float

    @property
    def ends(self) -> tuple[Place, Place]:
        """Both ends, as places."""
        return Place(self.pipe, self.from_m), Place(self.pipe, self.to_m)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a burst was, and how well that is known."""

    place: Place
    """The place that fits best."""
    at_s: float
    """When it happened, in s after the zero of the times given."""
    error_m: float
    """How far the 95 % region around the place reaches, along pipes."""
    misfit: float
    """Weighted sum of squared residuals there."""
    chance: float
    """Probability of at least such a misfit, where the stated errors are true; 1 for two stations."""
    region: tuple[Stretch, ...]
    """All places that fit nearly as well (95 %), in order of pipes."""
    parts: int
    """Of how many unconnected parts the region consists."""

    @property
    def verdict(self) -> str:
        """Either "located", "ambiguous" (elsewhere fits as well) or "inconsistent" (times contradict each other)."""
        if self.chance < _UNLIKELY:
            return "inconsistent"
        return "ambiguous" if self.parts > 1 else "located"


@dataclass(frozen=True, slots=True)
class _Piece:
    """Misfit along a part of a pipe, s m from its first end: ``least + square * (s - centre)**2``."""

    stretch: Stretch
    least: float
    centre: float
    square: float

    def misfit(self, s: float) -> float:
        return self.least + self.square * (s - self.centre) ** 2

    def best(self) -> float:
        """Where it is least; in the middle where it is the same everywhere."""
        return min(max(self.centre, self.stretch.from_m), self.stretch.to_m)

    def below(self, limit: float) -> Stretch | None:
        """The part in which it is at most `limit`."""
        best = self.best()
        if self.misfit(best) > limit:
            return None
        if self.square == 0.0:
            return self.stretch
        reach = math.sqrt(max(limit - self.least, 0.0) / self.square)
        low, high = max(self.centre - reach, self.stretch.from_m), min(self.centre + reach, self.stretch.to_m)
        return Stretch(self.stretch.pipe, min(low, best), max(high, best))


def locate(heard: Sequence[Heard], pipes: Sequence[Pipe] = PIPES) -> Position:
    """The place of a burst in a network of pipes.

    Parameters:
        heard: by at least two stations, at different junctions, with errors above 0.
        pipes: of the network, with wave speeds.

    Conventions:
        Errors are independent and Gaussian; wave speeds and lengths are taken as exact.

    Raises:
        UsageError: too few stations, an error that is not above 0, or no pipe from which all can be reached.
    """
    if len({one.junction for one in heard}) < 2:
        raise UsageError(
            f"{len(heard)} arrivals at fewer than two stations do not determine where in the pipes a burst was; give "
            "arrivals at two or more stations, at different junctions"
        )
    if not all(one.error_s > 0 and math.isfinite(one.error_s) for one in heard):
        raise UsageError("the error_s of an arrival is not finite and above 0; give its standard error in seconds")
    pieces = [piece for pipe in pipes for piece in _pieces(pipe, heard, pipes)]
    if not pieces:
        names = ", ".join(sorted({one.junction for one in heard}))
        raise UsageError(f"{names} are not all connected by pipes; give a network that connects them")
    best = min(pieces, key=lambda piece: piece.misfit(piece.best()))
    place = Place(best.stretch.pipe, best.best())
    misfit = best.misfit(place.at_m)
    inside = (piece.below(misfit + _WITHIN) for piece in pieces)
    region = tuple(_joined(stretch for stretch in inside if stretch is not None))
    parts = _parts(region)
    here = next(part for part in parts if any(_holds(stretch, place) for stretch in part))
    return Position(
        place=place,
        at_s=_began(place, heard, pipes),
        error_m=max(distance_m(place, end, pipes) for stretch in here for end in stretch.ends),
        misfit=misfit,
        chance=_chance(misfit, len(heard) - 2),
        region=region,
        parts=len(parts),
    )


def _arrivals(pipe: Pipe, heard: Sequence[Heard], pipes: Sequence[Pipe]) -> tuple[Float, Float]:
    """Travel times to each station from both ends of a pipe, in s."""
    from_ends = [shortest({end: 0.0}, pipes, lambda one: one.travel_s) for end in pipe.ends]
    first, second = (np.array([times.get(one.junction, math.inf) for one in heard]) for times in from_ends)
    return first, second


def _pieces(pipe: Pipe, heard: Sequence[Heard], pipes: Sequence[Pipe]) -> Iterator[_Piece]:
    """The misfit along a pipe, between the kinks of all travel times."""
    first, second = _arrivals(pipe, heard, pipes)
    if not np.isfinite(first + second).all():
        return
    speed, length = pipe.wave_speed_m_s, pipe.length_m
    kinks = 0.5 * (length + speed * (second - first))
    bounds = sorted({0.0, length, *np.clip(kinks, 0.0, length).tolist()})
    at = np.array([one.at_s for one in heard])
    weight = np.array([one.error_s for one in heard]) ** -2.0
    for low, high in pairwise(bounds):
        by_first = kinks > 0.5 * (low + high)
        slope = np.where(by_first, 1.0, -1.0) / speed
        rest = at - np.where(by_first, first, second + length / speed)
        # The burst's own time is the weighted mean of what the travel times leave.
        rest = rest - (weight @ rest) / weight.sum()
        # Heard by one end only, all places of the piece fit alike.
        slope = slope - (weight @ slope) / weight.sum() if np.ptp(slope) > 0 else np.zeros_like(slope)
        square = float(weight @ (slope * slope))
        centre = float(weight @ (rest * slope)) / square if square else 0.5 * (low + high)
        # From residuals at the centre: differences of large squares would leave little of a small misfit.
        left = rest - slope * centre
        yield _Piece(Stretch(pipe, low, high), float(weight @ (left * left)), centre, square)


def _began(place: Place, heard: Sequence[Heard], pipes: Sequence[Pipe]) -> float:
    """When a front left a place: the weighted mean of what the stations say."""
    first, second = _arrivals(place.pipe, heard, pipes)
    along = place.at_m / place.pipe.wave_speed_m_s
    travel = np.minimum(first + along, second + place.pipe.travel_s - along)
    weight = np.array([one.error_s for one in heard]) ** -2.0
    return float(weight @ (np.array([one.at_s for one in heard]) - travel) / weight.sum())


def _joined(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    """Neighbouring parts of one pipe as one; they come in order."""
    last: Stretch | None = None
    for one in stretches:
        if last is not None and last.pipe == one.pipe and one.from_m - last.to_m <= _TOUCH_M:
            last = Stretch(last.pipe, last.from_m, one.to_m)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _parts(region: Sequence[Stretch]) -> list[list[Stretch]]:
    """The region's connected parts: stretches meet at junctions."""
    parts: list[tuple[set[str], list[Stretch]]] = []
    for one in region:
        first, second = one.pipe.ends
        touches = {first} if one.from_m <= _TOUCH_M else set()
        if one.to_m >= one.pipe.length_m - _TOUCH_M:
            touches.add(second)
        met = [part for part in parts if part[0] & touches]
        parts = [part for part in parts if not part[0] & touches]
        junctions = touches.union(*(part[0] for part in met))
        parts.append((junctions, [stretch for part in met for stretch in part[1]] + [one]))
    return [stretches for _, stretches in parts]


def _holds(stretch: Stretch, place: Place) -> bool:
    return stretch.pipe == place.pipe and stretch.from_m - _TOUCH_M <= place.at_m <= stretch.to_m + _TOUCH_M


def _chance(misfit: float, freedom: int) -> float:
    """Probability that a chi-squared of so many degrees of freedom is at least `misfit`."""
    if freedom <= 0:
        return 1.0
    half = 0.5 * misfit
    # The recurrence of the upper incomplete gamma function, from 1 or 2 degrees on.
    odd = freedom % 2
    total = math.erfc(math.sqrt(half)) if odd else math.exp(-half)
    order = 0.5 if odd else 1.0
    while order < 0.5 * freedom:
        total += math.exp(order * math.log(half) - half - math.lgamma(order + 1.0)) if half > 0 else 0.0
        order += 1.0
    return total
