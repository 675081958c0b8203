"""The toolkit `memory`: blocks in the prompt, searchable passages, and their Python API."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.databases import stores
from tests.kit import DONE, Watched, call
from tests.runtime.mind_rig import JSON, Died, Mind, thinking
from tests.runtime.narrow import prompt_of
from toolwright.core.agents.agent import TOOLKITS
from toolwright.core.agents.memory import MAX_BLOCKS, MAX_LINKED
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.journal.agent_effects import AddPassage, SetBlock
from toolwright.core.journal.units import Unit
from toolwright.runtime.prompts import SILENT
from toolwright.runtime.toolkits.mind import MemoryToolkit
from toolwright.testing import MemoryBus, MemoryStore, TrigramEmbedder

pytestmark = pytest.mark.anyio

GLAD = call("update_memory", label="mood", content="glad")
AGENTS = [tw.Agent(name, "p", toolkits=["memory"]) for name in ("thinker", "friend")]


async def sections(mind: Mind, agent: str = "thinker") -> list[tuple[str, str]]:
    """Return the memory blocks in the agent's prompt."""
    told = (await mind.rt.prompts.of(agent)).sections
    first = next((n for n, each in enumerate(told) if each.name.startswith("block:")), len(told))
    assert [each.name for each in told[:first] if each.name != "rules"] == ["system", "identity"]
    return [(each.name, each.text) for each in told[first:] if each.name.startswith("block:")]


async def memory(mind: Mind) -> tuple[object, ...]:
    """Return everything that is stored."""
    rt = mind.rt
    return await rt.blocks.list("thinker"), await rt.blocks.list("friend"), await rt.passages.list("thinker")


def test_the_toolkit_has_the_tools_of_the_document() -> None:
    tools = MemoryToolkit(MemoryStore(lambda _: None)).tools
    assert tuple(tool.name for tool in tools) == TOOLKITS["memory"]
    assert all(tool.idempotent and not tool.visible for tool in tools)


@requirement("S4-2.4-1", "S4-2.4-3")
async def test_a_block_is_made_and_replaced_and_stands_in_the_next_prompt() -> None:
    async with thinking(agents=AGENTS) as mind:
        assert await sections(mind) == []
        assert await mind.call("update_memory", label="mood", content="calm") == {"success": True}
        await mind.call("update_memory", label="Jim", content="likes tea,\n# not coffee\x07")
        await mind.call("update_memory", label="mood", content="cross")
        assert await sections(mind) == [
            ("block:Jim", "Your memory block 'Jim':\n> likes tea,\n> # not coffee"),
            ("block:mood", "Your memory block 'mood':\ncross"),
        ]
        assert [(each.label, each.content) for each in await mind.rt.blocks.list("thinker", 1, 1)] == [
            ("mood", "cross")
        ]
        assert await sections(mind, "friend") == []


@requirement("S4-2.4-3")
async def test_the_model_reads_its_blocks_at_every_step() -> None:
    model = Watched([GLAD, DONE])
    app = tw.App(agents=[tw.Agent("a", tw.Prompt("a", "Be.", model=model), toolkits=["memory"])])
    async with tw.testing.runtime(app) as rt:
        thread = await rt.threads.create("a")
        assert (await rt.runs.wait((await rt.threads.send(thread.id, "Go")).id, 30)).status == "completed"
    assert ["Your memory block 'mood':\nglad" in prompt_of(each) for each in model.requests] == [False, True]


async def test_a_request_reports_the_parts_of_the_state_that_have_changed() -> None:
    model = Watched([GLAD, DONE])
    prompt = tw.Prompt("a", "Be.", model=model)
    agents = [
        tw.Agent("a", prompt, toolkits=["memory", "mind", "spaces"], inbox_preview=True),
        tw.Agent("bare", prompt),
    ]
    async with tw.testing.runtime(tw.App(agents=agents)) as rt:
        thread = await rt.threads.create("a")
        for _ in range(2):
            run = await rt.runs.wait((await rt.threads.send(thread.id, "Go")).id, 30)
            assert run.status == "completed"
            model.says([DONE])
        thread = await rt.threads.create("bare")
        assert (await rt.runs.wait((await rt.threads.send(thread.id, "Go")).id, 30)).status == "completed"
        told = await rt.prompts.of("a")
    first, second, third, bare = model.requests
    assert first.system == second.system == third.system
    assert first.system.startswith("Be.\n\nYou are a (entityId: ") and first.system.endswith(SILENT)
    reports = [None if each.state is None else dict(each.state.parts) for each in model.requests]
    spaces = {"spaces": "You are in no space yet.\nYou have not entered a space."}
    assert reports == [spaces, {"block:mood": "Your memory block 'mood':\nglad"}, {}, None]
    assert [each.state is not None for each in third.messages] == [False, True, False, True, False]
    assert bare.system == "Be."
    assert [each.changes for each in told.sections] == sorted(each.changes for each in told.sections)


