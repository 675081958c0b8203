"""For every history of a conversation: each request is valid, within its budget, and can be rebuilt."""

import re
from base64 import b64encode
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolwright as tw
from tests.databases import sqlite_journal
from tests.runtime.narrow import Counting, Narrow, all_tokens_of, check_rebuilt, check_valid, digest_of
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Advance, Committed, Conflict, Unit
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.threads.compaction import Compaction, in_force, shown
from toolwright.core.threads.event import Event
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Side
from toolwright.core.value import changed
from toolwright.runtime.context.conversation import arranged, as_read_by_side, prompted
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ManualMotor, MemoryBus, MemoryStore, by_hand_on

pytestmark = pytest.mark.anyio

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
PIN = "PIN "
APP_KEY = "app-key-0123456789"

SIZES = st.sampled_from([1, 300, 590, 900, 2_500])
RESULTS = st.sampled_from([1, 590, 700, 6_000, 40_000])
OPS: st.SearchStrategy[tuple[str, int]] = st.one_of(
    st.tuples(st.sampled_from(["say", "invalid", "join", "edit", "inject", "reword", "sums"]), SIZES),
    st.tuples(st.sampled_from(["look", "look", "three", "answer", "below"]), RESULTS),
    st.tuples(st.sampled_from(["outside", "unknown", "picture", "pin", "whole", "again"]), st.just(1)),
    st.tuples(st.sampled_from(["photo", "key"]), st.just(1)),
    st.tuples(st.sampled_from(["file", "files"]), SIZES),
)


def counted(factor: float) -> Counting:
    """Return the token count of a provider: `factor` tokens for each estimated one.

    It rounds up, so that an estimate of a long request from the count of a short one is never too low.
    """
    return lambda request: ceil(round(all_tokens_of(request) * factor, 6))


