"""Who reads the reasoning of a model: services, also people, or nobody, in messages, events and streams."""

import json
from typing import Literal

import pytest

import toolwright as tw
from tests.api.town import ADA, SERVICE, town
from tests.kit import call
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

WHY = "Because tea is served at four."


outside = tw.Tool(name="ask_outside", description="Ask.", kind="external", timeout=30.0)
READERS = [("services", {"service"}), ("everyone", {"service", "person"}), ("nobody", set[str]())]
CALLERS = (("service", SERVICE), ("person", ADA), ("service", SERVICE))
Readers = Literal["services", "everyone", "nobody"]


@pytest.mark.parametrize(("readers", "who"), READERS)
async def test_recorded_reasoning_is_read_by_those_that_the_agent_allows(
    readers: Readers, who: set[str]
) -> None:
    model = ScriptedModel([{"thinking": WHY, "text": "I ask.", **call("ask_outside")}, {"text": "Four."}])
    async with town(model=model, tools=[outside], agent_options={"reasoning": readers}) as made:
        thread, run = f"/api/threads/{made.ids['thread_id']}", f"/api/runs/{made.ids['run_id']}"
        seen: dict[str, set[str]] = {}
        for name, headers in CALLERS:
            for path in (
                f"{thread}/messages",
                f"{run}/events",
                f"{thread}/stream?after=0",
                f"{run}/stream?after=0",
            ):
                if "stream" in path:
                    async with made.api.stream(path, **headers) as stream:
                        text = json.dumps(await stream.until("run.waiting"))
                else:
                    text = (await made.api.client.get(path, headers=headers)).text
                assert "I ask." in text
                if WHY in text:
                    seen.setdefault(name, set()).add(path)
        assert seen.keys() == who
        assert all(len(paths) == 4 for paths in seen.values())


@pytest.mark.parametrize(("readers", "who"), READERS)
async def test_live_reasoning_is_streamed_to_those_that_the_agent_allows(
    readers: Readers, who: set[str]
) -> None:
    turns: list[object] = [
        {"thinking": WHY, "text": "Four.", "delay": 0.05, "when": "Tea?"},
        call("ask_outside"),
    ]
    async with town(
        model=ScriptedModel(turns), tools=[outside], agent_options={"reasoning": readers}
    ) as made:
        seen: set[str] = set()
        threads = made.api.rig.rt.threads
        for name, headers in CALLERS:
            thread = await threads.create("tester", made.ids["ada"])
            async with made.api.stream(f"/api/threads/{thread.id}/stream", **headers) as stream:
                await threads.send(thread.id, "Tea?")
                events = await stream.until("run.completed")
            assert any(event["type"] == "message.delta" for event in events)
            if any(event["type"] == "message.reasoning" for event in events):
                seen.add(name)
        assert seen == who
