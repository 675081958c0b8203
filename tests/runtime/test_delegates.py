"""Delegates (S1 `_delegate`): new requests and agents that execute calls, isolated except for their scopes."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.kit import Watched, hang, ran, send_to
from tests.runtime.solving import Raw
from toolwright.core.agents.catalog import REQUESTS
from toolwright.core.errors import DefinitionError, InvalidConfiguration, NotFound
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.runtime.runtime import Runtime
from toolwright.testing import runtime

pytestmark = pytest.mark.anyio

SUMMARY: dict[str, Any] = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
}
ANSWER: dict[str, Any] = {"type": "object", "additionalProperties": True}


def waiting(turns: Mapping[str, Sequence[object]]) -> tuple[Watched, asyncio.Event]:
    """Return a model that never answers the delegate, and the event that is set by the delegate's request."""
    begun = asyncio.Event()

    async def wait(request: ModelRequest) -> None:
        if request.who[-1] == "sum_up":
            begun.set()
            await hang()

    return Watched(turns, wait), begun


def tool(delegate: object, **meta: object) -> dict[str, Any]:
    return {
        "type": "object",
        "description": "Sums a text up",
        "properties": {"text": {"type": "string"}, "_delegate": delegate, "_output": SUMMARY, **meta},
        "required": ["text"],
    }


def answer(output: object, *calls: dict[str, Any]) -> dict[str, str]:
    return {"text": json.dumps({"output": output, "calls": list(calls)})}


def parent(*calls: dict[str, Any]) -> list[dict[str, str]]:
    return [answer(None, *calls), answer({"done": True})]


def call(**more: object) -> dict[str, Any]:
    return {"_tool": "sum_up", "text": "long", **more}


async def solved(rt: Runtime, model: object, *context: object) -> tw.Solution:
    async with asyncio.timeout(20):
        return await rt.request({"model": model}, ANSWER, [{"type": "tool", "tool": "sum_up"}, *context])


def app(
    delegate: object, saved: Path | None = None, agents: Sequence[tw.Agent] = (), **meta: object
) -> tw.App:
    registry = tw.Registry()
    registry.tool("sum_up", tool(delegate, **meta))
    return tw.App(registry=registry, requests=saved, agents=agents)


async def test_an_anonymous_delegate_knows_the_call_and_nothing_else() -> None:
    model = Watched({"request": parent(call()), "sum_up": [answer({"summary": "short"})]})
    async with runtime(app({"const": "anonymous"})) as rt:
        solution = await solved(
            rt, model, {"type": "text", "text": "A secret matter"}, {"type": "data", "data": 17}
        )
        [made] = solution.calls
        assert made.result is not None and made.result.result == {"summary": "short"}
        assert made.delegate == "anonymous"
        told = model.told("sum_up")
        assert "Sums a text up" in told and '"long"' in told
        assert "A secret matter" not in told and "17" not in told
        [row] = await rt.calls.list(run_id=solution.run_id, status=())
        assert (row.kind, row.status) == ("delegate", "resolved")
        [child] = await rt.threads.children(solution.thread_id)
        assert child.status == "terminated"


async def test_what_a_delegate_answers_is_held_to_the_tools_output() -> None:
    wrong = answer({"summary": 1})
    model = Watched({"request": parent(call()), "sum_up": [wrong, answer({"summary": "ok"})]})
    async with runtime(app({"const": "anonymous"})) as rt:
        [made] = (await solved(rt, model)).calls
        assert made.result is not None and made.result.result == {"summary": "ok"}
        first, second = model.of("sum_up")
        assert "output.summary" in second.messages[-1].content
        assert first.answer is not None
        assert second.answer is first.answer, "models know a schema by its identity"
    model = Watched({"request": parent(call()), "sum_up": [wrong, wrong, wrong]})
    async with runtime(app({"const": "anonymous"})) as rt:
        [made] = (await solved(rt, model)).calls
        assert made.result is not None and made.result.status == "error"
        assert "broke its schema" in str(made.result.error)


async def test_a_call_chooses_its_delegate_where_the_tool_leaves_it_open() -> None:
    model = Watched(
        {
            "request": parent(
                call(_delegate="anonymous"), call(_output={"summary": "my own"}), call(_delegate="nobody")
            ),
            "sum_up": [answer({"summary": "theirs"})],
        }
    )
    async with runtime(app({"type": "string"})) as rt:
        solution = await solved(rt, model)
        results = [each.result for each in solution.calls if each.result is not None]
        assert [each.result for each in results] == [{"summary": "theirs"}, {"summary": "my own"}, None]
        assert results[2].error == "There is no delegate 'nobody'; there are 'anonymous'."
        kinds = {row.position: row.kind for row in await rt.calls.list(run_id=solution.run_id, status=())}
        assert kinds == {0: "delegate", 1: "latent", 2: "delegate"}


