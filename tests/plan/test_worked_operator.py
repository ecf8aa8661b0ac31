"""The examples of docs/add_a_python_operator.md, run as they stand; those in Rust are doctests."""

import re
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "add_a_python_operator.md"


def test_the_documents_python_runs_and_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
    assert len(blocks) == 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec"), names)
    printed = re.findall(r"print\(.*\)  # (.*)", "".join(blocks))
    assert capsys.readouterr().out.splitlines() == printed != []
