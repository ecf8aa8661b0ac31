"""How plans are pickled: a form as JSON, and beside it the signals, samples and functions that it names.

A signal goes as a snapshot: the plan reads there what it would have read when it was pickled. Samples in memory go by
value, functions by the rules of the pickler: `pickle` by module and name, `cloudpickle` by value, too.
"""

from __future__ import annotations

import pickle
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors.native import PlanError
from ..functions.python import shown

if TYPE_CHECKING:
    from ..steps.chain import Chain

__all__ = ["reduced", "unpickled"]

AnyPlan = TypeVar("AnyPlan", bound="Chain")


def reduced(plan: AnyPlan) -> tuple[Any, ...]:
    """What a plan is pickled as.

    Raises:
        PlanError: it writes, waits for a feed, or has a function that `pickle` cannot pickle.
        StoreError: a signal cannot leave this process.
    """
    text, objects = plan._native.sent()
    return unpickled, (type(plan), text, [(kind, _portable(kind, one)) for kind, one in objects])


def unpickled(kind: type[AnyPlan], text: str, objects: list[tuple[str, Any]]) -> AnyPlan:
    """The plan that was pickled.

    Raises:
        StoreError: samples that a signal had were replaced since, or its store is gone.
    """
    from .._native import NativePlan

    return kind(NativePlan.received(text, objects))


def _portable(kind: str, one: Any) -> Any:
    if kind != "python" or _is_pickled_by_value():
        return one
    try:
        pickle.Pickler(_Nowhere()).dump(one)
    except Exception as error:
        first = next(iter(str(error).splitlines()), "")
        raise PlanError(
            f"a plan that calls {shown(one)} cannot be pickled ({type(error).__name__}: {first}); define it with def "
            "at the top of a module that the other process can import, or pickle the plan with cloudpickle, which "
            "sends functions by value"
        ) from error
    return one


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: bytes) -> int:
        return len(data)


def _is_pickled_by_value() -> bool:
    """Whether it is not `pickle` that pickles, but a library that sends functions by value."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        # Some packages carry a copy of it: joblib.externals.cloudpickle, pyspark.cloudpickle.
        if not {"cloudpickle", "dill"}.isdisjoint(frame.f_globals.get("__name__", "").split(".")):
            return True
        frame = frame.f_back
    return False
