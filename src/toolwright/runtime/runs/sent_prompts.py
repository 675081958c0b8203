"""Sent prompts: the requests sent to the model in each step of a run, rebuilt from the journal."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.errors import NotFound
from toolwright.core.files import fold
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import ALL_ROWS, PAGE_BYTES, Page, PageLimit
from toolwright.core.request_changes import digests_of, rebuilt, rebuilt_state
from toolwright.core.results import AttachmentRef
from toolwright.core.threads.call import Call
from toolwright.core.threads.compaction import (
    Compaction,
    SentPrompt,
    parts_of,
    shown,
    text_tokens,
)
from toolwright.core.threads.message import Message, MessageVersion, Sent
from toolwright.core.threads.run import Run, Side, Step
from toolwright.core.threads.state_report import as_sent, report_text
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.pipeline import PreparedCall, prepare
from toolwright.core.tools.relations import PromptCall
from toolwright.core.value import changed
from toolwright.runtime.agents.speakers import Speakers
from toolwright.runtime.calls.nested import opening, paths
from toolwright.runtime.carried import Carried
from toolwright.runtime.context.conversation import arranged, as_formed, as_read, as_read_by_side
from toolwright.runtime.journal import by_id, page

ROWS = 250  # messages per read


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """The conversation of a prompt tool: its agent, or None if it no longer exists, and the opening messages."""

    active: ActiveAgent | None
    opening: tuple[Message, ...]


@dataclass(slots=True, kw_only=True)
class _History:
    """The data from which the requests of a run are rebuilt. `root` is the thread's own conversation."""

    thread: Thread
    run: Run
    root: Sequence[Message]
    within: Mapping[str, Sequence[Message]]
    rows: Mapping[int, Compaction]
    versions: Mapping[int, Sequence[MessageVersion]]
    texts: Mapping[str, str]
    opened: dict[str, _Opened] = field(default_factory=dict[str, _Opened])
    speakers: dict[tuple[Side | None, str | None], ActiveAgent | None] = field(
        default_factory=dict[tuple[Side | None, str | None], ActiveAgent | None]
    )

    def row(self, sent: Sent | None) -> Compaction | None:
        """Return the compaction that was in effect for a request."""
        return None if sent is None else self.rows.get(sent.compaction)

    def before(self, place: int) -> list[Message]:
        """Return the thread's own conversation before that sequence number, as it was when that message was written.

        Messages of the run that were dropped later are included.
        """
        return [
            self._as_it_was(each, place)
            for each in self.root
            if (each.seq or 0) < place and (each.kept or each.run_id == self.run.id)
        ]

    def _as_it_was(self, message: Message, place: int) -> Message:
        for each in self.versions.get(message.seq or 0, ()):
            if each.until >= place:
                return changed(message, content=each.content, native=each.native)
        return message


