"""What only one operating system has is in one crate: the check of `make lint`, on this workspace and on violations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CRATE = "[package]\nname = 'x'\n"
CLEAN = """\
//! Reads `/proc/meminfo`, with std::os::linux in words.
use std::os::unix::fs::FileExt; // "/proc/self"
/* "/sys/fs" */
const QUOTE: char = '"'; // libc: "/proc/"
const URL: &str = "https://example.org/processes/system";

#[cfg(all(test, target_os = "linux"))]
mod apart;

#[cfg(test)]
mod tests {
    const STATUS: &str = "/proc/self/status";
}

const LIMIT: usize = 1;
"""


def check(root: Path) -> tuple[int, list[str]]:
    """Exit status and lines of the check."""
    command = [sys.executable, str(ROOT / "tools/check_portability.py"), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace without violations: the crate `system`, and `x` above it."""
    for name, source in (("system", 'pub const INFO: &str = "/proc/meminfo";\n'), ("x", CLEAN)):
        (tmp_path / "crates" / name / "src/tests").mkdir(parents=True)
        (tmp_path / "crates" / name / "src/lib.rs").write_text(source)
    (tmp_path / "crates/system/Cargo.toml").write_text(f"{CRATE}[dependencies]\nrustix = '1'\n")
    (tmp_path / "crates/x/Cargo.toml").write_text(
        f"{CRATE}[dependencies]\nmemmap2 = '0.9'\n[dev-dependencies]\nlibc = '0.2'\n"
    )
    (tmp_path / "crates/x/src/tests/own.rs").write_text('const STAT: &str = "/proc/1/stat";\n')
    return tmp_path


def test_this_workspace_has_no_violation() -> None:
    assert check(ROOT) == (0, [])


def test_tests_comments_and_the_crate_itself_are_free(workspace: Path) -> None:
    assert check(workspace) == (0, [])


@pytest.mark.parametrize(
    ("table", "library"),
    [
        ("[dependencies]\nrustix.workspace = true\n", "rustix"),
        ("[build-dependencies]\nlibc = '0.2'\n", "libc"),
        ("[target.'cfg(target_os = \"linux\")'.dependencies]\nio-uring = '0.7'\n", "io-uring"),
        ("[dependencies.files]\npackage = 'procfs'\nversion = '0.17'\n", "procfs"),
    ],
)
def test_a_dependency_is_found(workspace: Path, table: str, library: str) -> None:
    (workspace / "crates/x/Cargo.toml").write_text(CRATE + table)
    status, lines = check(workspace)
    assert status == 1
    assert lines[0] == f"crates/x/Cargo.toml: depends on {library}"
    assert "crates/system" in lines[-1]


@pytest.mark.parametrize(
    ("line", "violation"),
    [
        ('let text = read("/proc/meminfo");', "has a path below /proc/ in a string"),
        ('let path = format!(r#"/sys/class/{name}"#);', "has a path below /sys/ in a string"),
        ("use std::os::linux::fs::MetadataExt;", "names std::os::linux"),
        ("use std::os::{fd::AsFd, linux};", "names std::os::linux"),
        ('#[cfg(target_os = "linux")]', "compiles code for one system only (target_os)"),
    ],
)
def test_a_line_of_source_is_found(workspace: Path, line: str, violation: str) -> None:
    (workspace / "crates/x/src/lib.rs").write_text(f'// "\n{line}\n{CLEAN}')
    status, lines = check(workspace)
    assert (status, lines[:-1]) == (1, [f"crates/x/src/lib.rs:2: {violation}"])


def test_what_follows_a_test_module_is_looked_at(workspace: Path) -> None:
    (workspace / "crates/x/src/lib.rs").write_text(f'{CLEAN}const LATE: &str = "/proc/cpuinfo";\n')
    last = CLEAN.count("\n") + 1
    assert check(workspace)[1][0] == f"crates/x/src/lib.rs:{last}: has a path below /proc/ in a string"


def test_a_folder_without_crates_is_no_workspace(tmp_path: Path) -> None:
    status, lines = check(tmp_path)
    assert status == 1
    assert "give the root of the workspace" in lines[0]


def test_a_path_in_the_package_is_found(workspace: Path) -> None:
    package = workspace / "python/isochrony/running"
    package.mkdir(parents=True)
    (package / "clean.py").write_text(
        '"""Reads /proc/self."""\n\n\ndef read() -> None:\n    """Of /sys/fs."""  # /proc/1\n'
    )
    assert check(workspace) == (0, [])
    (package / "files.py").write_text('NAME = "x"\nPATH = f"/proc/{NAME}/stat"\n')
    assert check(workspace)[1][0] == "python/isochrony/running/files.py:2: has a path below /proc/ in a string"