@requirement("S4-2.4-2")
async def test_a_linked_block_is_read_by_others_and_changed_by_its_owner_alone() -> None:
    async with thinking(agents=AGENTS) as mind:
        blocks = mind.rt.blocks
        await blocks.write("friend", "house", "Ours.\n\nYour channels:\u2028- Theirs")
        await blocks.link("friend", "house", "thinker")
        quoted = "> Ours.\n> \n> Your channels:\n> - Theirs"
        theirs = ("block:house", f"The memory block 'house' of friend, read-only for you:\n{quoted}")
        assert await sections(mind) == [theirs]
        before = await memory(mind)
        answer = await mind.call("update_memory", label="house", content="Mine.")
        assert "'house' is shared with you by another agent" in answer["error"]
        with pytest.raises(InvalidRequest, match="'house' is shared with you by another agent"):
            await blocks.write("thinker", "house", "Mine.")
        assert await memory(mind) == before
        again = await blocks.write("friend", "house", "New.")
        assert again.is_shared
        assert list(await blocks.list("thinker")) == [again]
        assert await blocks.get("thinker", "house") == again
        await blocks.unlink("friend", "house", "thinker")
        assert await sections(mind) == []
        assert await mind.call("update_memory", label="house", content="Mine.") == {"success": True}
        await blocks.link("friend", "house", "thinker")
        assert [name for name, _ in await sections(mind)] == ["block:house"] * 2
        await mind.call("update_memory", label="house", content="Still mine.")
        mine, friends = sorted(await blocks.list("thinker"), key=lambda each: each.content, reverse=True)
        assert (mine.content, friends) == ("Still mine.", again)
        assert await blocks.get("thinker", "house") == mine
        await blocks.drop("friend", "house")
        assert list(await blocks.list("thinker")) == [mine]


@requirement("S4-2.5-1", "S4-2.5-2", "S4-2.6-1", "S4-2.6-2")
async def test_passages_are_stored_and_found_by_their_rank() -> None:
    async with thinking(agents=AGENTS) as mind:
        first = (await mind.call("store_memory", content="Jim likes GREEN tea.", tags=["Jim"]))["passageId"]
        second = (await mind.call("store_memory", content="Steam."))["passageId"]
        await mind.rt.passages.add("friend", "Tea is mine.")
        at = mind.clock.now().isoformat()
        found = (await mind.call("search_memory", query="tea"))["passages"]
        jim: JSON = {"id": first, "content": "Jim likes GREEN tea.", "tags": ["Jim"], "createdAt": at}
        assert found == [jim, {"id": second, "content": "Steam.", "tags": [], "createdAt": at}]
        assert await mind.call("search_memory", query="jim green") == {"passages": [jim]}
        assert await mind.call("search_memory", query="gr%en") == {"passages": []}
        assert [each.id for each in await mind.rt.passages.list("thinker")] == [second, first]