@pytest.mark.parametrize("name", ["_delegate", r"_d\u0065legate"])
async def test_the_kind_of_a_call_is_known_however_its_delegate_is_spelled(name: str) -> None:
    arguments = f'{{"text": "long", "{name}": "anonymous"}}'
    made = ModelResponse(calls=(ModelCall(id="1", name="sum_up", arguments=arguments),))
    async with runtime(app({"type": "string"})) as rt, asyncio.timeout(20):
        raw = Raw(made, answer({"summary": "theirs"})["text"], answer({"done": True})["text"])
        [row] = await rt.calls.list(run_id=(await solved(rt, raw)).run_id, status=())
        assert (row.kind, row.status) == ("delegate", "resolved")


async def test_a_call_with_neither_output_nor_delegate_is_sent_back() -> None:
    model = Watched({"request": [answer(None, call()), *parent(call(_output={"summary": "x"}))]})
    async with runtime(app({"type": "string"})) as rt:
        solution = await solved(rt, model)
        assert len(solution.calls) == 1
        assert "calls.0" in model.requests[1].messages[-1].content


async def test_scopes_show_what_they_name() -> None:
    scopes = {"const": ["messages", "data", "state", "†input.topic"]}
    model = Watched({"request": parent(call()), "sum_up": [answer({"summary": "short"})]})
    async with runtime(app({"const": "anonymous"}, _scopes=scopes)) as rt:
        await solved(
            rt,
            model,
            {"type": "text", "text": "A secret matter"},
            {"type": "data", "data": {"number": 17}},
            {"type": "state", "state": {"mood": "calm"}},
            {"type": "input", "input": {"topic": "rain", "other": "hidden"}},
        )
        told = model.told("sum_up")
        for part in ("A secret matter", "17", "calm", "rain"):
            assert part in told
        [data] = [text for text in told.split("\n\n") if text.startswith("Input (†input)")]
        assert "hidden" not in data


async def test_scopes_show_nothing_of_other_instances() -> None:
    scopes = {"const": ["messages", "data", "state", "input"]}
    model = Watched({"request": parent(call(_instance="a")), "sum_up": [answer({"summary": "short"})]})
    context: list[dict[str, Any]] = [
        {"type": "data", "data": "a's data", "instance": "a"},
        {"type": "data", "data": "b's data", "instance": "b"},
        {"type": "text", "text": "a's text", "instance": "a"},
        {"type": "text", "text": "b's text", "instance": "b"},
        {"type": "text", "text": "everybody's text"},
        {"type": "state", "state": {"k": "b's state"}, "instance": "b"},
        {"type": "input", "input": {"k": "b's input"}, "instance": "b"},
    ]
    tools = app({"const": "anonymous"}, _scopes=scopes, _instance={"type": "string"})
    async with runtime(tools) as rt:
        await solved(rt, model, *context)
        told = model.told("sum_up")
        assert all(part in told for part in ("a's data", "a's text", "everybody's text"))
        assert "b's" not in told


@pytest.mark.parametrize(
    "scopes",
    [["state", "input", "†state.list.0", "†input.list.1.a"], ["†state.list", "†input.list", "†state.list.0"]],
)
async def test_a_list_that_is_shown_stays_whole_where_an_item_of_it_is_named_too(scopes: list[str]) -> None:
    model = Watched({"request": parent(call()), "sum_up": [answer({"summary": "short"})]})
    async with runtime(app({"const": "anonymous"}, _scopes={"const": scopes})) as rt:
        state, given = {"list": [1, 2]}, {"list": [3, {"a": 4}]}
        await solved(rt, model, {"type": "state", "state": state}, {"type": "input", "input": given})
        told = model.told("sum_up")
        assert '{"list":[1,2]}' in told and '"list":[3,{"a":4}]' in told


async def test_a_scope_that_leads_nowhere_is_an_error_of_the_call() -> None:
    model = Watched({"request": parent(call())})
    async with runtime(app({"const": "anonymous"}, _scopes={"const": ["†state.nothing"]})) as rt:
        [made] = (await solved(rt, model)).calls
        assert made.result is not None and "†state.nothing" in str(made.result.error)


def saved(folder: Path, **requests: object) -> Path:
    for name, request in requests.items():
        text = request if isinstance(request, str) else json.dumps(request)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return folder


