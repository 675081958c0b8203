"""Values and rows: every value is read back as it was written."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwright.adapters.store.engine.codecs import UnreadableColumn
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.sql.agents import AGENT_HEADS, AGENTS, MCP_DEFINITIONS
from toolwright.adapters.store.sql.children import ASKED, REQUESTS, THREAD_VALUES
from toolwright.adapters.store.sql.memory import BLOCK_LINKS, BLOCKS, PASSAGES
from toolwright.adapters.store.sql.messages import CALLS, MESSAGE_VERSIONS, MESSAGES
from toolwright.adapters.store.sql.readers import READERS
from toolwright.adapters.store.sql.records import (
    FRONT_ENDS,
    GOALS,
    HOOK_VERDICTS,
    MCP_TASKS,
    MEMORIES,
    PLANS,
    SIGNING_KEYS,
)
from toolwright.adapters.store.sql.retention import DROPPED_BYTES
from toolwright.adapters.store.sql.spaces import MEMBERS, REACTIONS, SPACE_EVENTS, SPACE_MESSAGES, SPACES
from toolwright.adapters.store.sql.threads import (
    COMPACTIONS,
    ENTITIES,
    ENV,
    EVENTS,
    FILES,
    INBOX,
    NODES,
    RUNS,
    SENT_TEXTS,
    SIGN_OUTS,
    STEPS,
    THREADS,
    WAKES,
)
from toolwright.core.agents.config import AgentHead, ConfiguredAgent
from toolwright.core.agents.memory import Block, BlockLink, Passage
from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.env.env import Asked, EnvRow, SigningKey, Variable, VariablesRequest
from toolwright.core.files import File
from toolwright.core.hooks import POINTS, HookVerdict, Ruling
from toolwright.core.journal.retention import DroppedBytes
from toolwright.core.journal.units import Node, SignedOut
from toolwright.core.json_value import JSON, dumps_unescaped
from toolwright.core.mcp.servers import McpDefinition, McpTask
from toolwright.core.results import AttachmentRef
from toolwright.core.spaces import Entity, FrontEnd, Member, Reaction, Space, SpaceMessage
from toolwright.core.threads.call import MOVES, Call
from toolwright.core.threads.child import Link
from toolwright.core.threads.compaction import Compaction, SentText
from toolwright.core.threads.event import Event
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message, MessageCall, MessageVersion, Sent, StateReport
from toolwright.core.threads.run import QueuedCall, Run, Step, Usage
from toolwright.core.threads.thread import Thread, ThreadValue, Wake

T = TypeVar("T")

texts = st.text(st.characters(), max_size=20)  # including lone surrogates and NUL
numbers = st.integers(0, 2**53)
AT = datetime(2026, 1, 1, tzinfo=UTC)
times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001 - its bounds are naive
json_values: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def builds(kind: Callable[..., T], /, **parts: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Return a strategy for values with these parts. `st.builds` would resolve all annotations."""
    return st.fixed_dictionaries(parts).map(lambda values: kind(**values))


objects = st.dictionaries(texts, json_values, max_size=3)
usages = builds(
    Usage,
    input_tokens=numbers,
    output_tokens=numbers,
    cache_read_tokens=numbers,
    cache_write_tokens=numbers,
)
costs = st.none() | st.floats(0, 1e6)


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:  # of any value
    return st.none() | strategy


