"""Composed requests that get long: results become references, which calls of the answers open (S1, decision 31)."""

import re
from typing import Any

import pytest

import toolwright as tw
from tests import journals
from tests.runtime.narrow import Narrow, tokens_of
from tests.runtime.solving import said
from tests.runtime.test_sent_prompts import assert_same
from toolwright.core.json_value import JSON
from toolwright.core.model import ModelRequest, ModelResponse
from toolwright.core.threads.message import Message

pytestmark = pytest.mark.anyio

BUDGET = 6_000
FOUND: Any = {"type": "object", "properties": {"secret": {"type": "string"}}, "required": ["secret"]}
CONTEXT = [
    {"role": "user", "content": "Are you there?"},
    {"role": "assistant", "content": "I am."},
    {"type": "tool", "tool": "look"},
    {"type": "text", "text": "Look at all pages, then tell the secret of the third."},
]
PAGES = 30
REFERENCE = "is not shown any more to save space"


@tw.tool(read_only=True)
def look(page: int) -> str:
    """Look at a page."""
    return f"Page {page}. " + "line " * 300 + f"The secret of page {page} is S{page * 7919}. " + "line " * 300


def tools_of(request: ModelRequest) -> list[str]:
    """Return the names of the tools that the schema of the answer offers."""
    assert request.answer is not None and not request.tools
    properties: Any = request.answer.schema["properties"]
    items = properties["calls"]["items"]
    return [each["properties"]["_tool"]["const"] for each in items.get("anyOf", [items])]


def results_of(request: ModelRequest) -> list[Message]:
    return [each for each in request.messages if each.content.startswith("Results of the calls:")]


class Reader:
    """A model that looks at page after page, and then reads the third again, by its reference."""

    def __init__(self) -> None:
        self.page = 0
        self.reference = ""

    def __call__(self, request: ModelRequest) -> ModelResponse:
        last = request.messages[-1].content
        for each in results_of(request):
            found = re.search(r'Call read_result with {"call_id": "(\w+)"}[^\n]*\nPage 3\.', each.content)
            self.reference = found[1] if found else self.reference
        if self.page < PAGES:
            self.page += 1
            return self.calls({"_tool": "look", "page": self.page})
        if '"offset"' not in last:
            return self.calls({"_tool": "read_result", "call_id": self.reference, "query": "secret"})
        secret = re.search(r"secret of page 3 is (S\d+)\.", last)
        return ModelResponse(text=said({"secret": secret[1] if secret else "?"})["text"], model="narrow")

    def calls(self, call: JSON) -> ModelResponse:
        return ModelResponse(text=said(None, call)["text"], model="narrow")


@pytest.mark.parametrize("summarize", [False, True])
async def test_results_of_a_request_become_references_which_its_model_opens(summarize: bool) -> None:
    model = Narrow(Reader(), limit=BUDGET, window=BUDGET)
    async with journals.runtime(tw.App(tools=[look])) as rt:
        config = {"model": model, "max_steps": 50, "context": {"max_tokens": BUDGET, "summarize": summarize}}
        run = await rt.begin_request(config, FOUND, CONTEXT)
        solution = await rt.solution(run.id)
        prompts = await rt.sent_prompts.of_run(run.id, 100)
    assert solution.output == {"secret": f"S{3 * 7919}"}
    requests = model.asked
    assert model.refused == 0 and all(tokens_of(each) <= BUDGET for each in requests)
    assert bool(model.summaries) == summarize
    assert [each.tool for each in solution.calls] == ["look"] * PAGES + ["read_result"]
    assert [tools_of(requests[at]) for at in (0, -1)] == [["look"], ["look", "read_result"]]
    assert len({each.system for each in requests}) == 1
    shortened = [each for each in requests if any(REFERENCE in part.content for part in each.messages)]
    assert shortened and all(tools_of(each) == ["look", "read_result"] for each in shortened)
    for prompt, request in zip(prompts, requests, strict=True):
        assert_same(prompt, request)
        assert [each.content for each in request.messages[:2]] == ["Are you there?", "I am."]
        assert any("tell the secret of the third" in each.content for each in request.messages)
    for request in requests[1:-1]:
        assert len(results_of(request)[-1].content) > 3_000  # the newest result is complete