async def test_a_saved_request_is_a_delegate_with_its_own_context_and_tools(tmp_path: Path) -> None:
    request = {
        "config": {"name": "summariser", "maxSteps": 3},
        "schema": {"type": "object"},
        "context": [
            {"type": "text", "text": "Be brief."},
            {"type": "tool", "tool": {"count": {"type": "object", "properties": {"n": {"type": "integer"}}}}},
        ],
    }
    model = Watched(
        {
            "request": parent(call()),
            "summariser": [answer(None, {"_tool": "count", "n": 2}), answer({"summary": "brief"})],
        }
    )
    async with runtime(app({"const": "summary"}, saved(tmp_path, summary=request))) as rt:
        [made] = (await solved(rt, model, {"type": "text", "text": "A secret matter"})).calls
        assert made.result is not None and made.result.result == {"summary": "brief"}
        told = model.told("summariser")
        assert "Be brief." in told and '"long"' in told and "A secret matter" not in told


async def test_a_registered_agent_is_a_delegate_whose_answer_is_held_to_the_output() -> None:
    model = Watched(
        {
            "request": parent(call()),
            "writer": [{"text": "no JSON"}, {"text": json.dumps({"summary": "by the agent"})}],
        }
    )
    writer = tw.Agent("writer", tw.Prompt("writer", "You write.", model=model))
    async with runtime(app({"const": "writer"}, agents=[writer])) as rt:
        solution = await solved(rt, model, {"type": "text", "text": "A secret matter"})
        [made] = solution.calls
        assert made.result is not None and made.result.result == {"summary": "by the agent"}
        assert "A secret matter" not in model.told("writer")
        [child] = await rt.threads.children(solution.thread_id)
        assert (child.agent, child.arguments) == (writer.id, {"text": "long"})


async def test_an_agent_is_named_as_a_delegate_by_its_id_too_and_may_be_configured(tmp_path: Path) -> None:
    model = Watched({"request": parent(call()), "writer": [{"text": json.dumps({"summary": "by id"})}]})
    writer = tw.Agent("writer", tw.Prompt("writer", model=model))
    async with runtime(app({"const": writer.id}, agents=[writer])) as rt:
        [made] = (await solved(rt, model)).calls
        assert made.result is not None and made.result.result == {"summary": "by id"}
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps([{"json": {"summary": "configured"}}]))
    config: dict[str, Any] = {"agent": {"system": "You write."}, "model": f"scripted:{script}"}
    model = Watched({"request": parent(call(_delegate="poet"))})
    async with runtime(app({"type": "string"})) as rt:
        await rt.agents.save("poet", config)
        [made] = (await solved(rt, model)).calls
        assert made.result is not None and made.result.result == {"summary": "configured"}


async def test_an_agent_of_two_sides_is_no_delegate_of_a_tool_with_an_output() -> None:
    model = Watched({"request": parent(call())})
    sides = [tw.Side(tw.Prompt(name, model=model)) for name in ("one", "other")]
    talkers = tw.Agent("talkers", type="dual_ai", side_a=sides[0], side_b=sides[1], max_session_turns=2)
    async with runtime(app({"const": "talkers"}, agents=[talkers])) as rt:
        solution = await solved(rt, model)
        [made] = solution.calls
        assert made.result is not None
        assert made.result.error == (
            "The agent 'talkers' talks with itself, so it cannot answer with the _output of 'sum_up'."
        )
        assert await rt.threads.children(solution.thread_id) == []


async def test_no_delegate_and_no_thread_is_of_the_agent_that_answers_requests() -> None:
    model = Watched({"request": parent(call(_delegate=REQUESTS.id, schema={}))})
    async with runtime(app({"type": "string"})) as rt:
        [made] = (await solved(rt, model)).calls
        assert made.result is not None
        assert made.result.error == f"There is no delegate {REQUESTS.id!r}; there are 'anonymous'."
        with pytest.raises(NotFound, match="There is no agent"):
            await rt.threads.create(REQUESTS.id, arguments={"schema": {}})


async def test_the_input_of_an_agent_that_is_delegated_to_is_the_arguments_alone() -> None:
    turns = {
        "request": parent(call()),
        "writer": [
            {"calls": [{"name": "echo", "args": {"said": "†input"}}]},
            {"text": '{"summary": "x"}'},
        ],
    }
    model, heard = Watched(turns), list[object]()
    registry = tw.Registry()
    registry.tool("sum_up", tool({"const": "writer"}))

    @registry.tool("echo", {"properties": {"said": {}}})
    def echo(said: object) -> None:
        heard.append(said)

    writer = tw.Agent("writer", tw.Prompt("writer", model=model, tools=["echo"]))
    async with runtime(tw.App(agents=[writer], registry=registry)) as rt:
        [made] = (await solved(rt, model)).calls
        assert made.result is not None and made.result.result == {"summary": "x"}
        assert heard == [{"text": "long"}]


