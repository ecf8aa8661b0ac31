"""Check that what only one operating system has is in one crate, crates/system.

    python3 tools/check_portability.py [ROOT]

No other crate may depend on one of LIBRARIES, name std::os::linux, compile code for one system only, or have a path
below /proc or /sys in a string. Tests may: development dependencies, test modules, and files and folders named for
tests are not looked at. Nor may the package, python/isochrony, have such a path in a string.

Exit status 1 with a line for each violation.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: The crate that may.
OWNER = "system"
#: Interfaces to a system's calls. Portable ones, such as memmap2 and socket2, are not among them.
LIBRARIES = {
    "caps", "core_affinity", "inotify", "io-uring", "libc", "linux-raw-sys", "nix", "notify", "procfs", "rustix",
    "syscalls", "sysinfo", "tokio-uring",
}  # fmt: skip
#: A comment, a raw string, a string, or a character: what a quotation mark means depends on all of them.
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|r(?P<hashes>\#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'""", re.DOTALL
)
#: A test module of formatted source.
TEST_MODULE = re.compile(
    r"^#\[cfg\((?:all\()?test\b[^\n]*\n(?:#[^\n]*\n)*(?:pub )?mod \w+ \{$.*?^\}$", re.DOTALL | re.MULTILINE
)
#: A condition on the system under which only tests are compiled.
TEST_CONDITION = re.compile(r'\ball\(test, target_os = "\w+"\)')
RULES = (
    (re.compile(r"\bos::(?:linux\b|\{[^}]*\blinux\b)"), "names std::os::linux"),
    (re.compile(r"\btarget_os\b"), "compiles code for one system only (target_os)"),
)
PATHS = re.compile(r"/(?:proc|sys)/")


def dependencies(manifest: dict[str, Any]) -> Iterator[str]:
    """Packages that a crate needs to be built, on any system: not those of its tests."""
    for table in (manifest, *manifest.get("target", {}).values()):
        for kind in ("dependencies", "build-dependencies"):
            for name, wanted in table.get(kind, {}).items():
                yield wanted.get("package", name) if isinstance(wanted, dict) else name


def check_source(text: str) -> Iterator[tuple[int, str]]:
    """Lines and violations of a file."""

    def blank(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n")

    text = TEST_CONDITION.sub(blank, TEST_MODULE.sub(blank, text))
    for token in TOKEN.finditer(text):
        if '"' in token[0] and not token[0].startswith(("//", "/*")) and (path := PATHS.search(token[0])):
            yield text.count("\n", 0, token.start()) + 1, f"has a path below {path[0]} in a string"
    code = TOKEN.sub(blank, text)
    for rule, violation in RULES:
        for found in rule.finditer(code):
            yield code.count("\n", 0, found.start()) + 1, violation


def check_script(text: str) -> Iterator[tuple[int, str]]:
    """Lines and violations of a file of Python."""
    tree = ast.parse(text)
    scopes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, scopes)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or node.value in docstrings:
            continue
        if isinstance(node.value, str) and (path := PATHS.search(node.value)):
            yield node.lineno, f"has a path below {path[0]} in a string"


def is_test(path: Path) -> bool:
    """Whether a file below `src` holds tests."""
    name = path.stem
    return "tests" in path.parts or name == "tests" or name.startswith("test_") or name.endswith("_tests")


def violations(root: Path) -> Iterator[str]:
    """All violations in a workspace, each with its place."""
    crates = [path.parent for path in sorted(root.glob("crates/*/Cargo.toml")) if path.parent.name != OWNER]
    if not crates:
        yield f"{root}: has no crates/*/Cargo.toml; give the root of the workspace"
    for crate in crates:
        manifest = crate / "Cargo.toml"
        for name in sorted(LIBRARIES.intersection(dependencies(tomllib.loads(manifest.read_text("utf-8"))))):
            yield f"{manifest.relative_to(root)}: depends on {name}"
        for source in sorted(crate.glob("src/**/*.rs")):
            if not is_test(source.relative_to(crate)):
                for line, violation in check_source(source.read_text("utf-8")):
                    yield f"{source.relative_to(root)}:{line}: {violation}"
    for source in sorted(root.glob("python/isochrony/**/*.py")):
        for line, violation in check_script(source.read_text("utf-8")):
            yield f"{source.relative_to(root)}:{line}: {violation}"


def main() -> int:
    """Print all violations; 1 if there are any."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    found = list(violations(root))
    for violation in found:
        print(violation)
    if found:
        print(f"Move what needs it to crates/{OWNER}, and call it there; see docs/design/porting.md.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
