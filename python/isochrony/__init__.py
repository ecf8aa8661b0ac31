"""Isochrony: exact time, honest gaps and fast reads for high-rate sensor signals.

>>> import isochrony as iso                          # doctest: +SKIP
>>> store = iso.open("water.iso")                    # doctest: +SKIP
>>> signal = store["stn_10/pressure"]                # doctest: +SKIP
>>> signal[iso.span("2010-03-01T00:30", "2010-03-01T01:00")].values()  # doctest: +SKIP

The names below load on first use, so that importing the package, and the
command line's help, cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import BadSourceError, IsochronyError, MissingExtraError, UsageError

if TYPE_CHECKING:
    from .importers import import_files
    from .store import Selection, Signal, Store, from_obspy, open, scan, span

__all__ = [
    "BadSourceError",
    "IsochronyError",
    "MissingExtraError",
    "Selection",
    "Signal",
    "Store",
    "UsageError",
    "from_obspy",
    "import_files",
    "open",
    "scan",
    "span",
]

__version__ = "0.1.0"

# Public name -> submodule that holds it.
_LAZY = {
    "Selection": ".store",
    "Signal": ".store",
    "Store": ".store",
    "from_obspy": ".store",
    "import_files": ".importers",
    "open": ".store",
    "scan": ".store",
    "span": ".store",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    home = _LAZY.get(name)
    if home is None:
        raise AttributeError(f"module 'isochrony' has no attribute {name!r}")
    value = getattr(importlib.import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Every public name, loaded or not."""
    return sorted({*globals(), *_LAZY})
