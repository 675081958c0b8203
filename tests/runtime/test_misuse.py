"""Invalid arguments of the runtime's methods: one sentence of the right class, and nothing has changed."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from toolwright import testing
from toolwright.core.errors import InvalidRequest, NotFound, StoreError
from toolwright.runtime.runtime import Runtime

WRONG: Any = 5  # a value that no parameter accepts
LIST: Any = []
TEXT: Any = "x"

Misuse = Callable[[Runtime, str, str], Awaitable[object]]

REFUSED: list[tuple[Misuse, str]] = [
    (lambda rt, _, __: rt.threads.create("a", tags=WRONG), "tags must be a list of texts, not 5."),
    (
        lambda rt, _, __: rt.threads.create("a", tags=["ok", WRONG]),
        "tags must be a list of texts, not one with 5.",
    ),
    (lambda rt, _, __: rt.threads.list(among=WRONG), "among must be a list of texts, not 5."),
    (
        lambda rt, thread, _: rt.threads.send(thread, "x", WRONG),
        "attachments must be a list of attachments, not 5.",
    ),
    (
        lambda rt, thread, _: rt.threads.send(thread, "x", [WRONG]),
        "attachments must be a list of attachments, not one with 5.",
    ),
    (lambda rt, _, __: rt.runs.wait("run", TEXT), "timeout must be a number of seconds, not 'x'."),
    (lambda rt, _, __: rt.entities.list(TEXT), "limit must be a non-negative integer."),
    (
        lambda rt, _, one: rt.entities.update(one, foo=1),  # type: ignore[arg-type]  # misuse
        "foo is not a field of an entity; the fields are external_id, display_name and metadata.",
    ),
    (lambda rt, _, __: rt.calls.list(status="pending"), "status must be a list of statuses, not 'pending'."),  # type: ignore[arg-type]  # misuse
    (
        lambda rt, _, __: rt.events.list(WRONG),
        "topic must be a topic: a thread, a run or a space, by its id, not 5.",
    ),
    (
        lambda rt, _, __: anext(aiter(rt.events.follow(TEXT))),
        "topic must be a topic: a thread, a run or a space, by its id, not 'x'.",
    ),
]

NOWHERE: list[tuple[Misuse, str]] = [
    (lambda rt, _, __: rt.calls.get(WRONG), "Pending tool call not found"),
    (lambda rt, _, __: rt.calls.submit(WRONG, WRONG, WRONG), "Pending tool call not found"),
    (lambda rt, _, __: rt.files.list(LIST), "There is no thread []."),
    (lambda rt, _, __: rt.files.get(LIST, "x"), "There is no thread []."),
    (lambda rt, _, __: rt.threads.set_env(LIST, {}), "There is no thread []."),
    (lambda rt, _, __: rt.entities.get(LIST), "There is no entity []."),
    (lambda rt, _, __: rt.entities.delete(LIST), "There is no entity []."),
]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("misuse", "error", "sentence"),
    [(each, InvalidRequest, said) for each, said in REFUSED]
    + [(each, NotFound, said) for each, said in NOWHERE],
)
async def test_misuse_is_refused_in_one_sentence_and_changes_nothing(
    misuse: Misuse, error: type[tw.ToolwrightError], sentence: str
) -> None:
    app = tw.App(agents=[tw.Agent("a", tw.Prompt("p"))])
    async with testing.runtime(app) as runtime:
        thread, entity = await runtime.threads.create("a"), await runtime.entities.create(external_id="e")
        with pytest.raises(error) as refused:
            await misuse(runtime, thread.id, entity.id)
        assert refused.value.message == sentence
        assert await runtime.threads.list() == [thread]
        assert await runtime.runs.list() == []
        assert await runtime.entities.get(entity.id) == entity
        assert await runtime.threads.messages(thread.id) == []


@pytest.mark.anyio
async def test_an_agent_that_is_not_named_by_text_is_not_there() -> None:
    async with testing.runtime(tw.App()) as runtime:
        for name in (WRONG, LIST):
            with pytest.raises(NotFound, match="An agent's name or id must be text"):
                await runtime.agents.get(name)
        assert await runtime.entities.get_by_external_id(LIST) is None


BY_ITSELF: list[tuple[Callable[[Runtime, Any, Any], Awaitable[object]], str]] = [
    (
        lambda rt, thread, _: rt.threads.get(thread),
        "thread_id must be an id, not a Thread: pass its .id.",
    ),
    (
        lambda rt, thread, _: rt.threads.send(thread, "x"),
        "thread_id must be an id, not a Thread: pass its .id.",
    ),
    (
        lambda rt, _, run: rt.threads.messages(run),
        "thread_id must be an id, not a Run: pass its .thread_id.",
    ),
    (
        lambda rt, thread, _: rt.threads.cancel(thread),
        "thread_id must be an id, not a Thread: pass its .id.",
    ),
    (
        lambda rt, thread, _: rt.threads.set_env(thread, {}),
        "thread_id must be an id, not a Thread: pass its .id.",
    ),
    (
        lambda rt, thread, _: rt.files.list(thread),
        "thread_id must be an id, not a Thread: pass its .id.",
    ),
    (
        lambda rt, thread, _: rt.requests.list(thread),
        "thread_id must be an id, not a Thread: pass its .id.",
    ),
    (lambda rt, _, run: rt.runs.get(run), "run_id must be an id, not a Run: pass its .id."),
    (lambda rt, _, run: rt.runs.wait(run), "run_id must be an id, not a Run: pass its .id."),
    (lambda rt, _, run: rt.runs.cancel(run), "run_id must be an id, not a Run: pass its .id."),
    (lambda rt, _, run: rt.runs.steps(run), "run_id must be an id, not a Run: pass its .id."),
    (
        lambda rt, thread, _: rt.runs.list(thread_id=thread),
        "thread_id must be an id, not a Thread: pass its .id.",
    ),
    (
        lambda rt, _, run: rt.calls.list(run_id=run),
        "run_id must be an id, not a Run: pass its .id.",
    ),
    (
        lambda rt, _, run: rt.calls.submit(run, "c", 1),
        "run_id must be an id, not a Run: pass its .id.",
    ),
    (
        lambda rt, thread, _: rt.calls.get(thread),
        "call_id must be an id, not a Thread: pass its .id.",
    ),
    (
        lambda rt, thread, _: rt.spaces.get(thread),
        "space_id must be an id, not a Thread: pass its .id.",
    ),
    (
        lambda rt, thread, _: rt.entities.get(thread),
        "entity_id must be an id, not a Thread: pass its .id.",
    ),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("misuse", "sentence"), BY_ITSELF)
async def test_a_thread_or_a_run_instead_of_its_id_is_reported(
    misuse: Callable[[Runtime, Any, Any], Awaitable[object]], sentence: str
) -> None:
    prompt = tw.Prompt("p", model=testing.ScriptedModel([{"text": "Hi."}]))
    async with testing.runtime(tw.App(agents=[tw.Agent("a", prompt)])) as runtime:
        thread = await runtime.threads.create("a")
        run = await runtime.runs.wait((await runtime.threads.send(thread.id, "Go")).id, 10)
        with pytest.raises(InvalidRequest) as refused:
            await misuse(runtime, thread, run)
        assert refused.value.message == sentence


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201])
async def test_the_name_of_a_tenv_is_validated_as_that_of_a_value(name: str) -> None:
    async with testing.runtime(tw.App(agents=[tw.Agent("a", tw.Prompt("p"))])) as runtime:
        for given in ({"tenvs": {name: 1}}, {"env": {name: "x"}}):
            with pytest.raises(
                InvalidRequest, match=r"has the name .*: a name is printable, of 1 to 200 characters"
            ):
                await runtime.threads.create("a", **given)  # type: ignore[arg-type]  # one of them


@pytest.mark.anyio
async def test_a_status_that_does_not_exist_is_reported_and_does_not_match_nothing() -> None:
    misspelt: Any = "runing"
    async with testing.runtime(tw.App()) as runtime:
        with pytest.raises(InvalidRequest, match=r"status must be 'queued', .* or 'skipped', not 'runing'\."):
            await runtime.runs.list(status=misspelt)
        with pytest.raises(InvalidRequest, match=r"status must be .*, not 'runing'\."):
            await runtime.calls.list(status=("waiting", misspelt))


@pytest.mark.anyio
async def test_a_wait_that_is_over_names_its_run_and_a_wrong_limit_is_reported() -> None:
    model = testing.ScriptedModel([{"text": "Hi.", "delay": 600}])
    async with testing.by_hand(tw.App(agents=[tw.Agent("a", model=model)])) as (runtime, _):
        run = await runtime.threads.send((await runtime.threads.create("a")).id, "Go")
        with pytest.raises(TimeoutError, match=rf"The run '{run.id}' did not finish within 0 seconds\."):
            await runtime.runs.wait(run.id, 0)
        for wrong in ("5", float("nan"), True):
            with pytest.raises(InvalidRequest, match="timeout must be a number of seconds, not"):
                await runtime.runs.wait(run.id, wrong)  # type: ignore[arg-type]  # a user's mistake


@pytest.mark.anyio
async def test_a_runtime_that_is_closed_says_so_for_reads_and_writes(tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'closed.db'}")
    async with tw.App(agents=[tw.Agent("a")]).runtime(settings) as runtime:
        thread = await runtime.threads.create("a")
    for late in (runtime.threads.get(thread.id), runtime.threads.create("a")):
        with pytest.raises(StoreError, match=r"^The journal is closed\.$"):
            await late


@pytest.mark.anyio
async def test_a_tool_that_returns_a_coroutine_reads_that_an_await_is_missing() -> None:
    async def fetch() -> int:
        return 1

    @tw.tool(description="Fetch.")
    async def forgot() -> object:
        return {"rows": made}

    made = fetch()
    result = await tw.Toolset([forgot]).call("forgot", {})
    made.close()
    assert result.error == (
        "The tool returned a value that is not JSON: rows is a coroutine: an await is missing."
    )


@pytest.mark.anyio
async def test_changes_that_are_none_are_reported() -> None:
    none: Any = None
    async with testing.runtime(tw.App(agents=[tw.Agent("a", instructions="I.")])) as rt:
        for door in (rt.minds.set_goals, rt.minds.set_memories, rt.minds.set_plans):
            with pytest.raises(InvalidRequest, match=r"changes must be a list of .* values, not None"):
                await door("a", none)