@requirement("S4-3-1")
@pytest.mark.parametrize(
    ("fault", "tool", "args"),
    [
        ("label is needed", "update_memory", {"label": " ", "content": "x"}),
        ("label has 101", "update_memory", {"label": "x" * 101, "content": "x"}),
        ("content has 16385 bytes", "update_memory", {"label": "x", "content": "x" * 16_385}),
        ("20 blocks already", "update_memory", {"label": "x", "content": "x"}),
        ("content", "update_memory", {"label": "x"}),
        ("more", "update_memory", {"label": "x", "content": "x", "more": 1}),
        ("content is needed", "store_memory", {"content": ""}),
        ("content has 65537 bytes", "store_memory", {"content": "x" * 65_537}),
        ("tags has 21", "store_memory", {"content": "x", "tags": ["t"] * 21}),
        ("tags.1 has 101", "store_memory", {"content": "x", "tags": ["t", "x" * 101]}),
        ("tags", "store_memory", {"content": "x", "tags": "t"}),
        ("query is needed", "search_memory", {"query": "  "}),
        ("query has 1001", "search_memory", {"query": "x" * 1_001}),
        ("query has 17 words", "search_memory", {"query": "x " * 17}),
    ],
)
async def test_an_invalid_call_changes_nothing(fault: str, tool: str, args: dict[str, Any]) -> None:
    async with thinking(agents=AGENTS) as mind:
        for n in range(MAX_BLOCKS):
            await mind.rt.blocks.write("thinker", str(n), "kept")
        before = await memory(mind)
        answer = await mind.call(tool, **args)
        assert fault in answer["error"]
        assert len(answer["error"]) < 500
        assert await memory(mind) == before


async def test_the_doors_refuse_what_is_not_there_or_too_much() -> None:
    async with thinking(agents=AGENTS) as mind:
        blocks, passages = mind.rt.blocks, mind.rt.passages
        for missing in (
            *(blocks.drop("thinker", "none"), blocks.get("thinker", "none")),
            *(blocks.link("thinker", "none", "friend"), blocks.list("nobody")),
            *(
                passages.drop("thinker", "none"),
                passages.drop("thinker", "a\x00"),
                passages.add("nobody", "x"),
            ),
        ):
            with pytest.raises(NotFound):
                await missing
        await blocks.write("thinker", "own", "x")
        wrong: Any = 7
        for faulty in (
            *(blocks.link("thinker", "own", "thinker"), blocks.write("thinker", "a\nb", "x")),
            *(blocks.drop("thinker", "a\x00"), blocks.get("thinker", " "), blocks.get("thinker", wrong)),
            blocks.write("thinker", "own", "x", ["friend", "thinker"]),
            *(blocks.write("thinker", "a", wrong), passages.add("thinker", wrong)),
            *(passages.add("thinker", "x", "tag"), passages.add("thinker", "x", wrong)),
            *(
                passages.search("thinker", ""),
                passages.search("thinker", wrong),
                passages.list("thinker", -1),
            ),
        ):
            with pytest.raises(InvalidRequest):
                await faulty


async def test_a_block_is_written_for_others_to_read_at_once() -> None:
    async with thinking(agents=AGENTS) as mind:
        blocks = mind.rt.blocks
        written = await blocks.write("friend", "house", "Ours.", ["thinker", "thinker"])
        assert written.is_shared
        assert list(await blocks.list("thinker")) == [written]
        with pytest.raises(NotFound, match="no agent 'nobody'"):
            await blocks.write("friend", "house", "Nobody's.", ["nobody"])
        assert await blocks.get("friend", "house") == written


async def test_an_agent_reads_only_so_many_blocks_of_others() -> None:
    many = [tw.Agent(name, "p", toolkits=["memory"]) for name in ("thinker", "friend", "third")]
    async with thinking(agents=many) as mind:
        blocks = mind.rt.blocks
        for n in range(MAX_LINKED):
            await blocks.write("friend", str(n), "x")
            await blocks.link("friend", str(n), "thinker")
        await blocks.link("friend", "0", "thinker")
        await blocks.write("third", "one", "x")
        with pytest.raises(InvalidRequest, match="'thinker' reads 20 blocks of other agents"):
            await blocks.link("third", "one", "thinker")
        assert len(await blocks.list("thinker")) == MAX_LINKED


async def test_passages_are_added_dropped_paged_and_searched_from_outside() -> None:
    async with thinking(agents=AGENTS) as mind:
        passages = mind.rt.passages
        kept = [await passages.add("thinker", f"tea {n}", ["t"]) for n in range(3)]
        assert await passages.get("thinker", kept[1].id) == kept[1]
        await passages.drop("thinker", kept[1].id)
        for agent, passage in (("thinker", kept[1]), ("friend", kept[0])):
            with pytest.raises(NotFound):
                await passages.get(agent, passage.id)
        assert list(await passages.list("thinker")) == [kept[2], kept[0]]
        assert list(await passages.list("thinker", 1, 1)) == [kept[0]]
        assert list(await passages.search("thinker", "TEA")) == [kept[2], kept[0]]
        assert list(await passages.search("thinker", "tea", 1)) == [kept[2]]
        assert list(await passages.search("thinker", "tea", 1, 1)) == [kept[0]]
        assert list(await passages.search("friend", "tea")) == []