class SentPrompts(Carried):
    """Rebuilds the requests sent to models, from the records of their answers and the rules that built the requests.

    The rules are those of the agent's current configuration. If its view of a conversation has changed since, or a
    message was pinned or dropped, the messages can differ from those that were sent.
    """

    def __init__(self, store: Store, speakers: Speakers) -> None:
        self._store = store
        self._speakers = speakers

    async def of_run(self, run_id: str, limit: int = 20, offset: int = 0) -> Sequence[SentPrompt]:
        """Return the requests of the run in order, including those of its prompt tools. Raises `NotFound`."""
        page(limit, offset)
        run = await self._store.run(by_id("run", run_id))
        thread = None if run is None else await self._store.thread(run.thread_id)
        if run is None or thread is None:
            raise NotFound(f"There is no run {run_id!r}.")
        said = await self._store.run_messages(run_id, ALL_ROWS)
        steps = await self._store.steps(run_id, ALL_ROWS)
        wanted = _requests(said, steps)[offset : offset + limit]
        history = await self._history(thread, run, said, [each.sent for each in wanted if each.sent])
        prompts: list[SentPrompt] = []
        size = 0
        for each in wanted:
            if size >= PAGE_BYTES and isinstance(limit, PageLimit):
                return Page(prompts, more=True)
            prompts.append(await self._rebuilt(history, each))
            size += prompts[-1].size
        return prompts

    async def _history(
        self, thread: Thread, run: Run, said: Sequence[Message], sent: Sequence[Sent]
    ) -> _History:
        named = [(each.system, each.tools, *digests_of(each.change)) for each in sent]
        digests = {digest for each in named for digest in each if digest}
        texts = {each.digest: each.text for each in await self._store.sent_texts(thread.id, sorted(digests))}
        versions: dict[int, list[MessageVersion]] = {}
        for each in await self._store.message_versions(thread.id):
            versions.setdefault(each.seq, []).append(each)
        within: dict[str, list[Message]] = {}
        for message in said:
            if message.within is not None:
                within.setdefault(message.within, []).append(message)
        numbers = [each.sent.compaction for each in said if each.sent is not None and each.sent.compaction]
        compactions: Sequence[Compaction] = ()
        if numbers:  # the first request has the number 1
            first = min(numbers)
            compactions = await self._store.compactions(thread.id, None, max(numbers) - first + 1, first - 1)
        rows = {each.number: each for each in compactions}
        return _History(
            thread=thread,
            run=run,
            root=await self._conversation(thread, said, rows) if sent else (),
            within=within,
            rows=rows,
            versions=versions,
            texts=texts,
        )

    async def _conversation(
        self, thread: Thread, said: Sequence[Message], rows: Mapping[int, Compaction]
    ) -> list[Message]:
        """Return the messages of the thread's own conversation that the run's requests can have contained, in order."""
        asked = [each.sent for each in said if each.within is None and each.sent is not None]
        used = [rows.get(each.compaction) for each in asked]
        cut = min([0 if row is None else row.cut for row in used], default=0)
        last = max([each.seq or 0 for each in said], default=0)
        found: dict[str, Message] = {}
        has_more, before = True, last + 1
        while has_more:
            page = await self._store.messages_before(thread.id, before, ROWS)
            found |= {each.id: each for each in page}
            before = page[0].seq or 0 if page else 0
            has_more = len(page) == ROWS and before > cut + 1
        if cut:
            kept = {seq for row in used if row is not None for seq in row.kept if seq < before}
            pages = [await self._store.messages_before(thread.id, seq + 1, 1) for seq in sorted(kept)]
            pages.append(await self._store.pinned_messages(thread.id))
            found |= {each.id: each for page in pages for each in page if (each.seq or 0) <= last}
        own = {each.id: each for each in said if each.within is None}
        return sorted((own | found).values(), key=lambda each: each.seq or 0)

    async def _active(
        self, thread: Thread, run: Run, side: Side | None, by: str | None
    ) -> ActiveAgent | None:
        """Return the current configuration of the agent that answered on that side through that prompt."""
        found: ActiveAgent | None = None
        asked = run if side is None else changed(run, side=side)
        for agent_id in dict.fromkeys([run.agent, thread.answering, thread.agent]):
            active = await self._speakers.agent_for(changed(thread, active_agent=agent_id), asked)
            if isinstance(active, str):
                continue
            if by is None or active.prompt.name == by:
                return active
            found = found or active
        return found

    async def _speaker(self, history: _History, message: Message) -> ActiveAgent | None:
        key = message.side, message.by
        if key not in history.speakers:
            history.speakers[key] = await self._active(history.thread, history.run, *key)
        return history.speakers[key]

    async def _rebuilt(self, history: _History, prompt: SentPrompt) -> SentPrompt:
        if prompt.sent is None:
            return prompt
        if prompt.within is None:
            answer = next(each for each in history.root if each.id == prompt.message_id)
            active = await self._speaker(history, answer)
            agent_id = history.run.agent if active is None else active.agent_id
            build = partial(_of_thread, history, answer, active)
        else:
            opened, agent_id = await self._opened(history, prompt.within), ""
            answer = next(each for each in history.within[prompt.within] if each.id == prompt.message_id)
            build = partial(_of_prompt_tool, history, answer, opened)
        # In a thread: each request is built from the whole conversation.
        return await asyncio.to_thread(_filled, history, prompt, build, agent_id)

    # ── conversations of prompt tools ───────────────────────────────────────────────────────────────────────

    async def _opened(self, history: _History, call_id: str) -> _Opened:
        """Return the opening of the conversation within a call of a prompt tool."""
        if call_id not in history.opened:
            history.opened[call_id] = await self._begun(history, call_id)
        return history.opened[call_id]

    async def _begun(self, history: _History, call_id: str) -> _Opened:
        call = await self._store.call(call_id)
        if call is None:
            return _Opened(active=None, opening=())
        host, chat = await self._host(history, call)
        tool = None if host is None else host.by_name.get(call.name)
        if host is None or tool is None or call.name not in host.nested:
            return _Opened(active=None, opening=())
        prepared = prepare({call.name: tool}, call.name, call.arguments, call.id)
        if not isinstance(prepared, PreparedCall) or not isinstance(tool.relation, PromptCall):
            return _Opened(active=None, opening=())
        config, active = tool.relation.config, host.nested[call.name]
        files = await self._files(history, paths(prepared.arguments, config.init_attachments_property))
        return _Opened(active=active, opening=opening(active, config, call, prepared.arguments, chat, files))

    async def _files(self, history: _History, named: Sequence[str]) -> list[AttachmentRef]:
        files = [await self._store.file(history.thread.id, fold(path)) for path in named]
        return [each.ref for each in files if each is not None]

    async def _host(self, history: _History, call: Call) -> tuple[ActiveAgent | None, list[Message]]:
        """Return the agent whose tool is called, and the conversation before the step that made the call."""
        if call.parent_id is None:
            asked = _asking(history.root, call.id)
            if asked is None:
                return None, []
            active = await self._speaker(history, asked)
            chat = shown(history.before(asked.seq or 0), history.row(asked.sent))
            if active is not None and len(active.sides) > 1:
                chat = as_read_by_side(active.side, chat, active.agent.sides)
            return active, chat
        said = history.within.get(call.parent_id, ())
        asked = _asking(said, call.id)
        if asked is not None:
            opened = await self._opened(history, call.parent_id)
            before = [each for each in said if (each.seq or 0) < (asked.seq or 0)]
            return opened.active, shown([*opened.opening, *before], history.row(asked.sent))
        # a handler's call: made in the conversation of its parent call
        parent = await self._store.call(call.parent_id)
        return (None, []) if parent is None else await self._host(history, parent)