class Pinning:
    """A journal in which messages that begin with `PIN` are pinned, as if by a user."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    async def commit(self, unit: Unit) -> Committed | Conflict:
        if isinstance(unit, Advance) and any(each.content.startswith(PIN) for each in unit.messages):
            messages = [changed(each, pinned=each.content.startswith(PIN)) for each in unit.messages]
            unit = changed(unit, messages=tuple(messages))
        return await self.inner.commit(unit)

    async def close(self) -> None:
        """Stay open for the next runtime."""

    def __getattr__(self, name: str) -> Any:  # reads pass through
        return getattr(self.inner, name)


def call(name: str, arguments: str = "{}") -> ModelResponse:
    return ModelResponse(calls=(ModelCall(id="c1", name=name, arguments=arguments),))


@dataclass
class Conversation:
    """A thread whose history is a list of operations, on a journal that outlives runtimes.

    With `chat` the conversation of the prompt tool begins with the chat. With `alone` each operation happens in a
    separate process. With `leaks` all results of tools contain the secrets. `keys` are the thread's secrets, by name.
    """

    model: Narrow
    sides: int
    policy: tw.Context
    path: Path | None
    chat: bool = False
    alone: bool = False
    leaks: bool = False
    keys: dict[str, str] = field(default_factory=dict[str, str])
    store: Store = field(init=False)
    plan: deque[ModelResponse] = field(default_factory=deque[ModelResponse])
    below: deque[ModelResponse] = field(default_factory=deque[ModelResponse])
    thread_id: str = ""
    checked: int = 0
    seen: int = 0
    rt: Runtime = field(init=False)
    motor: ManualMotor = field(init=False)

    async def open(self) -> None:
        """Open the journal: in memory, or the file."""
        published: list[Event] = []
        publish = published.extend
        inner: Store = MemoryStore(publish) if self.path is None else await sqlite_journal(self.path, publish)
        pinning: Any = Pinning(inner)
        self.store = pinning

    def answer(self, request: ModelRequest) -> ModelResponse:
        """Return the next planned answer of the model, in the conversation of the request."""
        plan = self.below if "sums" in request.who else self.plan
        return plan.popleft() if plan else ModelResponse(text="Done. " * 20)

    def result(self, part: str, count: int) -> str:
        """Return the text of a result, of that many parts, with all secrets in its middle if they leak."""
        before, after = part * (count // 2), part * (count - count // 2)
        return f"{before}{' '.join(self.secrets)}{after}" if self.leaks else before + after

    @property
    def secrets(self) -> list[str]:
        """The secrets that the thread has so far."""
        return [APP_KEY, *self.keys.values()]

    def app(self) -> tw.App:
        @tw.tool(description="Look.")
        async def look(size: int) -> str:
            return self.result("x", size)

        @tw.tool(description="Draw.")
        async def picture() -> tw.ToolResult:
            return tw.ToolResult.ok("p", (self.file("p.png"),))

        @tw.tool(description="Files.")
        async def files(size: int) -> tw.ToolResult:
            return tw.ToolResult.ok(
                self.result("f", size),
                tuple([self.file(self.result(each, 1)) for each in ("f" * 70, "s.txt")]),
            )

        @tw.tool(description="Key.")
        async def key(state: tw.ThreadState) -> str:
            name = f"KEY_{len(self.keys)}"
            self.keys[name] = f"{name}-0123456789"
            state.set_env(name, self.keys[name])
            return self.result("k", 1)

        @tw.tool(description="Join.")
        async def join(size: int) -> str:
            await self.rt.threads.send(self.thread_id, "j" * size)
            return "sent"

        @tw.tool(description="Edit.")
        async def edit(state: tw.ThreadState, size: int) -> str:
            messages = await state.get_messages(1_000)
            own = [each for each in messages if each.content[:4] != PIN]
            state.update_message(own[size * 7 % len(own)].id, "e" * size)
            return "edited"

        @tw.tool(description="Inject.")
        async def inject(state: tw.ThreadState, size: int) -> str:
            state.inject_message("i" * size, "user" if size % 2 else "assistant")
            return "injected"

        outside = tw.Tool(
            name="outside", description="Ask.", kind="external", parameters={"type": "object"}, timeout=0.01
        )
        sums = tw.Prompt(
            "sums",
            "Sum.",
            tool_description="Sums.",
            expose_as_tool=True,
            model=self.model,
            tools=[look],
            context=self.policy,
            include_chat=self.chat,
            include_past_tools=self.chat,
        )
        tools: list[Any] = [look, picture, files, key, join, edit, inject, outside, "sums"]
        names = ("one", "two")[: self.sides]
        prompts = [
            tw.Prompt(each, "Be. " * 20, model=self.model, tools=tools, context=self.policy) for each in names
        ]
        kind: dict[str, Any] = {"type": "dual_ai", "max_session_turns": 1} if self.sides == 2 else {}
        other = tw.Side(prompts[1]) if self.sides == 2 else None
        agent = tw.Agent("talker", tw.Side(prompts[0]), other, **kind)
        return tw.App(agents=[agent], prompts=[sums], env={"APP_KEY": APP_KEY})

    def file(self, name: str) -> tw.Attachment:
        """Return a file: a picture, or a text with the secrets in its bytes, which a model does not receive."""
        if name.endswith(".png"):
            return tw.Attachment(name=name, mime_type="image/png", data=PIXEL)
        data = b64encode(self.result("b", 9).encode()).decode()
        return tw.Attachment(name=name, mime_type="text/plain", data=data)

    @asynccontextmanager
    async def runtime(self) -> AsyncGenerator[None]:
        async def opening(_: MemoryBus) -> Store:
            return self.store

        async with by_hand_on(opening, self.app()) as (self.rt, self.motor):
            if not self.thread_id:
                self.thread_id = await self.begin()
            if self.keys:  # this process cannot decrypt values that another one has encrypted
                await self.rt.threads.set_env(self.thread_id, self.keys)
            yield

    async def begin(self) -> str:
        """Create the thread."""
        return (await self.rt.threads.create("talker")).id

    async def say(self, text: str, *plan: ModelResponse, files: Sequence[tw.Attachment] = ()) -> None:
        """Send a message. The model answers with the plan, and finally says that it is done."""
        self.plan.extend(plan)
        run = await self.rt.threads.send(self.thread_id, text, files)
        await self.motor.run_until_idle(500)
        run = await self.rt.runs.get(run.id)
        while run.status == "waiting":
            await self.motor.run_timers()
            await self.motor.run_until_idle(500)
            run = await self.rt.runs.get(run.id)
        assert run.status == "completed", run.error

    async def happen(self, kind: str, size: int) -> None:
        """Execute one operation."""
        match kind:
            case "say":
                await self.say("s" * size)
            case "pin":
                await self.say(PIN + "keep this")
            case "photo":
                await self.say("See.", files=[self.file("photo.png")])
            case "file":
                await self.say("s" * size, files=[self.file("a.txt"), self.file("b.txt")])
            case "look" | "join" | "edit" | "inject" | "files":
                await self.say("Go", call(kind, f'{{"size": {size}}}'))
            case "three":
                await self.say("Go", *[call("look", f'{{"size": {size}}}')] * 3)
            case "below":
                self.below.extend([call("look", f'{{"size": {size}}}')] * 4)
                await self.say("Go", call("sums", '{"message": "Sum."}'))
            case "sums":
                await self.say("Go", call("sums", f'{{"message": "{"m" * size}"}}'))
            case "reword" | "whole":  # by the owner of the thread, if anything is left out
                rows = in_force(await self.store.compactions(self.thread_id))
                sides: set[Side | None] = {each.side or None for each in rows if each.cut and not each.within}
                for side in sorted(sides, key=str):
                    if kind == "whole":
                        await self.rt.threads.remove_summary(self.thread_id, side)
                    # short enough for a photo to fit in addition, since the owner's text is never shortened
                    else:
                        words = "w" * min(size, 1_000)
                        await self.rt.threads.edit_summary(self.thread_id, words, side)
            case "invalid":
                await self.say("Go", call("look", '{"size": "' + "?" * size + '"}'))
            case "unknown":
                await self.say("Go", call("nonsense"))
            case "answer":
                for each in await self.rt.calls.list():
                    assert each.run_id is not None
                    await self.rt.calls.submit(each.run_id, each.id, self.result("a", min(size, 2_500)))
                await self.motor.run_until_idle(500)
            case _:
                await self.say("Go", call(kind))

    async def run(self, rest: deque[tuple[str, int]]) -> None:
        """Execute all operations, in one runtime or in several."""
        while rest:
            async with self.runtime():
                while rest:
                    kind, size = rest.popleft()
                    if kind == "again":
                        break
                    await self.happen(kind, size)
                    await self.check()
                    if kind == "pin" or self.alone:
                        break
            if self.path is not None:
                await self.close()
                await self.open()
        await self.check_again()

    async def check_again(self) -> None:
        """Rebuild the requests in another process, from the journal alone, also within prompt tools."""
        async with self.runtime():
            self.check_secrets("", await self.rt.threads.messages(self.thread_id, 2_000))
            rows = await self.store.compactions(self.thread_id)
            versions = await self.store.message_versions(self.thread_id)
            self.check_secrets(
                "\n".join([each.content for each in versions] + [each.text for each in rows]), ()
            )
            runs = await self.rt.runs.list(thread_id=self.thread_id, limit=500)
            prompts = [
                each for run in reversed(runs) for each in await self.rt.sent_prompts.of_run(run.id, 500)
            ]
            pins = await self.store.pinned_messages(self.thread_id)
        assert prompts and all(each.sent is not None for each in prompts)
        if not pins:  # it is not recorded when a message was pinned
            check_rebuilt(prompts, self.model.asked)

    async def close(self) -> None:
        """Close the journal."""
        pinning: Any = self.store
        await pinning.inner.close()

    async def check(self) -> None:
        """Check all requests since the last check."""
        requests = self.model.requests[self.checked :]
        self.checked = len(self.model.requests)
        for request in requests:
            check_valid(request.messages)
            self.check_secrets(request.system, request.messages)
        self.model.summary = "SUMMARY " * 4
        hashes = {digest_of(each.messages) for each in requests}
        messages = await self.rt.threads.messages(self.thread_id, 2_000)
        versions = await self.store.message_versions(self.thread_id)
        rows = await self.store.compactions(self.thread_id)
        for answer in messages:
            sent, seq = answer.sent, answer.seq or 0
            if sent is None or seq <= self.seen:
                continue
            if answer.within is not None:
                continue
            # messages of a failed run are not read again by later runs
            before = [
                each
                for each in messages
                if (each.seq or 0) < seq
                and each.within is None
                and (each.kept or each.run_id == answer.run_id)
            ]
            for version in reversed(versions):
                if version.until >= seq - 1:
                    before = [
                        changed(each, content=version.content) if each.seq == version.seq else each
                        for each in before
                    ]
            assert self.made_again(before, answer, rows) in hashes
        self.seen = max([each.seq or 0 for each in messages], default=0)

    def check_secrets(self, system: str, messages: Sequence[Message]) -> None:
        """Check that these texts contain no secret."""
        texts = [system, *[each.content for each in messages]]
        texts += [call.arguments for each in messages for call in each.calls]
        texts += [file.name for each in messages for file in each.attachments]
        text = "\n".join(texts)
        assert not any(each in text for each in self.secrets)

    def made_again(self, before: Sequence[Message], answer: Message, rows: Sequence[Compaction]) -> str:
        """Return the digest of the request for that answer, computed from the journal alone."""
        assert answer.sent is not None
        known = in_force([each for each in rows if each.number <= answer.sent.compaction and not each.within])
        by_side = {each.side: each for each in known}
        row = by_side.get(answer.side or "")
        if row is None and by_side:
            row = min(by_side.values(), key=lambda each: each.cut)
        sent = arranged(shown(before, row))
        last = sent[-1]
        if self.sides == 2:
            if last.role == "assistant" and last.side not in (None, answer.side):
                last = None
            sides = self.app().catalog.agent("talker").sides
            sent = as_read_by_side(answer.side or "side_a", sent, sides)
        return digest_of(prompted(sent, last))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    ops=st.lists(OPS, min_size=6, max_size=30),
    sides=st.sampled_from([1, 1, 2]),
    limit=st.sampled_from([4_000, 6_000]),
    knows=st.booleans(),
    says=st.booleans(),
    summarize=st.booleans(),
    factor=st.sampled_from([1.0, 1.0, 0.6, 1.7]),
    on_disk=st.booleans(),
    chat=st.booleans(),
    leaks=st.booleans(),
)
async def test_every_request_is_valid_within_its_budget_and_can_be_made_again(
    ops: list[tuple[str, int]],
    sides: int,
    limit: int,
    knows: bool,
    says: bool,
    summarize: bool,
    factor: float,
    on_disk: bool,
    chat: bool,
    leaks: bool,
) -> None:
    """The provider counts `factor` tokens for each estimated one."""
    talks: list[Conversation] = []
    model = Narrow(
        lambda request: talks[0].answer(request),
        limit=limit,
        says=says,
        counting=counted(factor),
    )
    policy = tw.Context(max_tokens=limit if knows else None, summarize=summarize)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db" if on_disk else None
        talk = Conversation(model=model, sides=sides, policy=policy, path=path, chat=chat, leaks=leaks)
        talks.append(talk)
        await play(talk, ops)
    assert not (knows and factor <= 1.0 and model.refused)


async def play(talk: Conversation, ops: Sequence[tuple[str, int]]) -> None:
    """Open the conversation, execute all operations, and close it."""
    await talk.open()
    try:
        await talk.run(deque(ops))
    finally:
        await talk.close()


ID = re.compile(r"\b[a-z]+_[0-9a-f]{20,}(?:\.\d+)*")


def without_ids(requests: Sequence[ModelRequest]) -> list[str]:
    """Return the requests as texts in which ids are replaced by numbers."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return str(numbers.setdefault(match[0], len(numbers)))

    return [
        ID.sub(
            number, repr([(each.role, each.content, each.calls, each.call_id) for each in request.messages])
        )
        for request in requests
    ]


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    ops=st.lists(OPS, min_size=6, max_size=24),
    sides=st.sampled_from([1, 2]),
    factor=st.sampled_from([1.0, 0.6, 1.7]),
    chat=st.booleans(),
)
async def test_whatever_processes_go_on_with_a_conversation_models_are_sent_the_same(
    ops: list[tuple[str, int]], sides: int, factor: float, chat: bool
) -> None:
    """One process in memory, and one per operation on a file. Without summaries, since these depend on timing."""
    sent: list[list[str]] = []
    for alone in (False, True):
        talks: list[Conversation] = []
        model = Narrow(
            lambda request, talks=talks: talks[0].answer(request),
            limit=4_000,
            counting=counted(factor),
        )
        policy = tw.Context(max_tokens=4_000, summarize=False)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "journal.db" if alone else None
            talk = Conversation(model=model, sides=sides, policy=policy, path=path, chat=chat, alone=alone)
            talks.append(talk)
            await play(talk, ops)
        sent.append(without_ids(model.requests))
    assert sent[0] == sent[1]


