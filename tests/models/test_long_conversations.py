"""A conversation of thousands of turns over the providers' wires that stays within its budget and loses nothing."""

import json
import re
from typing import Any

import pytest

import toolwright as tw
from tests.models.wire_server import WireAnswer, WireCall, WireRequest, WireServer
from tests.runtime.rig import running
from toolwright.adapters.models.providers.model import PydanticAIModel

pytestmark = pytest.mark.anyio

BUDGET = 32_000
RESULT = 4_000  # characters of a result: 8 MB in 2,000 turns
LOOKS = 10  # turns of the model per message
POLICIES = {
    200: tw.Context(max_tokens=BUDGET),
    2_000: tw.Context(max_tokens=BUDGET, start_at=0.1, keep=0.04),
    # per turn: a client of a provider takes 1 ms for each message sent, 86 s in total for 2,000 turns by default
}
QUESTION = "What was the secret of turn "
Body = dict[str, Any]  # JSON of a provider


def secret_of(turn: int) -> str:
    return f"S{turn * 7919 % 100_003}"


def result_of(turn: int) -> str:
    """Return a long result whose middle contains something that no reference shows."""
    half = f"line of turn {turn} " * (RESULT // 2 // 18)
    return f"{half} The secret of turn number {turn:04} is {secret_of(turn)}. {half}"


def last_text(body: Body) -> tuple[bool, str]:
    """Return whether the last message of a request is a result, and its text, for any wire format."""
    messages: list[Body] = body.get("messages") or body["input"]
    last = messages[-1]
    content: Any = last.get("content", last.get("output"))
    if isinstance(content, str):
        return last.get("role") == "tool" or last.get("type") == "function_call_output", content
    block: Body = content[-1]
    if block["type"] == "tool_result":
        inner: Any = block["content"]
        return True, inner if isinstance(inner, str) else inner[-1]["text"]
    return False, block.get("text", "")


class Provider:
    """Calls `look` at every turn, reads left-out results again, and refuses requests that are too long."""

    def __init__(self) -> None:
        self.requests = self.refused = self.summaries = self.longest = self.calls = 0

    def __call__(self, request: WireRequest) -> WireAnswer:
        body: Body = request.body
        self.requests += 1
        parts = [body.get(each) for each in ("system", "instructions", "messages", "input", "tools")]
        tokens = len(json.dumps(parts)) // 4
        if tokens > BUDGET:
            self.refused += 1
            said = f"prompt is too long: {tokens} tokens > {BUDGET} maximum"
            if request.path != "/v1/messages":
                said = (
                    f"This model's maximum context length is {BUDGET} tokens. However, your messages resulted in "
                    f"{tokens} tokens. Please reduce the length of the messages."
                )
            return WireAnswer(
                status=400, error=said, code="context_length_exceeded", kind="invalid_request_error"
            )
        self.longest = max(self.longest, tokens)
        text, calls = self._answer(body)
        return WireAnswer(text=(text,) if text else (), calls=calls, input_tokens=tokens)

    def _answer(self, body: Body) -> tuple[str, tuple[WireCall, ...]]:
        if not body.get("tools"):
            self.summaries += 1
            return f"Summary {self.summaries}: the user asks for turns.", ()
        is_result, text = last_text(body)
        if not is_result and text.startswith(QUESTION):
            turn = int(text.removeprefix(QUESTION))
            return "", (self._call("read_result", query=f"turn number {turn:04}"),)
        if not is_result:
            return "", (self._call("look", turn=int(text.split()[-1])),)
        if text.startswith('{"results"'):
            [found] = json.loads(text)["results"]
            return "", (self._call("read_result", call_id=found["call_id"]),)
        if text.startswith('{"call_id"'):
            page = json.loads(text)
            said = re.search(r"is (S\d+)\.", page["text"])
            return (said[1] if said else "I do not know."), ()
        turn = re.search(r"secret of turn number (\d+) is", text)
        assert turn is not None, text
        looked = int(turn[1])
        return ("Seen.", ()) if looked % LOOKS == 0 else ("", (self._call("look", turn=looked + 1),))

    def _call(self, name: str, **args: object) -> WireCall:
        self.calls += 1
        return WireCall(name=name, arguments=(json.dumps(args),), id=f"call_{self.calls}")


WIRES = ("openai-chat:gpt-4o", "openai:gpt-4o", "anthropic:claude-sonnet-5-5")
SMALL = [(200, "anthropic:claude-sonnet-5-5")]
FULL = [(2_000, each) for each in WIRES]
EXHAUSTIVE = [
    pytest.param(*each, marks=pytest.mark.exhaustive) for each in [(200, "openai-chat:gpt-4o"), *FULL]
]


@pytest.mark.timeout(900)  # 40 s for 2,000 turns, and much more on a busy machine
@pytest.mark.parametrize(("turns", "name"), [*SMALL, *EXHAUSTIVE])
async def test_thousands_of_turns_stay_within_the_budget_and_an_early_result_is_found(
    turns: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tw.tool(description="Look.")
    async def look(turn: int) -> str:
        return result_of(turn)

    provider = Provider()
    async with WireServer(answering=provider) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.base_url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        model = PydanticAIModel(name)
        options = {"context": POLICIES[turns]}
        async with running(model, [look], prompt_options=options) as rig:
            thread = await rig.rt.threads.create("tester")
            for turn in range(1, turns + 1, LOOKS):
                run = await rig.rt.threads.send(thread.id, f"Look from turn {turn}")
                done = await rig.rt.runs.wait(run.id, 20)
                assert done.status == "completed", done.error
            asked = turns // 4
            run = await rig.rt.threads.send(thread.id, f"{QUESTION}{asked}")
            done = await rig.rt.runs.wait(run.id, 20)
            assert (done.status, done.output) == ("completed", secret_of(asked))
            rows = await rig.store.inner.compactions(thread.id)
            assert [row.number for row in rows] == [*range(1, len(rows) + 1)]
            assert rows[-1].summary is not None and provider.summaries
            assert len(await rig.rt.threads.messages(thread.id, 10_000)) == turns * 2 + turns // LOOKS * 2 + 6
        await model.aclose()
    assert provider.refused == 0
    assert provider.longest <= BUDGET
