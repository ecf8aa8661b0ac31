"""Blocks of code in the documentation: where they are, and what they need to run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGES", "ROOT", "Block", "arguments_of", "blocks_of", "commands_of", "pages_with"]

ROOT = Path(__file__).parents[1]
PAGES = tuple(sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")))


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: path from the root.
        number: from 0, of all blocks of the page.
        language: the word behind the opening fence; "" if there is none.
        code: the text between the fences.
        before: the line before the opening fence.
    """

    page: str
    number: int
    language: str
    code: str
    before: str

    @property
    def not_run(self) -> str | None:
        """What the block needs that no test has, as `<!-- not run: needs ... -->` says; None if a test runs it."""
        found = re.fullmatch(r"<!-- not run: (.*) -->", self.before.strip())
        return found[1] if found else None

    @property
    def run_with(self) -> str | None:
        """What test_document_services.py starts to run the block, as `<!-- run with: ... -->` says; None: nothing."""
        found = re.fullmatch(r"<!-- run with: (.*) -->", self.before.strip())
        return found[1] if found else None


def blocks_of(page: str) -> Iterator[Block]:
    """The page's blocks, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.finditer(r"^(?P<before>[^\n]*)\n```(?P<language>\w*)\n(?P<code>.*?)^```$", text, re.M | re.S)
    for number, found in enumerate(blocks):
        yield Block(page, number, found["language"], found["code"], found["before"])


def arguments_of(command: str) -> list[str]:
    """Arguments of a command line, without the redirections and the comment of the shell."""
    words = shlex.split(command, comments=True)
    ends = [place for place, word in enumerate(words) if word[0] in "<>|"]
    return words[1 : min(ends, default=len(words))]


def commands_of(block: Block) -> list[list[str]]:
    """Arguments of each line of a block, all of which are commands of Isochrony."""
    lines = block.code.splitlines()
    assert all(line.startswith("isochrony ") for line in lines), block
    return [arguments_of(line) for line in lines]


def pages_with(language: str) -> list[str]:
    """Pages that have a block of a language."""
    return [page for page in PAGES if any(block.language == language for block in blocks_of(page))]