threads = builds(
    Thread,
    id=texts,
    agent=texts,
    user_id=some(texts),
    parent_id=some(texts),
    name=some(texts),
    tags=st.lists(texts, max_size=3).map(tuple),
    arguments=some(objects),
    run_id=some(texts),
    epoch=numbers,
    seq=numbers,
    ev=numbers,
    posted=numbers,
    created_at=times,
)
runs = builds(
    Run,
    id=texts,
    thread_id=texts,
    agent=texts,
    error=some(texts),
    usage=usages,
    cost=costs,
    output=json_values,
    waiting=some(objects),
    held=st.booleans(),
    cancel_requested_at=some(times),
    created_at=times,
    started_at=some(times),
    completed_at=some(times),
)
steps = builds(
    Step,
    run_id=texts,
    number=numbers,
    model=texts,
    usage=usages,
    cost=costs,
    finish_reason=some(texts),
    created_at=times,
)
attachments = builds(
    AttachmentRef,
    id=texts,
    path=texts,
    name=texts,
    mime_type=texts,
    size=numbers,
    width=some(numbers),
    height=some(numbers),
    description=some(texts),
)
message_calls = builds(MessageCall, id=texts, name=texts, arguments=texts, model_call_id=texts)
messages = builds(
    Message,
    id=texts,
    role=st.sampled_from(["user", "assistant", "tool"]),
    content=texts,
    seq=numbers,
    run_id=some(texts),
    step=numbers,
    calls=st.lists(message_calls, max_size=2).map(tuple),
    call_id=some(texts),
    model_call_id=some(texts),
    tool_name=some(texts),
    status=st.sampled_from([None, "success", "error"]),
    stack=some(texts),
    attachments=st.lists(attachments, max_size=2).map(tuple),
    native=json_values,
    kept=st.booleans(),
    pinned=st.booleans(),
    sent=some(
        builds(
            Sent,
            system=texts,
            tools=texts,
            compaction=numbers,
            version=numbers,
            tokens=some(numbers),
            counted=some(numbers),
            budget=some(numbers),
        )
    ),
    state=some(builds(StateReport, agent=texts, parts=st.dictionaries(texts, texts, max_size=2))),
    created_at=times,
)
calls = builds(
    Call,
    id=texts,
    thread_id=texts,
    run_id=texts,
    step=numbers,
    position=numbers,
    name=texts,
    kind=st.sampled_from(["function", "external"]),
    arguments=texts,
    model_call_id=texts,
    status=st.sampled_from(sorted(MOVES)),
    route=st.sampled_from([None, "inline", "inbox"]),
    result=some(objects),
    attempts=numbers,
    deadline=some(times),
    expires_at=some(times),
    created_at=times,
    started_at=some(times),
    completed_at=some(times),
)
inbox_events = builds(
    InboxEvent,
    thread_id=texts,
    event_id=texts,
    type=st.sampled_from(["message", "tool_result", "plan"]),
    content=objects,
    run_id=some(texts),
    attempts=numbers,
    n=numbers,
    created_at=times,
)
events = builds(
    Event, thread_id=texts, run_id=some(texts), agent=texts, type=texts, payload=objects, at=times, n=numbers
)

entities = builds(
    Entity,
    id=texts,
    type=st.just("human"),
    external_id=some(texts),
    display_name=some(texts),
    metadata=objects,
    created_at=times,
    updated_at=times,
)


passages = builds(
    Passage,
    agent_id=texts,
    id=texts,
    content=texts,
    tags=st.lists(texts, max_size=3).map(tuple),
    created_at=times,
)
sides = st.lists(st.sampled_from(["side_a", "side_b"]), max_size=2).map(tuple)
links = builds(
    Link,
    blocking=st.booleans(),
    resumable=st.booleans(),
    receives=st.booleans(),
    implicit=st.booleans(),
    hidden=st.lists(texts, max_size=2).map(tuple),
)
members_types = st.sampled_from(["human", "agent"])
variables = builds(
    Variable,
    name=st.text("abcé", min_size=1, max_size=5),
    type=st.sampled_from(["text", "secret"]),
    required=st.booleans(),
    scoped=st.booleans(),
    description=texts,
)
queued = builds(QueuedCall, name=texts, arguments=texts, within=some(texts))

