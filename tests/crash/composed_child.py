"""Processes that solve a composed request with corrections, and kill themselves at a commit or in a handler."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.crash.dying import Witness, at_work, die
from tests.crash.forks import Order
from tests.runtime.solving import DONE, SUMMARY, TEXT, TOOL, greet, said
from toolwright.core.agents.catalog import Catalog

TURNS = [{"text": "No."}, {"text": "Yes."}, said(None, greet("Ada"), greet("Bob")), said(DONE, greet("Cy"))]


def catalog(witness: Witness, kill: dict[str, Any]) -> Catalog:
    def hello(userName: str) -> str:  # noqa: N803 - as S1 spells it
        again = ["begin", userName] in [line[:2] for line in witness.lines()]
        witness.note("begin", userName)
        if kill.get("tool") == userName and not again:
            die()
        return f"Hello {userName}"

    return Catalog(handlers={"greetUser": hello})


async def run(order: Order) -> None:
    folder = Path(order["folder"])
    script = folder / "script.yaml"
    script.write_text("\n".join([f"- text: {json.dumps(turn['text'])}" for turn in TURNS]))
    app = catalog(Witness(folder / "witness"), order.get("kill") or {})
    async with at_work(order, app) as runtime, asyncio.timeout(20):
        runs = await runtime.runs.list()
        config = {"model": f"scripted:{script}"}
        begun = runs[0] if runs else await runtime.begin_request(config, SUMMARY, [TOOL, TEXT])
        solution = await runtime.solution(begun.id)
        results = [call.result.result if call.result else None for call in solution.calls]
        kept = {"output": solution.output, "steps": solution.steps, "results": results}
        (folder / "solution").write_text(json.dumps(kept))
