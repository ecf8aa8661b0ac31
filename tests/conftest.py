"""Fixtures shared by all Python tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import isochrony as iso

# A script that starts the tests with `&` has them ignore Ctrl-C, and every process that they start: tests that press it
# would wait for ever. A handler is not inherited, so children have the system's default.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# 100 new cases each time; HYPOTHESIS_PROFILE=nightly: more of them, repeated: the same ones each time.
settings.register_profile(
    "ci",
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("nightly", settings.get_profile("ci"), max_examples=2000)
settings.register_profile("repeated", settings.get_profile("ci"), derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_finish() -> None:
    """Thousands of collected tests are millions of objects that stay: no garbage collection looks at them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def nobodys_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Settings of whoever runs the tests, as how this machine reads best, must not show in them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("settings")))
        yield


@pytest.fixture
def store(tmp_path: Path) -> Iterator[iso.Store]:
    """A new store, open for writing."""
    import isochrony as iso

    with iso.open(tmp_path / "water.iso", "x") as store:
        yield store


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The folder of real recordings, or a skip that says how to get it."""
    folder = os.environ.get("ISOCHRONY_TEST_DATA")
    if not folder:
        pytest.skip("ISOCHRONY_TEST_DATA is unset: real recordings are not tested")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"ISOCHRONY_TEST_DATA={folder} is no folder")
    return path


@pytest.fixture(scope="session")
def volcano(recordings: Path) -> Path:
    return recordings / "seismic" / "piton-de-la-fournaise-2010-10-14.mseed"


@pytest.fixture(scope="module", autouse=True)
def _no_scheduler_is_left() -> Iterator[None]:
    """Clients of Dask that end in another order than they began, as lost ones do, leave its settings changed."""
    yield
    distributed = sys.modules.get("distributed")
    if distributed is not None and not distributed.client._global_clients:
        sys.modules["dask"].config.config.pop("scheduler", None)