VALUES: list[tuple[Mapping[Any], st.SearchStrategy[Any]]] = [
    (
        THREADS,
        threads.flatmap(
            lambda thread: st.builds(replace, st.just(thread), activated=sides, link=some(links))
        ),
    ),
    (
        RUNS,
        runs.flatmap(
            lambda run: st.builds(replace, st.just(run), queued=st.lists(queued, max_size=2).map(tuple))
        ),
    ),
    (STEPS, steps),
    (
        COMPACTIONS,
        builds(
            Compaction,
            thread_id=texts,
            number=numbers,
            side=st.sampled_from(["", "side_a", "side_b"]),
            within=texts,
            cut=numbers,
            cleared=numbers,
            bare=numbers,
            kept=st.lists(numbers, max_size=3).map(tuple),
            text=texts,
            summary=some(texts),
            covers=numbers,
            omitted=numbers,
            model=some(texts),
            version=numbers,
            usage=some(usages),
            cost=costs,
            budget=some(numbers),
            cause=st.sampled_from(["budget", "refused", "edited", "removed"]),
            edited_by=some(texts),
            run_id=some(texts),
            step=numbers,
            created_at=times,
        ),
    ),
    (
        MESSAGE_VERSIONS,
        builds(
            MessageVersion, thread_id=texts, seq=numbers, until=numbers, content=texts, native=json_values
        ),
    ),
    (SENT_TEXTS, builds(SentText, thread_id=texts, digest=texts, text=texts)),
    (CALLS, calls),
    (INBOX, inbox_events),
    (WAKES, builds(Wake, thread_id=texts, due=times, gen=numbers)),
    (NODES, builds(Node, id=texts, version=texts, slots=numbers, busy=numbers, seen=times)),
    (EVENTS, events),
    (SPACE_EVENTS, events.map(lambda event: replace(event, space_id="sp_1"))),
    (ENTITIES, entities),
    (
        FRONT_ENDS,
        builds(FrontEnd, id=texts, entity_id=texts, name=some(texts), metadata=objects, created_at=times),
    ),
    (
        FILES,
        builds(
            File,
            thread_id=texts,
            path=texts,
            id=texts,
            name=texts,
            mime_type=texts,
            size=numbers,
            digest=texts,
            width=some(numbers),
            height=some(numbers),
            description=some(texts),
            created_at=times,
        ),
    ),
    (
        ENV,
        builds(
            EnvRow,
            owner=texts,
            kind=st.just("env"),
            name=texts,
            type=st.just("text"),
            value=texts,
            key=some(texts),
            updated_at=times,
        ),
    ),
    (
        SPACES,
        builds(
            Space,
            id=texts,
            kind=st.just("public"),
            name=some(texts),
            description=some(texts),
            metadata=objects,
            seq=numbers,
            revision=numbers,
            created_at=times,
            updated_at=times,
        ),
    ),
    (
        MEMBERS,
        builds(
            Member,
            space_id=texts,
            entity_id=texts,
            role=texts,
            read_seq=numbers,
            joined_at=times,
            type=members_types,
        ),
    ),
    (
        SPACE_MESSAGES,
        builds(
            SpaceMessage,
            id=texts,
            space_id=texts,
            seq=numbers,
            entity_id=texts,
            role=st.just("user"),
            content=texts,
            metadata=objects,
            parent_id=some(texts),
            created_at=times,
            edited_at=some(times),
        ),
    ),
    (REACTIONS, builds(Reaction, message_id=texts, entity_id=texts, emoji=texts, created_at=times)),
    (
        REQUESTS,
        builds(
            VariablesRequest,
            id=texts,
            thread_id=texts,
            kind=st.just("run"),
            agent=texts,
            required=st.lists(variables, max_size=2).map(tuple),
            child=some(objects),
            expires_at=some(times),
            created_at=times,
        ),
    ),
    (
        AGENTS,
        builds(
            ConfiguredAgent,
            id=texts,
            name=texts,
            description=texts,
            config=objects,
            revision=numbers,
            created_at=times,
            updated_at=times,
        ),
    ),
    (
        GOALS,
        builds(
            Goal, agent_id=texts, id=texts, description=texts, status=texts, priority=texts, created_at=times
        ),
    ),
    (
        BLOCKS,
        builds(Block, agent_id=texts, label=texts, content=texts, updated_at=times, is_shared=st.booleans()),
    ),
    (
        MCP_TASKS,
        builds(
            McpTask,
            call_id=texts,
            thread_id=texts,
            agent_id=texts,
            server=texts,
            task_id=texts,
            questions=objects,
            created_at=times,
        ),
    ),
    (
        MCP_DEFINITIONS,
        builds(
            McpDefinition,
            agent_id=texts,
            server=texts,
            tool=texts,
            digest=texts,
            held=some(texts),
            definition=some(objects),
            updated_at=times,
        ),
    ),
    (
        AGENT_HEADS,
        builds(AgentHead, id=texts, name=texts, revision=numbers, created_at=times, updated_at=times),
    ),
    (BLOCK_LINKS, builds(BlockLink, agent_id=texts, label=texts, reader_id=texts)),
    (ASKED, builds(Asked, name=texts, request_id=texts, thread_id=texts)),
    (THREAD_VALUES, builds(ThreadValue, thread_id=texts, key=texts, value=texts)),
    (SIGN_OUTS, builds(SignedOut, key=texts, at=times, until=times)),
    (DROPPED_BYTES, builds(DroppedBytes, digest=texts, at=times)),
    (
        HOOK_VERDICTS,
        builds(
            HookVerdict,
            id=texts,
            thread_id=texts,
            run_id=texts,
            step=numbers,
            hook=texts,
            point=st.sampled_from(POINTS),
            ruling=st.sampled_from(get_args(Ruling)),
            reason=some(texts),
            call_id=some(texts),
            details=some(objects),
            created_at=times,
        ),
    ),
    (SIGNING_KEYS, builds(SigningKey, entity_id=texts, name=texts, key=texts, created_at=times)),
    (MEMORIES, builds(Memory, agent_id=texts, key=texts, value=texts, updated_at=times)),
    (
        PLANS,
        builds(
            Plan,
            agent_id=texts,
            id=texts,
            name=texts,
            instruction=texts,
            next_run_at=times,
            cron=some(texts),
            timezone=some(texts),
            created_at=times,
        ),
    ),
]


