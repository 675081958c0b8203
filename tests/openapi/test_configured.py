"""Documents in the tools of agents that are configured as JSON: over HTTP, in Python and in a file."""

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

import toolwright as tw
from tests.api.rig import Api, read, serving
from tests.executors.rig import as_json
from tests.executors.rig import serving as other_server
from tests.kit import ran, send_to
from tests.openapi.rig import PETSTORE
from tests.openapi.test_sources import minimal
from toolwright import testing
from toolwright.core.errors import DefinitionError
from toolwright.core.threads.event import Topic
from toolwright.wiring.config import ConfigApp

pytestmark = pytest.mark.anyio

TURNS: list[dict[str, Any]] = [{"calls": [{"name": "get", "args": {}}]}, {"text": "Done."}]
FAULTY = minimal()
FAULTY["paths"]["/b"] = {"trace": {}}


def with_tools(*tools: Any) -> dict[str, Any]:
    return {"agent": {"system": "You keep pets."}, "tools": [*tools]}


async def post(api: Api, config: dict[str, Any], status: int = 201) -> Any:  # the answer
    return read(await api.client.post("/api/agents", json={"name": "keeper", "config": config}), status)


INSIDE: dict[str, Any] = {
    "name": "note",
    "description": "Note.",
    "inputSchema": {},
    "executionType": "internal",
}


async def test_an_agent_over_http_has_the_tools_of_its_documents() -> None:
    async with serving() as api:
        entry = {"source": FAULTY, "name": "zoo", "timeout": 5_000, "requiresApproval": True}
        made = await post(api, with_tools({"openapi": entry}, INSIDE))
        assert made["faults"] == [{"operation": "TRACE /b", "message": "tools cannot call the method TRACE"}]
        first, second = made["agent"]["config"]["tools"]
        assert second == INSIDE
        assert (first["name"], first["timeout"], first["requiresApproval"]) == ("zoo_get", 5_000, True)
        assert first["execution"] == {"url": "http://zoo.test/a", "method": "GET", "body": False}
        again = await post(api, with_tools({"openapi": entry}, INSIDE), 200)
        assert again["created"] is False
        path = f"/api/agents/{made['agentId']}"
        response = await api.client.patch(path, json={"config": with_tools({"openapi": entry})})
        changed = read(response, 200)
        assert len(changed["agent"]["config"]["tools"]) == 1 and len(changed["faults"]) == 1
        fine = read(await api.client.patch(path, json={"config": made["agent"]["config"]}), 200)
        assert "faults" not in fine, "what an answer shows can be sent back as it is"


@pytest.mark.parametrize(
    ("entry", "path", "message"),
    [
        ({"source": str(PETSTORE)}, "config.tools.0.openapi", "source names a file"),
        ({"source": "openapi.yaml"}, "config.tools.0.openapi", "source names a file"),
        ({"source": "http://127.0.0.1:1/openapi.yaml"}, "config.tools.0.openapi", "not public"),
        ({"source": {"swagger": "2.0"}}, "config.tools.0.openapi", "npx swagger2openapi"),
        ({"source": FAULTY, "only": "nothing"}, "config.tools.0.openapi", "operations is 'nothing'"),
        ({}, "config.tools.0.openapi.source", "is required"),
        ({"source": FAULTY, "onli": []}, "config.tools.0.openapi.onli", "is not a known field"),
        ({"source": FAULTY, "timeout": 0}, "config.tools.0.openapi.timeout", "must be more than 0"),
        ({"source": FAULTY, "requiresApproval": {"by": 1}}, "config.tools.0.openapi", "requiresApproval.by"),
    ],
)
async def test_each_error_of_an_entry_is_named_and_nothing_is_saved(
    entry: Any, path: str, message: str
) -> None:
    async with serving() as api:
        answer = await post(api, with_tools({"openapi": entry}), 400)
        assert answer["details"][0]["path"] == path
        assert message in answer["details"][0]["message"]
        assert read(await api.client.get("/api/agents/keeper"), 404)


