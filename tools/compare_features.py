"""Fails where a dependency has other features in the extension module or the benchmarks than in the tests.

Cargo then compiles it twice, with all that needs it. The remedy is to ask for these features in `crates/py/Cargo.toml`.
"""

from __future__ import annotations

import subprocess
import sys


def features(*selection: str) -> set[str]:
    """Packages with version and features, of some packages and what they need."""
    command = ["cargo", "tree", "--locked", *selection, "--prefix", "none", "--format", "{p} {f}"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.removesuffix(" (*)") for line in lines if line}


#: What is built beside the tests, and shares what these have built.
BUILDS = {
    "the extension module": ("--package", "isochrony-native", "--package", "isochrony-example-operators"),
    "the benchmarks": ("--workspace",),
}


def main() -> int:
    """Print what differs."""
    tests = features("--workspace", "--edges", "normal,build,dev")
    status = 0
    for name, selection in BUILDS.items():
        for line in sorted(features(*selection, "--edges", "normal,build") - tests):
            print(f"{line}: so in {name}, but the tests have other features: ask for those in crates/py/Cargo.toml")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