def columns_of(mapping: Mapping[Any]) -> list[str]:
    return list(mapping.query.selected_columns.keys())


@pytest.mark.parametrize(("mapping", "values"), VALUES, ids=[mapping.table.name for mapping, _ in VALUES])
@given(data=st.data())
def test_a_value_comes_out_of_its_row_as_it_went_in(
    mapping: Mapping[Any], values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(values)
    params = mapping.params(value)
    assert list(params) == columns_of(mapping)
    assert mapping.read(list(params.values())) == value


@given(messages)
def test_a_message_comes_out_of_its_row_as_it_went_in(value: Message) -> None:
    params = MESSAGES.params(replace(value, seq=None), thread_id="th", seq=value.seq)
    assert MESSAGES.read([params[name] for name in columns_of(MESSAGES)]) == value


@given(passages)
def test_a_passage_comes_out_of_its_row_as_it_went_in(value: Passage) -> None:
    params = PASSAGES.params(value, place=7)
    assert PASSAGES.read([params[name] for name in columns_of(PASSAGES)]) == value


def test_every_table_that_values_are_made_of_is_tried() -> None:
    mapped = {reader.table.name for reader in READERS if isinstance(reader, Mapping)}
    assert mapped <= {mapping.table.name for mapping, _ in VALUES} | {"messages", "passages"}


def test_json_that_is_written_otherwise_is_read_all_the_same() -> None:
    row = list(MEMORIES.params(Memory(agent_id="a", key="k", value="say", updated_at=AT)).values())
    assert MEMORIES.read([*row[:2], ' "s\\u0061y" ', row[3]]).value == "say"
    for text in ('"say" and more', '"say', "", "7"):
        with pytest.raises(UnreadableColumn):
            MEMORIES.read([*row[:2], text, row[3]])


def test_a_variable_that_could_not_be_defined_makes_its_request_a_broken_row() -> None:
    request = VariablesRequest(id="r", thread_id="th", kind="run", agent="a", required=(), created_at=AT)
    params = {**REQUESTS.params(request), "required": '[["", "text", true, false, ""]]'}
    [broken] = REQUESTS.broken([list(params.values())])
    assert broken.column == "required"


def test_a_row_may_be_followed_by_columns_of_another_table() -> None:
    memory = Memory(agent_id="a", key="k", value="say", updated_at=AT)
    assert MEMORIES.read([*MEMORIES.params(memory).values(), b"\xff"]) == memory


@given(json_values)
def test_letters_are_kept_as_they_are_and_half_characters_escaped(value: JSON) -> None:
    text = dumps_unescaped(value)
    assert json.loads(text) == value
    text.encode()  # a database accepts it
    half = any("\ud800" <= letter <= "\udfff" for letter in json.dumps(value, ensure_ascii=False))
    assert half or text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
