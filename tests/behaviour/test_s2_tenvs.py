"""S2 §9: the values that a tool requires of its thread, over HTTP and across restarts."""

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

import toolwright as tw
from tests.behaviour.doors import app_of, ended, over_http, turns
from tests.behaviour.marks import requirement
from tests.secrets.leaks import leaked_on_disk
from toolwright.core.errors import DefinitionError, TenvsRequired
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class SearchTenvs(BaseModel):
    vector_store_id: str = Field(alias="vectorStoreId", description="Vector store to search")
    user_location: str | None = Field(None, alias="userLocation", description="Where the user is")


class KeyTenvs(BaseModel):
    api_key: Annotated[str, tw.Secret]
    limit: int


@tw.tool(description="Search through uploaded files.", tenvs=SearchTenvs)
async def search(state: tw.ThreadState, query: str) -> list[str | None]:
    return [query, state.tenvs.vectorStoreId, state.tenvs.vector_store_id, state.tenvs.userLocation]


@tw.tool(description="Count.", tenvs=KeyTenvs)
async def count(state: tw.ThreadState) -> str:
    return f"{len(state.tenvs.api_key)} {state.tenvs.limit + 1} {state.tenvs.api_key}"


def searching(prompt: dict[str, Any] | None = None, agent: dict[str, Any] | None = None) -> tw.App:
    """Return an agent that searches once."""
    model = ScriptedModel(turns(("search", {"query": "q"})))
    return app_of(model, [search], {"tenvs": prompt or {}}, {"tenvs": agent or {}})


@requirement("S2-9.1-1", "S2-9.1-2", "S2-9.3-2", "S2-9.4-1", "S2-9.4-2", "S2-9.6-1")
async def test_each_thread_has_the_values_of_prompt_agent_and_its_own_the_later_ones_winning(
    tmp_path: Path,
) -> None:
    app = searching(
        {"vectorStoreId": "prompt", "userLocation": "prompt"}, {"vectorStoreId": "agent", "unused": [1]}
    )
    given: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["agent", "prompt"]),
        ({"vectorStoreId": "thread"}, ["thread", "prompt"]),
        ({"userLocation": "thread"}, ["agent", "thread"]),
        ({"vectorStoreId": "", "userLocation": ""}, ["", ""]),
    ]
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    async with app.runtime(settings) as rt, over_http(rt) as http:
        threads: list[str] = []
        for tenvs, _ in given:
            made = await http.post("/api/threads", json={"agentId": "tester", "tenvs": tenvs})
            threads.append(made.json()["threadId"])
    async with app.runtime(settings) as rt:  # the values belong to the threads, not to the process
        for thread, (_, (store, location)) in zip(threads, given, strict=True):
            await ended(rt, thread)
            shown = json.loads((await rt.threads.messages(thread))[2].content)
            assert shown == ["q", store, store, location]


@requirement("S2-9.3-2")
async def test_a_missing_optional_value_is_none() -> None:
    async with searching({"vectorStoreId": "vs"}).runtime(tw.Settings(database_url="memory://")) as rt:
        thread = await rt.threads.create("tester")
        await ended(rt, thread.id)
        assert json.loads((await rt.threads.messages(thread.id))[2].content) == ["q", "vs", "vs", None]


@requirement("S2-9.3-1", "S2-9.3-3", "S2-9.2-1")
async def test_no_thread_is_created_without_what_all_its_tools_need(tmp_path: Path) -> None:
    app = app_of(ScriptedModel(turns()), [search, count], {"tenvs": {"limit": "many"}})
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    async with app.runtime(settings) as rt, over_http(rt) as http:
        refused = await http.post("/api/threads", json={"agentId": "tester", "tenvs": {"userLocation": 7}})
        assert refused.status_code == 400
        assert refused.json()["missing"] == ["vectorStoreId", "api_key"]
        assert refused.json()["invalid"] == [
            {"name": "userLocation", "message": "must be a string or null, not a number"},
            {"name": "limit", "message": "must be an integer, not a string"},
        ]
        with pytest.raises(TenvsRequired, match="vectorStoreId"):
            await rt.threads.create("tester", tenvs={"limit": 3, "api_key": "sk-very-secret-1"})
        assert await rt.threads.list() == []
        whole = {"vectorStoreId": "vs", "limit": 3, "api_key": "sk-very-secret-1"}
        assert (
            await http.post("/api/threads", json={"agentId": "tester", "tenvs": whole})
        ).status_code == 201


@requirement("S2-9.2-1", "S2-9.5-1")
def test_the_model_of_tenvs_is_validated_as_that_of_arguments_is() -> None:
    class Wrong(BaseModel):
        when: bytes

    for model, words in ((Wrong, "'when'"), (dict, "pydantic model")):
        with pytest.raises(DefinitionError, match=words):
            tw.tool(name="find", description="Find.", tenvs=model)(lambda: "x")  # type: ignore[arg-type]  # no pydantic model, on purpose
    assert search.tenvs is SearchTenvs
    assert "vectorStoreId" not in str(search.parameters)  # a model never sees the tenvs


@requirement("S2-9.1-3", "S2-9.6-1")
async def test_a_credential_is_read_by_the_function_and_never_shown(tmp_path: Path) -> None:
    app = app_of(ScriptedModel(turns(("count", {}))), [count])
    async with app.runtime(tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")) as rt:
        thread = await rt.threads.create("tester", tenvs={"api_key": "sk-very-secret-1", "limit": 3})
        await ended(rt, thread.id)
        assert (await rt.threads.messages(thread.id))[2].content == "16 4 [redacted:api_key]"
        assert leaked_on_disk(tmp_path, "sk-very-secret-1") == []