def _requests(said: Sequence[Message], steps: Sequence[Step]) -> list[SentPrompt]:
    """Return the model answers of a run in order, with only the records of their requests."""
    recorded = {each.step for each in said if each.within is None and each.sent is not None}
    by_step = {each.step: each for each in reversed(said) if each.within is None and each.role == "assistant"}
    prompts = [
        _request(each)
        for each in said
        if each.role == "assistant" and (each.sent is not None or (each.within and each.by))
    ]
    for step in steps:
        if step.number not in recorded:
            answer = by_step.get(step.number)
            prompts.append(
                SentPrompt(step=step.number, message_id=None, created_at=step.created_at)
                if answer is None
                else _request(answer)
            )
    places = {each.id: each.seq or 0 for each in said}
    return sorted(prompts, key=lambda each: (each.step, places.get(each.message_id or "", 0)))


def _request(answer: Message) -> SentPrompt:
    return SentPrompt(
        step=answer.step,
        message_id=answer.id,
        created_at=answer.created_at,
        within=answer.within,
        by=answer.by,
        side=answer.side,
        sent=answer.sent,
        state=answer.state,
    )


def _filled(
    history: _History, prompt: SentPrompt, build: Callable[[], list[Message]], agent_id: str
) -> SentPrompt:
    """Return the prompt with the contents of its request."""
    sent = prompt.sent
    assert sent is not None, "checked by the caller"
    messages = build()
    if sent.change is not None:
        messages = rebuilt(messages, sent.change, history.texts)
        prompt = changed(prompt, state=rebuilt_state(prompt.state, sent.change, history.texts))
    tools = history.texts.get(sent.tools, "")
    system = history.texts.get(sent.system, "")
    changing = "" if prompt.state is None else report_text(prompt.state)
    parts = {
        "system": text_tokens(system) if system else 0,
        "changing": text_tokens(changing) if changing else 0,
        "tools": len(tools) // 4,
        **parts_of(messages),
    }
    return changed(
        prompt,
        system=system,
        changing=changing,
        tools=_tools(tools),
        messages=tuple(as_sent(messages, agent_id)),
        compaction=history.row(sent),
        parts=parts,
    )


def _of_thread(history: _History, answer: Message, active: ActiveAgent | None) -> list[Message]:
    """Return the thread's own conversation as it was sent for that answer."""
    said = history.before(answer.seq or 0)
    return as_formed(as_read(shown(said, history.row(answer.sent)), active), active)


def _of_prompt_tool(history: _History, answer: Message, opened: _Opened) -> list[Message]:
    """Return the conversation of a prompt tool as it was sent for that answer."""
    place, row = answer.seq or 0, history.row(answer.sent)
    said = [each for each in history.within[answer.within or ""] if (each.seq or 0) < place]
    return as_formed(arranged(shown([*opened.opening, *said], row)), opened.active)


def _asking(said: Sequence[Message], call_id: str) -> Message | None:
    """Return the answer that made the call."""
    return next((each for each in said if any(call.id == call_id for call in each.calls)), None)


def _tools(text: str) -> tuple[JSONObject, ...]:
    """Return the tools that were stored as JSON."""
    listed = cast("list[tuple[str, str, JSONObject]]", json.loads(text)) if text else []
    return tuple(
        [
            {"name": name, "description": description, "parameters": parameters}
            for name, description, parameters in listed
        ]
    )