async def test_an_entry_stands_alone_and_its_names_are_its_own() -> None:
    async with serving() as api:
        beside = await post(api, with_tools({"openapi": {"source": FAULTY}, "visible": True}), 400)
        assert beside["details"] == [
            {"path": "config.tools.0", "message": "must have no other field beside openapi"}
        ]
        twice = await post(
            api, with_tools({"openapi": {"source": FAULTY}}, {"openapi": {"source": FAULTY}}), 400
        )
        assert "'get' is the name of another tool" in twice["error"]
        named = {"openapi": {"source": FAULTY, "name": "b"}}
        assert await post(api, with_tools({"openapi": {"source": FAULTY}}, named))


async def test_a_call_of_an_agent_over_http_reaches_no_private_address() -> None:
    async with other_server() as server:
        document = minimal(servers=[{"url": f"http://127.0.0.1:{server.port}"}])
        model = testing.ScriptedModel(TURNS)
        app = tw.App().with_model(model)
        async with testing.runtime(app) as rt:
            for trusted, told in ((False, "has an address that is not public"), (True, '{"path":"/a"}')):
                config = with_tools({"openapi": {"source": document}})
                saved = await rt.agents.save(f"keeper-{trusted}", config, trusted=trusted)
                run = await ran(rt, saved.agent.id)
                [result] = [m.content for m in await rt.threads.messages(run.thread_id) if m.role == "tool"]
                assert told in str(result)
        assert len(server.received) == 1


async def test_a_run_waits_for_the_credentials_of_a_document() -> None:
    async with other_server() as server:
        document = minimal(
            servers=[{"url": f"http://127.0.0.1:{server.port}"}],
            security=[{"token": []}],
            components={"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        )
        model = testing.ScriptedModel(TURNS)
        agent = tw.Agent("keeper", model=model, tools=[*tw.openapi(document)])
        async with testing.runtime(tw.App(agents=[agent])) as rt:
            run = await send_to(rt, "keeper")
            async for event in rt.events.follow(Topic(kind="run", id=run.id), after=0):
                if event.type == "variables.required":
                    break
            await rt.threads.set_env(run.thread_id, {"ZOO_TOKEN": "t0ken"})
            done = await rt.runs.wait(run.id, 30)
            assert done.status == "completed"
        assert server.received[0].headers["Authorization"] == "Bearer t0ken"


async def test_a_file_names_documents_beside_it(tmp_path: Path) -> None:
    (tmp_path / "petstore.yaml").write_bytes(PETSTORE.read_bytes())
    config = with_tools(
        {"openapi": {"source": "petstore.yaml", "only": "listPets", "baseUrl": "http://127.0.0.1:1"}}
    )
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"agents": [{"name": "keeper", "config": config}]}))
    app = ConfigApp(path)
    async with app.runtime(tw.Settings(database_url="memory://")) as rt:
        agent: Any = await rt.agents.get("keeper")  # its prompt and tool are of these kinds
        [tool] = agent.side_a.prompt.tools
        assert tool.name == "listPets" and tool.execution.trusted and tool.read_only


async def test_a_file_that_names_no_document_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    config = with_tools({"openapi": {"source": "nothing.yaml"}})
    path.write_text(json.dumps({"agents": [{"name": "keeper", "config": config}]}))
    with pytest.raises(
        DefinitionError, match=r"agents\.0\.config\.tools\.0\.openapi .*nothing\.yaml' cannot be read"
    ):
        ConfigApp(path)


async def test_a_url_in_a_file_is_taken_as_written(tmp_path: Path) -> None:
    async with other_server() as server:
        server.replies["/openapi.json"] = as_json(minimal(servers=[{"url": "/"}]))
        url = f"http://127.0.0.1:{server.port}/openapi.json"
        path = tmp_path / "config.json"
        config = with_tools({"openapi": {"source": url}})
        path.write_text(json.dumps({"agents": [{"name": "keeper", "config": config}]}))
        app = await asyncio.to_thread(ConfigApp, path)  # it waits for this loop's server
        async with app.runtime(tw.Settings(database_url="memory://")) as rt:
            [tool] = cast("Any", await rt.agents.get("keeper")).side_a.prompt.tools
            assert tool.execution.url == f"http://127.0.0.1:{server.port}/a"
