"""Values and rows: what goes in comes out, for every value there is."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolwright.adapters.store.engine.codecs import Params
from toolwright.adapters.store.tables import calls as rows_calls
from toolwright.adapters.store.tables import calls as tables_calls
from toolwright.adapters.store.tables import events as rows_events
from toolwright.adapters.store.tables import events as tables_events
from toolwright.adapters.store.tables import kept as rows_kept
from toolwright.adapters.store.tables import kept as tables_kept
from toolwright.adapters.store.tables import rows_messages
from toolwright.adapters.store.tables import threads as rows_threads
from toolwright.adapters.store.tables import threads as tables_threads
from toolwright.core.json_value import JSON, dumps_unescaped
from toolwright.core.results.content import AttachmentRef
from toolwright.core.spaces.entity import Entity
from toolwright.core.threads.call import MOVES, Call
from toolwright.core.threads.event import Event
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message, MessageCall
from toolwright.core.threads.run import Run, Step, Usage
from toolwright.core.threads.thread import Thread

texts = st.text(st.characters(), max_size=20)  # lone surrogates and NUL among them
numbers = st.integers(0, 2**53)
times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001 - its bounds are naive
json_values: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, json_values, max_size=3)
usages = st.builds(
    Usage,
    input_tokens=numbers,
    output_tokens=numbers,
    cache_read_tokens=numbers,
    cache_write_tokens=numbers,
)
costs = st.none() | st.floats(0, 1e6)


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:  # of whatever it makes
    return st.none() | strategy


def row(params: Params, table: Any) -> list[Any]:  # a table's row has its columns' types
    assert set(params) == {column.name for column in table.columns}
    return [params[column.name] for column in table.columns]


threads = st.builds(
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
runs = st.builds(
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
steps = st.builds(
    Step,
    run_id=texts,
    number=numbers,
    model=texts,
    usage=usages,
    cost=costs,
    finish_reason=some(texts),
    created_at=times,
)
attachments = st.builds(
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
message_calls = st.builds(MessageCall, id=texts, name=texts, arguments=texts, model_call_id=texts)
messages = st.builds(
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
    created_at=times,
)
calls = st.builds(
    Call,
    id=texts,
    thread_id=texts,
    run_id=texts,
    step=numbers,
    position=numbers,
    name=texts,
    kind=texts,
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
inbox_events = st.builds(
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
events = st.builds(
    Event, thread_id=texts, run_id=some(texts), agent=texts, type=texts, payload=objects, at=times, n=numbers
)

entities = st.builds(
    Entity,
    id=texts,
    type=st.just("human"),
    external_id=some(texts),
    display_name=some(texts),
    metadata=objects,
    created_at=times,
    updated_at=times,
)


@given(threads)
def test_a_thread_round_trips(value: Thread):
    assert rows_threads.thread(row(rows_threads.thread_params(value), tables_threads.threads)) == value


@given(runs)
def test_a_run_round_trips(value: Run):
    assert rows_threads.run(row(rows_threads.run_params(value), tables_threads.runs)) == value


@given(steps)
def test_a_step_round_trips(value: Step):
    assert rows_threads.step(row(rows_threads.step_params(value), tables_threads.steps)) == value


@given(messages)
def test_a_message_round_trips(value: Message):
    params = rows_messages.message_params(replace(value, seq=None), "th", value.seq or 0)
    assert rows_messages.message(row(params, tables_threads.messages)) == value


@given(calls)
def test_a_call_round_trips(value: Call):
    assert rows_calls.call(row(rows_calls.call_params(value), tables_calls.calls)) == value


@given(inbox_events)
def test_an_inbox_event_round_trips(value: InboxEvent):
    assert (
        rows_events.inbox_event(row(rows_events.inbox_params(value, value.n or 0), tables_events.inbox))
        == value
    )


@given(events)
def test_an_event_round_trips(value: Event):
    assert rows_events.event(row(rows_events.event_params(value), tables_events.events)) == value


@given(entities)
def test_an_entity_round_trips(value: Entity):
    assert rows_kept.entity(row(rows_kept.entity_params(value), tables_kept.entities)) == value


@given(json_values)
def test_letters_are_kept_as_they_are_and_half_characters_escaped(value: JSON) -> None:
    text = dumps_unescaped(value)
    assert json.loads(text) == value
    text.encode()  # a database takes it
    half = any("\ud800" <= letter <= "\udfff" for letter in json.dumps(value, ensure_ascii=False))
    assert half or text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
