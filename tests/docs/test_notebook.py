"""The example notebook, executed by a kernel against a provider's wire format."""

import json
import os
from pathlib import Path
from typing import Any, cast

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.test_guides import ROOT, environment
from tests.models.wire_server import WireCall, WireServer

pytestmark = pytest.mark.anyio

NOTEBOOK = ROOT / "examples" / "notebook" / "first_hour.ipynb"


def opened() -> Any:
    """Return the notebook; its library is untyped."""
    return cast("Any", nbformat).read(NOTEBOOK, as_version=4)


def printed(cell: Any) -> str:
    """Return the output and the result of a cell."""
    return "".join(each.get("text") or each["data"]["text/plain"] for each in cell["outputs"])


async def test_the_notebook_runs_cell_by_cell(tmp_path: Path) -> None:
    notebook = opened()
    async with WireServer() as server:
        for text, answer in (("to be or not to be", "Six words."), ("that is the question", "Four words.")):
            arguments = json.dumps({"text": text})
            server.answer(calls=[WireCall(id=f"c{len(text)}", name="count_words", arguments=(arguments,))])
            server.answer(text=[answer])
        server.answer(text=['{"name": "Berlin", "people": 4}'])
        client = NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}})
        await client.async_execute(env={**os.environ, **environment(server)})
        counted, calls, streamed, made = [
            printed(cell) for cell in notebook.cells if cell["cell_type"] == "code"
        ]
        assert counted == "'Six words.'"
        assert calls.splitlines()[0] == "count_words {'text': 'to be or not to be'} -> 6"
        assert streamed == "[ count_words ]\nFour words."
        assert made == "City(name='Berlin', people=4)"
        assert "Six words." in json.dumps(server.requests[2].body), "the conversation went on"


def test_the_notebook_is_kept_without_outputs() -> None:
    assert [cell["outputs"] for cell in opened().cells if cell.get("outputs")] == []
