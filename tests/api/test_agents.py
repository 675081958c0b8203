"""Agents over HTTP: configured, triggered and read (API §3)."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.api.rig import serving
from tests.kit import call
from toolwright.testing import ScriptedModel
from toolwright.wiring.gateway import gateway

pytestmark = pytest.mark.anyio

CANARY = "k4nary-over-http-7919"
BOOK: dict[str, Any] = {  # a configuration
    "name": "bookHotel",
    "description": "Book a hotel.",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
    "executionType": "gateway",
    "execution": {"url": "https://hotel.test/book", "method": "POST"},
}
CONFIG: dict[str, Any] = {
    "agent": {"system": "You book."},
    "model": {"provider": "openai", "name": "gpt-6.1-terra"},
    "loop": {"maxSteps": 5},
    "tools": [BOOK],
    "env": {"TOKEN": CANARY},
    "tenvs": {"place": CANARY},
}


class Shop(BaseModel):
    """Values that `buy` requires."""

    store_id: str
    currency: str


@tw.tool(description="Buy.", tenvs=Shop)
async def buy() -> str:
    return "bought"


async def test_a_trigger_of_an_agent_without_its_tenvs_names_all_that_are_missing() -> None:
    async with serving(tools=[buy]) as api:
        refused = await api.post("/api/agents/tester/trigger", {"serviceName": "billing"}, 400)
        assert refused["missing"] == ["store_id", "currency"]
        assert refused["invalid"] == []
        assert "'tester' cannot have a home thread" in refused["error"]
        assert (await api.get("/api/agents/tester/inbox"))["events"] == []
        assert (await api.get("/api/threads"))["threads"] == []


async def test_a_visible_tool_of_a_json_agent_runs_unposted_in_a_thread_whose_stream_shows_it(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("- calls: [{name: confirm, args: {question: 'Sure?'}}]\n- text: Done.\n")
    confirm: dict[str, Any] = {
        "name": "confirm",
        "description": "Ask.",
        "executionType": "space",
        "isAsync": True,
    }
    confirm["inputSchema"] = {"type": "object"}
    config = {"tools": [confirm], "model": f"scripted:{script}"}
    async with serving() as api:
        await api.post("/api/agents", {"name": "helper", "config": config}, 201)
        thread_id = (await api.post("/api/threads", {"agentId": "helper"}, 201))["threadId"]
        sent = await api.post(f"/api/threads/{thread_id}/messages", {"content": "Go"}, 202)
        run = await api.rig.rt.runs.wait(sent["runId"], 10)
        assert (run.status, run.output) == ("completed", "Done.")
        [call] = (await api.get("/api/calls"))["calls"]
        assert (call["toolName"], call["visible"], call["spaceId"]) == ("confirm", True, None)
        told = (await api.get(f"/api/runs/{run.id}/events"))["events"]
        assert "tool.started" in [event["type"] for event in told]
        await api.post(f"/api/runs/{run.id}/tool-results", {"callId": call["callId"], "result": "yes"})


@pytest.mark.parametrize("wire_name", ["text", "parts"])
async def test_an_invalid_script_is_rejected_with_one_sentence(tmp_path: Path, wire_name: str) -> None:
    (tmp_path / "no_script.yaml").write_text("just text")
    async with serving() as api:
        for path, why in {
            tmp_path / "none.yaml": "cannot be read: No such file or directory.",
            tmp_path: "cannot be read: it is not a file.",
            tmp_path / "no_script.yaml": "must be a list of turns, or lists by name.",
        }.items():
            model: Any = (
                f"scripted:{path}" if wire_name == "text" else {"provider": "scripted", "name": str(path)}
            )
            config: Any = {"model": model}
            shown = await api.post("/api/agents", {"name": "helper", "config": config}, 400)
            assert shown["error"] == f"config.model cannot be used: The script '{path}' {why}"
            assert shown["details"][0]["path"] == "config.model"
            config = {"context": {"summarizeWith": f"scripted:{path}"}}
            shown = await api.post("/api/agents", {"name": "helper", "config": config}, 400)
            assert shown["error"] == f"config.context.summarizeWith cannot be used: The script '{path}' {why}"
        for name, why in (
            ("gpt", "cannot be used: The model 'gpt' needs a provider"),
            ("openai:", "must be a model as provider:model"),
        ):
            config = {"context": {"summarizeWith": name}}
            shown = await api.post("/api/agents", {"name": "helper", "config": config}, 400)
            assert shown["error"].startswith(f"config.context.summarizeWith {why}")
        assert [each["name"] for each in (await api.get("/api/agents"))["agents"]] == ["tester"]


async def test_where_there_are_keys_only_the_operator_s_script_is_named_over_http(tmp_path: Path) -> None:
    script, other = (tmp_path / name for name in ("script.yaml", "other.yaml"))
    for path in (script, other):
        path.write_text("- text: Hi.\n")
    allowed, refused = f"scripted:{script}", f"scripted:{other}"
    async with serving(scripts=frozenset({allowed})) as api:
        await api.post("/api/agents", {"name": "helper", "config": {"model": allowed}}, 201)
        parts: Any = {"provider": "scripted", "name": str(other)}
        for config in ({"config": {"model": refused}}, {"configJson": json.dumps({"model": parts})}):
            shown = await api.post("/api/agents", {"name": "spy", **config}, 400)
            assert shown["error"].startswith("config.model names a script, which is a file of the server: ")
            assert (await api.client.patch("/api/agents/helper", json=config)).status_code == 400
        for path in ("summarizeWith", "summarize_with"):
            summarizing = {"model": allowed, "context": {path: refused}}
            for config in ({"config": summarizing}, {"configJson": json.dumps(summarizing)}):
                shown = await api.post("/api/agents", {"name": "spy", **config}, 400)
                said = f"config.context.{path} names a script, which is a file of the server: "
                assert shown["error"].startswith(said)
        assert (await api.get("/api/agents/helper"))["agent"]["config"] == {"model": allowed}


def test_a_gateway_takes_any_script_where_every_caller_is_of_this_machine() -> None:
    for keys, model, scripts in (
        ((), None, None),
        (("sk_0123456789abcdef",), "scripted:a.yaml", {"scripted:a.yaml"}),
        (("sk_0123456789abcdef",), None, {""}),
    ):
        settings = tw.Settings(database_url="memory://", secret_keys=keys, model=model)
        served = gateway(tw.App(), settings)
        assert served.state.serving.options.scripts == scripts


async def test_an_agent_is_configured_changed_and_deleted() -> None:
    async with serving() as api:
        config = CONFIG
        made = await api.post(
            "/api/agents", {"name": "booker", "description": "Books", "config": config}, 201
        )
        agent_id = made["agentId"]
        shown = {name: part for name, part in config.items() if name not in ("env", "tenvs")}
        assert made == {
            "agent": {
                "id": agent_id,
                "agentId": agent_id,
                "entityId": made["entityId"],
                "name": "booker",
                "description": "Books",
                "type": "ai_human",
                "openTo": "members",
                "homeTools": "own",
                "sharedMemory": False,
                "config": shown,
            },
            "agentId": agent_id,
            "entityId": made["entityId"],
            "created": True,
        }
        again = await api.post("/api/agents", {"name": "booker", "configJson": json.dumps(config)})
        assert (again["created"], again["agentId"], again["agent"]["description"]) == (False, agent_id, "")
        same = await api.post("/api/agents", {"name": "booker", "configJson": config})
        assert (same["created"], same["agentId"]) == (False, agent_id)
        listed = (await api.get("/api/agents"))["agents"]
        assert [one["name"] for one in listed] == ["tester", "booker"]
        assert ["config" in one for one in listed] == [False, True]
        for name in ("booker", agent_id):
            assert (await api.get(f"/api/agents/{name}"))["agent"]["config"] == shown
        response = await api.client.patch(
            f"/api/agents/{agent_id}", json={"name": "ranger", "description": "x", "configJson": "{}"}
        )
        changed = response.json()["agent"]
        assert (changed["name"], changed["description"], changed["config"]) == ("ranger", "x", {})
        everything = await api.client.get("/api/agents")
        assert CANARY not in everything.text + response.text + json.dumps([made, again])
        assert (await api.client.delete("/api/agents/ranger")).json() == {"success": True}
        for method in ("GET", "PATCH", "DELETE"):
            response = await api.client.request(method, f"/api/agents/{agent_id}", json={})
            assert response.status_code == 404


FAULTY: list[tuple[dict[str, Any], str]] = [
    ({"name": "x"}, ""),
    ({"name": "x", "config": {}, "configJson": "{}"}, ""),
    ({"config": {}}, "name"),
    ({"name": "x", "config": {}, "nonsense": 1}, "nonsense"),
    ({"name": "", "config": {}}, "name"),
    ({"name": "x", "config": []}, "config"),
    ({"name": "x", "configJson": "{"}, "configJson"),
    ({"name": "x", "configJson": "[]"}, "config"),
    ({"name": "x", "configJson": '{"agent": {}, "agent": {}}'}, "configJson"),
    ({"name": "x", "configJson": "[" * 5_000}, "configJson"),
    ({"name": "x", "config": {"tools": [{**BOOK, "foo": 1}]}}, "config.tools.0.foo"),
    (
        {"name": "x", "config": {"tools": [{**BOOK, "inputSchema": {"type": 5}}]}},
        "config.tools.0.inputSchema.type",
    ),
    ({"name": "x", "config": {"tools": [{**BOOK, "execution": {}}]}}, "config.tools.0.execution.url"),
    ({"name": "x", "config": {"tools": [{**BOOK, "name": "enter_space"}]}}, "config.tools.0.name"),
    ({"name": "x", "config": {"tools": ["nothing"]}}, "config.tools.0"),
]


@pytest.mark.parametrize(("body", "path"), FAULTY, ids=lambda given: str(given)[:40])
async def test_what_is_invalid_is_named_by_its_path(body: dict[str, Any], path: str) -> None:
    async with serving() as api:
        refused = await api.post("/api/agents", body, 400)
        assert path in [detail["path"] for detail in refused["details"]]
        assert path in refused["error"]
        assert len((await api.get("/api/agents"))["agents"]) == 1


async def test_what_the_app_declares_is_changed_there_only() -> None:
    async with serving() as api:
        refused = await api.post("/api/agents", {"name": "tester", "config": {}}, 409)
        assert refused["error"] == "The app declares an agent 'tester' already. Choose another name."
        for method in ("PATCH", "DELETE"):
            response = await api.client.request(method, "/api/agents/tester", json={"description": "x"})
            assert response.status_code == 403
            assert (
                response.json()["error"]
                == "The agent 'tester' is declared in the code of the app. Change it there."
            )
        await api.post("/api/agents", {"name": "scout", "config": {}}, 201)
        await api.post("/api/agents", {"name": "ranger", "config": {}}, 201)
        response = await api.client.patch("/api/agents/scout", json={"name": "ranger"})
        assert (response.status_code, response.json()["error"]) == (
            409,
            "There is another agent 'ranger'. Choose another name.",
        )


async def test_agents_of_others_are_not_trusted_with_the_addresses_of_their_tools() -> None:
    async with serving() as api:
        await api.post("/api/agents", {"name": "scout", "config": {"tools": [BOOK]}}, 201)
        [tool] = (await api.rig.rt.agents.active("scout")).tools
        written = (await api.rig.rt.agents.save("own", {"tools": [BOOK]}, trusted=True)).agent
        [own] = (await api.rig.rt.agents.active(written.id)).tools
        assert tool.execution is not None and own.execution is not None
        assert (tool.execution.trusted, own.execution.trusted) == (False, True)
        await api.client.patch("/api/agents/own", json={"description": "still the operator's"})
        [own] = (await api.rig.rt.agents.active("own")).tools
        assert own.execution is not None and own.execution.trusted
        await api.client.patch("/api/agents/own", json={"config": {"tools": [BOOK]}})
        [own] = (await api.rig.rt.agents.active("own")).tools
        assert own.execution is not None and not own.execution.trusted


async def test_a_service_triggers_an_agent() -> None:
    model = ScriptedModel([call("ask_outside", user_name="Ada"), {"text": "Thanks."}])
    async with serving(model) as api:
        agent = await api.rig.rt.agents.get("tester")
        body = {"serviceName": "billing", "payload": {"invoice": [1, None]}}
        answer = await api.post("/api/agents/tester/trigger", body)
        assert answer == {"success": True, "agentEntityId": agent.entity_id}
        [event] = (await api.get("/api/agents/tester/inbox"))["events"]
        assert (event["type"], event["data"]) == ("service", body)
        for faulty, path in (({}, "serviceName"), ({"serviceName": " "}, "serviceName"), ({"a": 1}, "a")):
            refused = await api.post("/api/agents/tester/trigger", faulty, 400)
            assert path in [detail["path"] for detail in refused["details"]]
        await api.post("/api/agents/nobody/trigger", body, 404)


async def test_a_prompt_is_seen_as_the_model_sees_it() -> None:
    async with serving() as api:
        config = {"agent": {"system": "You scout."}}
        made = await api.post("/api/agents", {"name": "scout", "config": config}, 201)
        await api.post("/api/spaces", {"id": "tea", "name": "Tea"}, 201)
        await api.post("/api/spaces", {"id": "secret"}, 201)
        await api.post("/api/spaces/tea/members", {"entityId": made["entityId"]})
        told = await api.get("/api/agents/scout/prompt", params={"spaceId": "tea"})
        assert [part["name"] for part in told["sections"]] == ["system", "identity", "rules", "spaces"]
        assert told["prompt"] == "\n\n".join(part["text"] for part in told["sections"])
        assert "spaceId: tea) — you are here" in told["prompt"]
        for name in ("smartSpaceId", "channelId"):
            assert await api.get("/api/agents/scout/prompt", params={name: "tea"}) == told
        for path in ("scout/prompt?spaceId=nowhere", "scout/prompt?spaceId=secret", "nobody/prompt"):
            assert (await api.client.get(f"/api/agents/{path}")).status_code == 404