async def test_an_agent_is_told_who_said_what_before() -> None:
    model = Watched({"request": parent(call()), "writer": [{"text": '{"summary": "x"}'}]})
    writer = tw.Agent("writer", tw.Prompt("writer", model=model))
    said = [("user", "Be kind."), ("assistant", "Never."), ("user", "Please.")]
    async with runtime(app({"const": "writer"}, agents=[writer], _scopes={"const": ["messages"]})) as rt:
        await solved(rt, model, *[{"role": role, "content": text} for role, text in said])
        told = model.told("writer")
        assert "Said before by the user:\nBe kind." in told
        assert "Said before by the assistant:\nNever." in told


async def test_a_tool_of_an_agents_prompt_is_delegated_too() -> None:
    made = {"calls": [{"name": "sum_up", "args": {"text": "long"}}]}
    model = Watched({"chief": [made, {"text": "Done."}], "sum_up": [answer({"summary": "short"})]})
    registry = tw.Registry()
    registry.tool("sum_up", tool({"const": "anonymous"}))
    chief = tw.Agent("chief", tw.Prompt("chief", model=model, tools=["sum_up"]))
    async with runtime(tw.App(agents=[chief], registry=registry)) as rt, asyncio.timeout(20):
        run = await ran(rt, "chief", "A secret matter")
        assert run.output == "Done."
        assert "A secret matter" not in model.told("sum_up")
        results = [m.content for m in await rt.threads.messages(run.thread_id) if m.role == "tool"]
        assert results == ['{"summary":"short"}']


async def test_delegates_that_delegate_without_end_are_stopped() -> None:
    again = {"type": "tool", "tool": "sum_up"}
    turns = parent(call())
    model = Watched({"request": turns, "loop": turns, "sum_up": turns})
    registry = tw.Registry()
    registry.tool(
        "sum_up", tool({"const": "anonymous"}, _scopes={"const": ["tools"]}, _output={"type": "object"})
    )
    async with runtime(tw.App(registry=registry), tw.Settings(max_subagent_depth=4)) as rt:
        solution = await solved(rt, model, again)
        assert solution.output == {"done": True}
        depth, thread_id = 0, solution.thread_id
        while children := await rt.threads.children(thread_id):
            depth, thread_id = depth + 1, children[0].id
        assert depth == 4
        last = [m.content for m in await rt.threads.messages(thread_id) if m.role == "tool"]
        assert "at most 4 deep" in last[0]


async def test_a_cancelled_request_stops_its_delegates() -> None:
    async with runtime(app({"const": "anonymous"})) as rt, asyncio.timeout(20):
        model, begun = waiting({"request": parent(call())})
        context = [{"type": "tool", "tool": "sum_up"}]
        run = await rt.begin_request({"model": model}, {"type": "object"}, context)
        await begun.wait()
        await rt.runs.cancel(run.id)
        assert (await rt.runs.wait(run.id)).status == "cancelled"
        [child] = await rt.threads.children(run.thread_id)
        [below] = await rt.runs.list(thread_id=child.id)
        assert (await rt.runs.wait(below.id)).status == "cancelled"


@pytest.mark.parametrize(
    ("delegate", "words"),
    [
        ({"const": "nobody"}, "has the unknown delegate 'nobody'. Choose one of 'anonymous'."),
        ({"enum": ["anonymous", "nobody"]}, "has the unknown delegate 'nobody'. Choose one of 'anonymous'."),
        ({"const": "../secret"}, "has the unknown delegate '../secret'. Choose one of 'anonymous'."),
    ],
)
def test_a_missing_delegate_is_reported_when_the_app_is_made(delegate: object, words: str) -> None:
    with pytest.raises(DefinitionError) as told:
        app(delegate)
    assert words in told.value.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "The saved request 'broken' is not valid JSON"),
        ("[]", "The saved request 'broken': must be an object."),
        ({"schema": {}, "contxt": []}, "The saved request 'broken': contxt is not a known field."),
        ({"schema": {"type": 3}}, "The saved request 'broken' cannot be used: The output schema"),
        (
            {"schema": {}, "context": [{"type": "tool", "tool": "nothing"}]},
            "The saved request 'broken' cannot be used: The request names the tool 'nothing'",
        ),
    ],
)
def test_an_unusable_saved_request_is_reported_when_the_app_is_made(
    tmp_path: Path, text: object, words: str
) -> None:
    with pytest.raises(DefinitionError) as told:
        tw.App(requests=saved(tmp_path, broken=text))
    assert words in told.value.message