@dataclass
class Home(Conversation):
    """An agent's home thread: messages of a space arrive in it; those of runs that skip or fail are dropped."""

    husam: str = ""
    gone: list[str] = field(default_factory=list[str])
    count: int = 0

    def answer(self, request: ModelRequest) -> ModelResponse:
        """Return the next planned answer of the model, or raise if the plan says so."""
        response = super().answer(request)
        if response.text == "raise":
            raise RuntimeError("a bug")
        return response

    def app(self) -> tw.App:
        @tw.tool(description="Look.")
        async def look(size: int) -> str:
            return "x" * size

        prompt = tw.Prompt("host", "Be. " * 20, model=self.model, tools=[look], context=self.policy)
        return tw.App(agents=[tw.Agent("host", prompt, toolkits=["spaces"])])

    async def begin(self) -> str:
        """Create the space, with a person and the agent in it. Return the agent's home thread."""
        person = await self.rt.entities.create(external_id="husam", display_name="Husam")
        await self.rt.spaces.create("Tea", id="tea", members=[person.id, "host"])
        self.husam = person.id
        return (await self.rt.agents.get("host")).home_thread_id

    async def happen(self, kind: str, size: int) -> None:
        self.count += 1
        text = f"<{self.count}>"
        bug = ModelResponse(text="raise")
        plans = {
            "post": [],
            "skip": [call("skip", '{"reason": "Small talk"}')],
            "look": [call("look", f'{{"size": {size}}}')] * 2,
            "fail": [bug],
            "late": [*[call("look", f'{{"size": {size}}}')] * 3, bug],
        }
        self.plan.extend(plans[kind])
        spoken = await self.rt.spaces.say("tea", self.husam, f"{text} {'s' * min(size, 2_500)}")
        await self.motor.run_until_idle(500)
        while await self.motor.run_timers():  # messages of a failed run are read again by another run
            pass
        [run_id] = spoken.runs.values()
        assert ((await self.rt.runs.get(run_id)).status == "failed") == (bug in plans[kind])
        [run] = await self.rt.runs.list(thread_id=self.thread_id, limit=1)
        assert run.status == ("skipped" if kind == "skip" else "completed"), run.error
        if kind == "skip":
            self.gone.append(text)

    async def check(self) -> None:
        requests = self.model.requests[self.checked :]
        self.checked = len(self.model.requests)
        for request in requests:
            words = "".join([each.content for each in request.messages])
            is_summary = "summary" in request.who
            if not is_summary:
                check_valid(request.messages)
            assert not any(text in words for text in self.gone if text != f"<{self.count}>")
            assert is_summary or words.count(f"<{self.count}>") == 1, "it is read once"


HOME_OPS: st.SearchStrategy[tuple[str, int]] = st.one_of(
    st.tuples(st.sampled_from(["post", "skip", "fail"]), SIZES),
    st.tuples(st.sampled_from(["look", "late"]), RESULTS),
    st.tuples(st.just("again"), st.just(1)),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    ops=st.lists(HOME_OPS, min_size=6, max_size=30),
    factor=st.sampled_from([1.0, 0.6, 1.7]),
    summarize=st.booleans(),
    on_disk=st.booleans(),
)
async def test_what_skipped_and_failed_runs_have_said_is_sent_to_no_later_one(
    ops: list[tuple[str, int]], factor: float, summarize: bool, on_disk: bool
) -> None:
    talks: list[Home] = []
    model = Narrow(
        lambda request: talks[0].answer(request),
        limit=6_000,
        counting=counted(factor),
    )
    policy = tw.Context(max_tokens=6_000, summarize=summarize)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db" if on_disk else None
        talk = Home(model=model, sides=1, policy=policy, path=path)
        talks.append(talk)
        await play(talk, [("post", 1), *ops])  # the first message opens the thread that "again" reads
    assert not (factor <= 1.0 and model.refused)
