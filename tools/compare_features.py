"""Fails where a dependency has other features in the extension module than in the tests.

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


def main() -> int:
    """Print what differs."""
    tests = features("--workspace", "--edges", "normal,build,dev")
    # With the example of operators of another crate, which is built with it.
    extension = features(
        "--package", "isochrony-py", "--package", "isochrony-example-operators", "--edges", "normal,build"
    )
    for line in sorted(extension - tests):
        print(f"{line}: the tests have it with other features; ask for them in crates/py/Cargo.toml", file=sys.stderr)
    return bool(extension - tests)


if __name__ == "__main__":
    sys.exit(main())