def test_saved_requests_come_from_their_folder_alone(tmp_path: Path) -> None:
    folder, outside = tmp_path / "requests", tmp_path / "outside.json"
    (folder / "team").mkdir(parents=True)
    outside.write_text('{"schema": {}}')
    saved(folder / "team", review={"schema": {}})
    assert list(tw.App(requests=folder).catalog.requests) == ["team/review"]
    (folder / "link.json").symlink_to(outside)
    with pytest.raises(DefinitionError, match="The saved request 'link' lies outside its folder"):
        tw.App(requests=folder)
    with pytest.raises(DefinitionError, match="There is no folder"):
        tw.App(requests=tmp_path / "nowhere")
    with pytest.raises(DefinitionError, match="requests must be the path of a folder, not ''"):
        tw.App(requests="")


def test_hidden_files_are_no_saved_requests(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / ".vscode", tmp_path / "team" / ".old"):
        folder.mkdir(parents=True, exist_ok=True)
    saved(tmp_path, review={"schema": {}})
    for name in (".json", "._review.json", ".vscode/settings.json", "team/.old/review.json"):
        (tmp_path / name).write_text("{}")
    assert list(tw.App(requests=tmp_path).catalog.requests) == ["review"]


def test_names_of_saved_requests_are_their_own(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="No saved request may be named 'anonymous'"):
        tw.App(requests=saved(tmp_path, anonymous={"schema": {}}))
    (tmp_path / "anonymous.json").unlink()
    with pytest.raises(DefinitionError, match="'writer' is both an agent and a saved request"):
        tw.App(
            requests=saved(tmp_path, writer={"schema": {}}), agents=[tw.Agent("writer", tw.Prompt("writer"))]
        )


def test_scopes_are_validated_with_the_schema() -> None:
    with pytest.raises(InvalidConfiguration, match=r"properties._scopes.const must be a list of messages"):
        app({"const": "anonymous"}, _scopes={"const": ["everything"]})


async def test_what_a_handler_has_delegated_is_written_with_its_own_result() -> None:
    registry = tw.Registry()
    registry.tool("sum_up", tool({"const": "anonymous"}, _outputPath={"const": "†state.sum"}))

    @registry.tool("both", {"type": "object"})
    async def both(state: tw.ThreadState) -> object:
        result = await state.invoke_tool("sum_up", {"text": "long"})
        return [result.result, await state.get_value("sum")]

    assert both
    model = Watched({"request": parent({"_tool": "both"}), "sum_up": [answer({"summary": "short"})]})
    async with runtime(tw.App(registry=registry)) as rt:
        solution = await solved(rt, model, {"type": "tool", "tool": "both"})
        [made] = solution.calls
        assert made.result is not None and made.result.result == [{"summary": "short"}, {"summary": "short"}]
        assert solution.state == {"sum": {"summary": "short"}}


async def test_the_result_of_a_delegate_goes_to_its_output_path() -> None:
    model = Watched({"request": parent(call()), "sum_up": [answer({"summary": "short"})]})
    async with runtime(app({"const": "anonymous"}, _outputPath={"const": "†state.sum"})) as rt:
        assert (await solved(rt, model)).state == {"sum": {"summary": "short"}}


async def test_a_delegate_goes_on_in_another_process(tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")

    def apps(model: object) -> tw.App:
        registry = tw.Registry()
        registry.tool("sum_up", tool({"const": "anonymous"}, _outputPath={"const": "†state.sum"}))
        return tw.App(
            registry=registry, agents=[tw.Agent("chief", tw.Prompt("chief", model=model, tools=["sum_up"]))]
        )

    chief = [{"calls": [{"name": "sum_up", "args": {"text": "long"}}]}, {"text": "Done."}]
    model, begun = waiting({"chief": chief})
    async with asyncio.timeout(30), apps(model).runtime(settings, grace=0.0) as rt:
        run = await send_to(rt, "chief")
        await begun.wait()
    model = Watched({"chief": chief, "sum_up": [answer({"summary": "short"})]})
    async with asyncio.timeout(30), apps(model).runtime(settings) as rt:
        assert (await rt.runs.wait(run.id)).output == "Done."
        results = [m.content for m in await rt.threads.messages(run.thread_id) if m.role == "tool"]
        assert results == ['{"summary":"short"}']
