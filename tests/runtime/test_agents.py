"""Agents that are configured as JSON while the app runs: stored, changed, run, and deleted (API §3, D11, D13)."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import toolwright as tw
from tests import journals
from tests.kit import calls, ran, send_to
from tests.runtime.rig import Rig, running
from toolwright.adapters.store.opening import open_sqlite
from toolwright.core.agents.agent import MIND, SPACES
from toolwright.core.errors import (
    AlreadyExists,
    DefinitionError,
    Forbidden,
    InvalidConfiguration,
    InvalidRequest,
    NotFound,
)
from toolwright.core.journal.effects import Deliver
from toolwright.core.journal.units import Apply, SaveAgent, Unit
from toolwright.core.threads.event import Event
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ManualMotor, ScriptedModel

pytestmark = pytest.mark.anyio

CANARY = "k4nary-in-a-configuration-7919"
OUTSIDE: dict[str, Any] = {  # a configuration
    "name": "askOutside",
    "description": "Ask somebody outside.",
    "inputSchema": {"type": "object"},
    "executionType": "external",
    "visible": False,
}


@tw.tool(description="Say what KEY is.")
async def look(state: tw.ThreadState) -> dict[str, str | None]:
    return {"KEY": await state.env("KEY"), "OWN": await state.env("OWN")}


@tw.tool(description="Say what OWN is.")
async def peek(state: tw.ThreadState) -> dict[str, str | None]:
    return {"OWN": await state.env("OWN")}


@dataclass
class Office:
    """A runtime that declares the agent `host` and the tools `look` and `peek`, and a folder for scripts."""

    rt: Runtime
    motor: ManualMotor
    folder: Path
    scripts: list[Path] = field(default_factory=list[Path])

    def model(self, turns: Any) -> str:  # a script
        path = self.folder / f"{len(self.scripts)}.yaml"
        path.write_text(yaml.safe_dump(turns))
        self.scripts.append(path)
        return f"scripted:{path}"

    async def send(self, agent: str) -> tuple[str, str]:
        """Start a run in a new thread and execute it until it ends or is suspended. Return the ids."""
        thread = await self.rt.threads.create(agent)
        run = await self.rt.threads.send(thread.id, "Go")
        await self.motor.run_until_idle()
        return thread.id, run.id

    async def results(self, thread_id: str) -> list[str]:
        return [m.content for m in await self.rt.threads.messages(thread_id) if m.role == "tool"]


def an_app(tools: Sequence[tw.Tool] = (look, peek)) -> tw.App:
    host = tw.Agent("host", tw.Prompt("host", model=ScriptedModel([{"text": "Hi."}])))
    return tw.App(agents=[host], tools=tools)


@asynccontextmanager
async def office(folder: Path) -> AsyncGenerator[Office]:
    async with journals.by_hand(an_app()) as (rt, motor):
        yield Office(rt, motor, folder)


async def test_an_agent_is_saved_found_changed_renamed_and_deleted(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        agents = made.rt.agents
        saved = await agents.save("scout", {"agent": {"system": "You scout."}}, "Looks around")
        assert (saved.created, saved.agent.revision, saved.agent.toolkits) == (True, 1, [SPACES, MIND])
        again = await agents.save("scout", {"agent": {"system": "You look."}})
        assert (again.created, again.agent.id, again.agent.revision) == (False, saved.agent.id, 2)
        assert again.agent.description == ""
        assert await agents.get("scout") == await agents.get(saved.agent.id)
        renamed = await agents.update("scout", name="ranger", description="Roams")
        assert (renamed.id, renamed.revision, renamed.description) == (saved.agent.id, 3, "Roams")
        shown = await agents.show("ranger")
        assert shown.config == {"agent": {"system": "You look."}}
        assert [one.name for one in await agents.list()] == ["host", "ranger"]
        assert [one.name for one in await agents.list(1, 1)] == ["ranger"]
        with pytest.raises(NotFound):
            await agents.get("scout")
        await agents.delete("ranger")
        for gone in (agents.get("ranger"), agents.delete("ranger"), agents.update("ranger", name="x")):
            with pytest.raises(NotFound):
                await gone


async def test_what_is_the_same_is_not_written_again(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        config: dict[str, Any] = {
            "env": {"KEY": CANARY, "REGION": {"value": "eu", "type": "text"}},
            "tenvs": {"shop": {"url": "x"}},
            "tools": ["look", {"name": "peek", "env": {"OWN": "one"}}, OUTSIDE],
        }
        await made.rt.agents.save("scout", config, "Looks")
        for _ in range(2):
            assert (await made.rt.agents.save("scout", config, "Looks")).agent.revision == 1
        assert (await made.rt.agents.update("scout")).revision == 1
        for number, other in enumerate(
            (
                {**config, "env": {**config["env"], "KEY": "other"}},
                {**config, "tenvs": {"shop": {"url": "y"}}},
                {**config, "tools": ["look", {"name": "peek", "env": {"OWN": "two"}}, OUTSIDE]},
                {**config, "toolkits": []},
            )
        ):
            assert (await made.rt.agents.save("scout", other, "Looks")).agent.revision == number + 2
        assert (await made.rt.agents.save("scout", config, "Looks", trusted=True)).agent.revision == 6


async def test_names_are_given_once_and_those_of_the_app_never(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        agents = made.rt.agents
        await agents.save("scout", {})
        await agents.save("ranger", {})
        host = await agents.get("host")
        with pytest.raises(AlreadyExists, match="The app declares an agent 'host'"):
            await agents.save("host", {})
        with pytest.raises(AlreadyExists, match="The app declares an agent 'host'"):
            await agents.update("scout", name="host")
        with pytest.raises(AlreadyExists, match="another agent 'ranger'"):
            await agents.update("scout", name="ranger")
        for name in ("host", host.id):
            with pytest.raises(Forbidden, match="Change it there"):
                await agents.update(name, description="x")
            with pytest.raises(Forbidden, match="Change it there"):
                await agents.delete(name)
        for name in ("", " ", "x" * 201, "a\x00", "\ud800"):
            with pytest.raises(InvalidRequest, match="name"):
                await agents.save(name, {})
        assert sorted(one.name for one in await agents.list()) == ["host", "ranger", "scout"]


@pytest.mark.parametrize("toolkits", [[], ["spaces"], ["mind"], ["mind", "spaces"]])
async def test_the_twelve_built_in_tools_are_not_taken_away(tmp_path: Path, toolkits: list[Any]) -> None:
    async with office(tmp_path) as made:
        saved = await made.rt.agents.save("scout", {"toolkits": toolkits})
        assert saved.agent.toolkits == [SPACES, MIND]


async def test_a_name_never_resolves_to_another_agent_with_that_id(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        agents = made.rt.agents
        host, scout = await agents.get("host"), (await agents.save("scout", {})).agent
        await agents.save("ranger", {})
        for taken in (host.id, scout.id):
            with pytest.raises(AlreadyExists, match="is the id of another agent"):
                await agents.save(taken, {})
            with pytest.raises(AlreadyExists, match="is the id of another agent"):
                await agents.update("ranger", name=taken)
        assert (await agents.get(scout.id)).name == "scout"
        with pytest.raises(DefinitionError, match="is the id of another agent"):
            tw.App(agents=[host, tw.Agent(host.id, tw.Prompt("other"))])


async def test_a_value_that_says_text_stays_text_where_only_a_url_names_it(tmp_path: Path) -> None:
    execution = {"url": "https://api.test/${env.REGION}", "method": "GET"}
    gateway = {**OUTSIDE, "executionType": "gateway", "execution": execution}
    config: Any = {"tools": [gateway], "env": {"REGION": {"value": "eu", "type": "text"}}}
    async with office(tmp_path) as made:
        agent = (await made.rt.agents.save("scout", config)).agent
        types = (await made.rt.agents.active("scout")).types
        assert types.stored(agent.env)["REGION"].type == "text"
        assert types.type_of("REGION") == "secret"
        thread = await made.rt.threads.create("scout", env={"REGION": {"value": "us", "type": "text"}})
        assert thread.agent == agent.id


FAULTY: list[tuple[Any, list[str]]] = [
    ([], ["config"]),
    ({"nonsense": 1}, ["config.nonsense"]),
    ({"agent": {"system": 5}}, ["config.agent.system"]),
    ({"loop": {"maxSteps": 0}}, ["config.loop.maxSteps"]),
    ({"toolkits": ["spaces", "channels"]}, ["config.toolkits"]),
    ({"tools": ["nothing", 5]}, ["config.tools.0", "config.tools.1"]),
    ({"tools": [{**OUTSIDE, "foo": 1}]}, ["config.tools.0.foo"]),
    (
        {"tools": ["look", {**OUTSIDE, "inputSchema": {"type": "nonsense"}}]},
        ["config.tools.1.inputSchema.type"],
    ),
    ({"tools": [{**OUTSIDE, "executionType": "gateway"}]}, ["config.tools.0.execution.url"]),
    ({"tools": [{**OUTSIDE, "name": "skip"}]}, ["config.tools.0.name"]),
    ({"toolkits": [], "tools": [{**OUTSIDE, "name": "skip"}]}, ["config.tools.0.name"]),
    ({"toolkits": ["mind", "memory"]}, ["config.toolkits"]),
    (
        {"tools": [{name: part for name, part in OUTSIDE.items() if name != "executionType"}]},
        ["config.tools.0.executionType"],
    ),
    ({"model": "gpt"}, ["config.model"]),
    ({"model": "nobody:x"}, ["config.model"]),
    ({"model": {"provider": "nobody", "name": "x"}}, ["config.model"]),
    ({"tools": ["look", "look"]}, ["config.tools.1.name"]),
    ({"env": {"A": {"value": 1}}}, ["config.env.A.value"]),
    ({"env": {"A": {"value": "x", "type": "loud"}}}, ["config.env.A.type"]),
]


@pytest.mark.parametrize(("config", "paths"), FAULTY, ids=lambda given: str(given)[:40])
async def test_what_is_invalid_is_named_by_its_path_and_not_kept(
    tmp_path: Path, config: Any, paths: list[str]
) -> None:
    async with office(tmp_path) as made:
        with pytest.raises((InvalidConfiguration, InvalidRequest)) as caught:
            await made.rt.agents.save("scout", config)
        assert set(paths) <= {detail["path"] for detail in caught.value.details}
        assert paths[0] in caught.value.message
        assert [one.name for one in await made.rt.agents.list()] == ["host"]


async def test_a_parked_run_goes_on_with_what_it_began_with(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        first = made.model([calls("askOutside"), calls("look"), {"text": "Old."}])
        second = made.model([calls("peek"), {"text": "New."}])
        await made.rt.agents.save(
            "scout", {"model": first, "tools": [OUTSIDE, "look"], "env": {"KEY": "old-key"}}
        )
        thread_id, run_id = await made.send("scout")
        [call] = await made.rt.calls.list()
        await made.rt.agents.save("scout", {"model": second, "tools": ["peek"], "env": {"OWN": CANARY}})
        await made.rt.calls.submit(run_id, call.id, {"said": "old-key"})
        await made.motor.run_until_idle()
        assert await made.results(thread_id) == [
            '{"said":"[redacted:KEY]"}',
            '{"KEY":"[redacted:KEY]","OWN":null}',
        ]
        assert ((await made.rt.runs.get(run_id)).output, (await made.rt.runs.get(run_id)).revision) == (
            "Old.",
            1,
        )
        run = await made.rt.threads.send(thread_id, "Again")
        await made.motor.run_until_idle()
        run = await made.rt.runs.get(run.id)
        assert (run.output, run.revision) == ("New.", 2)
        assert (await made.results(thread_id))[-1] == '{"OWN":"[redacted:OWN]"}'


async def test_a_run_whose_model_fails_goes_on_with_the_agent_as_it_is_now(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        await made.rt.agents.save("scout", {"agent": {"system": "You scout."}})  # without a model
        await made.rt.inboxes.trigger("scout", "clock")
        await made.motor.run_until_idle()
        [run] = await made.rt.runs.list()
        assert (run.status, run.revision) == ("queued", 1)
        assert "has no model" in (run.error or "")
        await made.rt.agents.save("scout", {"model": made.model([{"text": "Done."}])})
        await made.motor.run_timers()
        [run] = await made.rt.runs.list()
        assert (run.status, run.output, run.revision, run.error) == ("completed", "Done.", 2, None)


async def test_a_run_whose_model_fails_and_has_done_something_goes_on_behind_it(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        model = made.model([calls("look"), {"text": "Down.", "fail": "unavailable"}])
        await made.rt.agents.save("scout", {"model": model, "tools": ["look"]})
        await made.rt.inboxes.trigger("scout", "clock")
        await made.motor.run_until_idle()
        model = made.model([{"text": "Never."}, {"text": "Now."}])
        await made.rt.agents.save("scout", {"model": model})
        await made.motor.run_timers()
        [run] = await made.rt.runs.list()
        assert (run.status, run.output, run.step_count) == ("completed", "Now.", 2)
        read = await made.results(run.thread_id)
        assert len(read) == 1, "what was done before the fault is not done again"


async def test_a_run_whose_model_fails_ends_with_its_agent(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        await made.rt.agents.save("scout", {"agent": {"system": "You scout."}})
        await made.rt.inboxes.trigger("scout", "clock")
        await made.motor.run_until_idle()
        await made.rt.agents.delete("scout")
        await made.motor.run_timers()
        assert {run.status for run in await made.rt.runs.list()} == {"failed"}
        [run, *_] = await made.rt.runs.list()
        assert "is not configured in this app" in (run.error or "")
        assert await made.motor.run_timers() == 0


async def test_an_open_call_is_answered_after_its_agent_is_gone(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        model = made.model([calls("askOutside"), {"text": "I know."}])
        await made.rt.agents.save("scout", {"model": model, "tools": [OUTSIDE]})
        thread_id, run_id = await made.send("scout")
        [call] = await made.rt.calls.list()
        await made.rt.agents.delete("scout")
        await made.rt.calls.submit(run_id, call.id, "here")
        await made.motor.run_until_idle()
        assert (await made.rt.runs.get(run_id)).output == "I know."
        assert await made.results(thread_id) == ["here"]
        run = await made.rt.threads.send(thread_id, "Again")
        await made.motor.run_until_idle()
        run = await made.rt.runs.get(run.id)
        assert (run.status, "is not configured in this app" in (run.error or "")) == ("failed", True)


async def test_values_of_one_tool_are_seen_by_that_tool_only(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        model = made.model([calls("look", "peek"), {"text": "Done."}])
        await made.rt.agents.save(
            "scout",
            {
                "model": model,
                "tools": ["look", {"name": "peek", "env": {"OWN": {"value": "mine", "type": "text"}}}],
                "env": {"KEY": {"value": "all", "type": "text"}},
            },
        )
        thread_id, _ = await made.send("scout")
        assert await made.results(thread_id) == ['{"KEY":"all","OWN":null}', '{"OWN":"mine"}']


async def test_options_of_a_tool_and_of_the_loop_hold_for_that_agent(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        model = made.model([calls("look") for _ in range(5)])
        options = {"visible": True, "timeout": 1_500}
        config: dict[str, Any] = {
            "model": model,
            "loop": {"maxSteps": 2, "inboxPreview": True},
            "tools": [{"name": "look", "options": options}],
        }
        agent = (await made.rt.agents.save("scout", config)).agent
        assert (agent.sides["side_a"].max_steps, agent.inbox_preview, agent.toolkits) == (
            2,
            True,
            [SPACES, MIND],
        )
        [tool] = (await made.rt.agents.active("scout")).tools
        assert (tool.visible, tool.timeout) == (True, 1.5)
        _, run_id = await made.send("scout")
        run = await made.rt.runs.get(run_id)
        assert (run.step_count, run.stop_reason) == (2, "max_steps")


async def test_of_two_who_save_at_once_both_are_heard(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        saves = [made.rt.agents.save("scout", {"agent": {"system": str(n)}}) for n in range(8)]
        saved = await asyncio.gather(*saves)
        assert sorted(each.agent.revision or 0 for each in saved) == list(range(1, 9))
        assert [each.created for each in saved].count(True) == 1
        assert len({each.agent.id for each in saved}) == 1


async def test_who_was_overtaken_tries_again_on_what_is_there() -> None:
    overtaken: list[Unit] = []
    async with running(ScriptedModel([]), [look]) as rig:

        async def before(_: int, unit: Unit) -> None:
            if isinstance(unit, SaveAgent) and not overtaken:
                overtaken.append(unit)
                await rig.rt.agents.save("scout", {"agent": {"system": "First."}})

        rig.store.before = before
        saved = await rig.rt.agents.save("scout", {"agent": {"system": "Second."}})
        assert (saved.created, saved.agent.revision) == (False, 2)


async def test_it_is_there_after_a_restart_and_its_secrets_lie_sealed(tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump([calls("look"), {"text": "Done."}]))
    config: dict[str, Any] = {
        "model": f"scripted:{script}",
        "tools": [{"name": "look", "env": {"OWN": CANARY}}],
        "env": {"KEY": f"{CANARY}-2"},
        "tenvs": {"place": "Ulm"},
    }
    async with an_app().runtime(settings) as rt:
        saved = await rt.agents.save("scout", config)
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("journal.db*"))  # noqa: ASYNC240 - a small folder
    assert CANARY.encode() not in kept and b"Ulm" in kept
    async with an_app().runtime(settings) as rt:
        shown = await rt.agents.show("scout")
        assert CANARY not in repr(shown)
        assert shown.config == {"model": f"scripted:{script}", "tools": [{"name": "look", "env": {}}]}
        assert (shown.agent.id, shown.agent.tenvs) == (saved.agent.id, {"place": "Ulm"})
        assert (await rt.agents.save("scout", config)).agent.revision == 1
        run = await send_to(rt, "scout")
        assert (await rt.runs.wait(run.id, 20)).status == "completed"
        said = [m.content for m in await rt.threads.messages(run.thread_id) if m.role == "tool"]
        assert said == ['{"KEY":"[redacted:KEY]","OWN":"[redacted:OWN]"}']


async def test_a_configuration_that_no_longer_fits_the_app_fails_its_runs_and_nothing_else(
    tmp_path: Path,
) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    async with an_app().runtime(settings) as rt:
        await rt.agents.save("scout", {"tools": ["peek"]}, "Looks")
        thread = await rt.threads.create("scout")
        ada = await rt.entities.create(external_id="ada")
        await rt.spaces.create("Tea", id="tea", members=[ada.id, "scout"])
    async with an_app([look]).runtime(settings) as rt:
        run = await rt.runs.wait((await rt.threads.send(thread.id, "Go")).id, 20)
        assert run.status == "failed"
        assert "tools.0 names the tool 'peek', which the app does not have" in (run.error or "")
        spoken = await rt.spaces.say("tea", ada.id, "Hello")
        [of_home] = spoken.runs.values()
        assert (await rt.runs.wait(of_home, 20)).status == "failed"
        assert [one.description for one in await rt.agents.list()] == ["", "Looks"]
        with pytest.raises(InvalidConfiguration, match="'peek'"):
            await rt.threads.create("scout")
        assert (await rt.agents.save("scout", {"tools": ["look"]}, "Looks")).agent.revision == 2
        await rt.agents.delete("scout")


async def test_an_agent_that_was_kept_before_texts_had_a_length_is_shown_whole_and_runs(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "journal.db"
    settings = tw.Settings(database_url=f"sqlite:///{journal}")
    made = Office(None, None, tmp_path)  # type: ignore[arg-type]  # only its scripts are needed
    long = {**OUTSIDE, "name": "ask" * 100, "description": "Ask. " * 30_000, "isAsync": True}
    config: dict[str, Any] = {
        "model": made.model([calls(str(long["name"])), {"text": "Asked."}]),
        "agent": {"system": "Be. " * 20_000},
        "tools": [long],
    }
    async with an_app().runtime(settings) as rt:
        await rt.agents.save("scout", {})
    store = await open_sqlite(journal, list[Event]().extend)
    row = await store.agents.named("scout")
    assert row is not None
    old = replace(row, config={**config, "trusted": False}, revision=2)
    await store.commit(SaveAgent(token="old", at=row.updated_at, agent=old, was=1))
    await store.close()
    async with an_app().runtime(settings) as rt:
        for shown in (await rt.agents.show("scout"), (await rt.agents.show_all())[-1]):
            assert shown.config == config
            side: Any = shown.agent.side_a
            assert [tool.name for tool in side.prompt.tools] == [long["name"]]
        run = await ran(rt, "scout")
        assert (run.status, run.error) == ("completed", None)
        assert [call.name for call in await rt.calls.list()] == [long["name"]]
        assert (await rt.agents.update("scout", description="Asks")).revision == 3
        said = "config.agent.system must have at most 65536 characters."
        for given in (rt.agents.save("scout", config), rt.agents.update("scout", config=config)):
            with pytest.raises(InvalidConfiguration) as refused:
                await given
            assert refused.value.message == said
            assert [each["path"] for each in refused.value.details] == [
                "config.agent.system",
                "config.tools.0.name",
                "config.tools.0.description",
            ]


@pytest.mark.parametrize(
    ("config", "path", "most"),
    [
        ({"mcp": {"servers": [{"name": "x" * 201, "url": "http://a"}]}}, "mcp.servers.0.name", 200),
        ({"mcp": {"servers": [{"name": "x", "url": "x" * 8193}]}}, "mcp.servers.0.url", 8192),
        (
            {"mcp": {"servers": [{"name": "x", "url": "u", "allowedTools": ["a", "x" * 1001]}]}},
            "mcp.servers.0.allowedTools.1",
            1000,
        ),
        ({"tools": ["x" * 1001]}, "tools.0", 1000),
        ({"tools": ["look", {"name": "x" * 1001}]}, "tools.1.name", 1000),
        ({"toolkits": ["x" * 201]}, "toolkits.0", 200),
        ({"userEnv": ["x" * 201]}, "userEnv.0", 200),
        ({"model": {"provider": "x" * 201, "name": "x"}}, "model.provider", 200),
    ],
)
async def test_texts_of_a_configuration_have_a_length(config: Any, path: str, most: int) -> None:
    async with journals.by_hand(an_app()) as (rt, _):
        with pytest.raises(InvalidConfiguration) as refused:
            await rt.agents.save("scout", config)
        assert refused.value.message == f"config.{path} must have at most {most} characters."


async def test_a_service_wakes_an_agent_each_time(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        model = made.model([{"text": "Seen."}])
        agent = (await made.rt.agents.save("scout", {"model": model})).agent
        event = await made.rt.inboxes.trigger("scout", "billing", {"invoice": 7})
        assert (event.type, event.depth, event.thread_id) == ("service", 0, agent.home_thread_id)
        await made.rt.inboxes.trigger("scout", "bell")
        await made.motor.run_until_idle()
        [run] = await made.rt.runs.list(agent=agent.id)
        assert (run.status, run.chain_depth) == ("completed", 0)
        asked, _ = await made.rt.threads.messages(agent.home_thread_id)
        assert asked.content == 'INBOX:\n[Service: billing] {"invoice":7}\n[Service: bell] null'
        events = await made.rt.inboxes.list("scout")
        assert len({each.event_id for each in events}) == 2
        for name in ("", " ", "x" * 201, "a\x00"):
            with pytest.raises(InvalidRequest, match="serviceName"):
                await made.rt.inboxes.trigger("scout", name)
        with pytest.raises(NotFound):
            await made.rt.inboxes.trigger("nobody", "bell")


async def test_a_trigger_is_one_commit_that_wakes_the_home_thread() -> None:
    async with running(ScriptedModel([{"text": "Seen."}])) as rig:
        event = await rig.rt.inboxes.trigger("tester", "bell")
        unit = rig.store.units[0]
        assert isinstance(unit, Apply)
        assert [type(effect) for effect in unit.effects] == [Deliver]
        await _idle(rig)
        assert (await rig.transcript(event.thread_id))[-1].content == "Seen."


async def _idle(rig: Rig) -> None:
    [run] = await rig.rt.runs.list()
    await rig.rt.runs.wait(run.id, 10)


async def test_the_prompt_is_what_the_model_reads(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        enter = {"calls": [{"name": "enter_space", "args": {"spaceId": "tea"}}]}
        model = made.model([enter, {"text": "In."}])
        tools = [OUTSIDE | {"visible": True}]
        config: dict[str, Any] = {"agent": {"system": "You scout."}, "model": model, "tools": tools}
        agent = (await made.rt.agents.save("scout", config)).agent
        await made.rt.spaces.create("Tea", id="tea", members=["scout"])
        await made.rt.spaces.create("Secret", id="secret")
        await made.rt.spaces.create("Hall", id="hall", kind="public")
        told = await made.rt.prompts.of("scout")
        assert told.prompt == "\n\n".join(part.text for part in told.sections)
        assert [part.name for part in told.sections] == ["system", "identity", "rules", "spaces"]
        assert told.prompt.startswith(f"You scout.\n\nYou are scout (entityId: {agent.entity_id}).")
        assert "You have not entered a space." in told.prompt and "askOutside" in told.prompt
        assert "— you are here" in (await made.rt.prompts.of("scout", "tea")).prompt
        assert "You have not entered" not in (await made.rt.prompts.of("scout", "hall")).prompt
        for space_id in ("secret", "nowhere"):
            with pytest.raises(NotFound, match=space_id):
                await made.rt.prompts.of("scout", space_id)
        await made.rt.inboxes.trigger("scout", "bell")
        await made.motor.run_until_idle()
        assert "— you are here" in (await made.rt.prompts.of("scout")).prompt
        assert [part.name for part in (await made.rt.prompts.of("host")).sections] == ["system"]