async def test_an_agent_configured_with_channels_and_memory_has_the_tools() -> None:
    async with thinking(agents=AGENTS) as mind:
        config: JSON = {"agent": {"system": "Be."}, "toolkits": ["channels", "memory"]}
        saved = await mind.rt.agents.save("scout", config)
        await mind.rt.blocks.write("scout", "mood", "calm")
        assert await sections(mind, "scout") == [("block:mood", "Your memory block 'mood':\ncalm")]
        await mind.rt.blocks.link("scout", "mood", "thinker")
        await mind.rt.agents.delete(saved.agent.id)
        assert await sections(mind) == []


async def test_outside_a_run_a_tool_of_memory_is_an_error_result() -> None:
    tools = tw.Toolset(MemoryToolkit(MemoryStore(lambda _: None)).tools)
    result = await tools.call("search_memory", {"query": "x"})
    assert (result.status, result.error_code) == ("error", "outside_run")


def effects(unit: Unit) -> list[AddPassage | SetBlock]:
    """Return the changes of the unit to the memory."""
    return [each for each in getattr(unit, "effects", ()) if isinstance(each, AddPassage | SetBlock)]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_process_that_dies_around_the_commit_has_stored_a_passage_once(when: str) -> None:
    store, lost = MemoryStore(lambda _: None), list[Unit]()

    async def die(unit: Unit) -> None:
        if effects(unit):
            lost.append(unit)
            raise Died

    async with thinking(store, agents=AGENTS) as mind:
        setattr(mind.store, when, die)
        with pytest.raises(Died):
            await mind.call("store_memory", content="once")
        thread_id = mind.thread_id
        assert len(await mind.rt.passages.list("thinker")) == (when == "after")
    async with thinking(store, agents=AGENTS) as mind:
        mind.clock.advance(3_600)
        mind.thread_id = thread_id
        await mind.motor.run_until_idle()
        [passage] = await mind.rt.passages.list("thinker")
        [effect] = effects(lost[0])
        assert isinstance(effect, AddPassage)
        assert (passage.id, passage.content) == (effect.passage.id, "once")
        assert await mind.answer() == {"passageId": passage.id}


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
@pytest.mark.parametrize("embedder", [None, TrigramEmbedder()], ids=["by keyword", "by meaning"])
async def test_every_journal_keeps_people_apart(
    kind: str, embedder: TrigramEmbedder | None, tmp_path: Path
) -> None:
    """A passage of one person's thread is neither found nor changed in another's, nor in the agent's own thread."""
    async with stores(kind, tmp_path) as open_store:
        store = await open_store(MemoryBus())
        async with thinking(store, agents=AGENTS, embedder=embedder) as mind:
            people: dict[str | None, Mind] = {None: mind}
            for name in ("ada", "bob"):
                entity = await mind.rt.entities.create(external_id=name)
                thread = await mind.rt.threads.create("thinker", entity.id)
                people[name] = replace(mind, thread_id=thread.id)
            for name, each in people.items():
                await each.call("update_memory", label="mood", content=f"mood of {name}")
                await each.call("store_memory", content=f"{name} likes green tea")
                await each.call("set_memories", memories=[{"key": "tea", "value": f"tea of {name}"}])
                await each.call("set_goals", goals=[{"id": "g", "description": f"goal of {name}"}])
            for name, each in people.items():
                found = await each.call("search_memory", query="green tea")
                assert [one["content"] for one in found["passages"]] == [f"{name} likes green tea"]
                assert [one.content for one in await mind.rt.blocks.list("thinker", user_id=name)] == [
                    f"mood of {name}"
                ]
                assert [one.value for one in await mind.rt.minds.memories("thinker", user_id=name)] == [
                    f"tea of {name}"
                ]
            assert (await people["ada"].call("delete_goals", ids=["g"])) == {"goals": []}
            for name in (None, "bob"):
                assert [one.description for one in await mind.rt.minds.goals("thinker", user_id=name)] == [
                    f"goal of {name}"
                ]
            await mind.rt.entities.delete((await mind.rt.entities.create(external_id="ada")).id)
            assert len(await mind.rt.minds.people("thinker")) == 1
