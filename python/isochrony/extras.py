"""Optional libraries, and the extra that brings each.

The table below mirrors ``[project.optional-dependencies]`` of pyproject.toml; a
test compares the two.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from .errors import MissingExtraError

__all__ = ["EXTRAS", "require"]

EXTRAS: dict[str, tuple[str, ...]] = {
    "seismic": ("obspy", "pymseed"),
    "audio": ("soundfile",),
    "device": ("sounddevice",),
    "table": ("pyarrow",),
    "plot": ("matplotlib",),
    "jit": ("numba",),
    "cluster": ("distributed",),
    "astro": ("astropy", "scipy"),
}


def require(module: str, purpose: str) -> ModuleType:
    """Import an optional library or say which extra brings it.

    Parameters:
        module: dotted module name whose first part is listed in `EXTRAS`.
        purpose: what it is needed for, in a few words ("reading miniSEED").

    Raises:
        MissingExtraError: the library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as cause:
        package = module.partition(".")[0]
        extra = next((name for name, packages in EXTRAS.items() if package in packages), None)
        wanted = f"isochrony[{extra}]" if extra else package
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed ({cause}); install it with: pip install '{wanted}'",
            name=package,
        ) from cause
