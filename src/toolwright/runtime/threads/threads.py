"""Threads: create, send messages, read, pin, summarize, delete."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

from pydantic.alias_generators import to_camel

from toolwright.core.agents.catalog import APP_TOOLS
from toolwright.core.agents.prompt import Env
from toolwright.core.agents.run_result import RunEvent
from toolwright.core.broken_rows import exists
from toolwright.core.checks import by_list
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.env import SECRETS, EnvInput, EnvType
from toolwright.core.errors import InvalidRequest, NotFound, OtherDeps, ThreadTerminated
from toolwright.core.files import FileChange, FileDrafts
from toolwright.core.imports.conversation import ConversationForm
from toolwright.core.imports.message import MAX_IMPORTED
from toolwright.core.journal import units
from toolwright.core.journal.space_effects import Compact, Hide, Pin
from toolwright.core.journal.store import Order
from toolwright.core.json_value import (
    JSON,
    JSONObject,
    utf8_longer,
)
from toolwright.core.limits import MAX_MESSAGE, MAX_NAME, MAX_PINNED, MAX_SUMMARY
from toolwright.core.results import Attachment, AttachmentRef, InvalidField, checked_fields
from toolwright.core.text import clean_text
from toolwright.core.threads.compaction import Compaction, edited, in_effect, removed
from toolwright.core.threads.decision import Decider, sender_of
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.threads.run import Side as SideName
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.deps import OTHER_DEPS, deps_of_message
from toolwright.runtime.carried import Carried
from toolwright.runtime.env import Environment
from toolwright.runtime.files import FileKeeper, StoredFiles
from toolwright.runtime.journal import Services, by_id, by_kind, by_text, page, read_decider
from toolwright.runtime.threads.creation import Creation, check_texts
from toolwright.runtime.threads.deletion import Deletion
from toolwright.runtime.threads.events import RunStreams
from toolwright.runtime.threads.inbox import kept_ref
from toolwright.runtime.threads.runs import Runs
from toolwright.runtime.threads.thread_tree import Lineages, first_run
from toolwright.wire.event import run_event, variables_event
from toolwright.wire.text import is_title

CANCEL_PATIENCE = 15.0  # seconds; a cancelled run ends within ten


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A stored message, and the run that reads it: a running one that it joins, or a new one."""

    message: Message
    run_id: str


class Threads(Carried):
    """Threads, for users. Raises `NotFound` for unknown ids."""

    def __init__(
        self,
        services: Services,
        agents: Agents,
        runs: Runs,
        environment: Environment,
        files: FileKeeper,
        lineages: Lineages,
        streams: RunStreams,
        deletion: Deletion,
    ) -> None:
        self._telemetry = services.telemetry
        self._streams = streams
        self._deletion = deletion
        self._creation = Creation(services, agents, environment, files)
        self._lineages = lineages
        self._store = services.store
        self._motor = services.motor
        self._agents = agents
        self._runs = runs
        self._environment = environment
        self._files = files
        self._clock = services.clock
        self._new_id = services.new_id

    async def create(
        self,
        agent: str,
        user_id: str | None = None,
        env: Env | None = None,
        tenvs: Mapping[str, JSON] | None = None,
        tags: Sequence[str] | None = None,
        arguments: JSONObject | None = None,
        *,
        messages: Sequence[object] | None = None,
        key: str | None = None,
        format: ConversationForm | None = None,
    ) -> Thread:
        """Create a thread of the agent, given by name or id, with these variables.

        `messages` are a conversation from elsewhere that the thread continues: in our form, OpenAI's (Chat Completions
        or Responses), Anthropic's or pydantic-ai's, recognized unless `format` names it. At most 10,000 are imported,
        without messages of the system. Each gets an id of ours. A call without a result gets an error as its result.

        With a `key`, return the thread of the agent that its owner (the user, or no one) has with this key, or create
        it; `created` tells which. All other values are ignored if it exists. Raises `AlreadyExists` if another agent's
        thread of the same owner has the key.

        Arguments are validated by the `required_schema` of the agent's first prompt, and get its defaults. Raises
        `InvalidRequest` for invalid arguments, `TenvsRequired` with all tenvs that its tools are missing (S2 §9.3), and
        `CannotSeal` for a secret if no keys are configured. No thread is created then.
        """
        return await self._creation.create(
            agent,
            user_id,
            env,
            tenvs,
            tags,
            arguments,
            messages=messages,
            key=key,
            form=format,
        )

    async def env(self, thread_id: str) -> Mapping[str, EnvType]:
        """Return the names that were set in the thread, with their types; never a value."""
        await self.get(thread_id)
        rows = await self._store.env_of(thread_id)
        return {row.name: row.type for row in rows if row.kind == "env"}

    async def set_env(
        self, thread_id: str, env: EnvInput, *, by: Decider | str | None = None
    ) -> Mapping[str, EnvType]:
        """Set variables of the thread, or delete them with None. Return the resulting names.

        `by` is who sets them, which the event `variables.set` tells. Plain text has the type that the thread's agent
        declares, or is a secret if it declares none. A run in progress uses the values from its next call on. Raises
        `CannotSeal` for a secret if no keys are configured.
        """
        thread = await self.get(thread_id)
        agent = await self._agents.usable(thread.answering)
        values, now = (SECRETS if agent is None else agent.types).read(env), self._clock.now()
        changes = tuple([self._environment.change(thread_id, name, var, now) for name, var in values.items()])
        unit = units.SetEnv(token=self._new_id("unit"), at=now, thread_id=thread_id, env=changes)
        told = (variables_event(values, read_decider(by), now),)
        answer = await self._store.commit(changed(unit, told=told, run_id=thread.run_id))
        if isinstance(answer, units.Conflict):
            raise NotFound(f"There is no thread {thread_id!r}.")
        self._motor.wake(thread_id)
        return await self.env(thread_id)

    async def get(self, thread_id: str) -> Thread:
        """Return the thread."""
        thread = await self._store.thread(by_id("thread", thread_id))
        if thread is None:
            raise NotFound(f"There is no thread {thread_id!r}.")
        return thread

    async def rename(self, thread_id: str, name: str | None) -> Thread:
        """Set the name by which people know the thread, or remove it with None. Return the thread.

        Raises `InvalidRequest` unless the name is one line of 1 to 200 characters without invisible ones. Only the
        parent names a child.
        """
        thread = await self.get(thread_id)
        if name is not None:
            check_texts(name=name)
            if not is_title(name):
                raise _invalid_value("name", f"must be one line of 1 to {MAX_NAME} characters")
        if thread.parent_id is not None:
            raise _invalid_value(
                "name", "cannot be set", f"The thread {thread_id!r} is a child: its parent names it."
            )
        unit = units.RenameThread(
            token=self._new_id("unit"), at=self._clock.now(), thread_id=thread_id, name=name
        )
        if isinstance(await self._store.commit(unit), units.Conflict):
            raise NotFound(f"There is no thread {thread_id!r}.")
        return changed(thread, name=name)

    async def list(
        self,
        user_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
        *,
        among: Sequence[str] | None = None,
        agent: str | None = None,
        order: Order = "oldest_first",
    ) -> Sequence[Thread]:
        """Return threads, optionally only those of one user, of the users `among`, or of one `agent` by name or id."""
        page(limit, offset)
        by_text("user_id", user_id)
        by_text("agent", agent)
        by_list("among", among, str, "texts")
        users = among
        if user_id is not None:
            users = [user_id] if among is None or user_id in among else []
        agent = None if agent is None else await self._agents.id_of(agent)
        return await self._store.threads(users=users, agent=agent, order=order, limit=limit, offset=offset)

    async def children(self, thread_id: str, limit: int = 100, offset: int = 0) -> Sequence[Thread]:
        """Return the child threads of the thread, the oldest first."""
        page(limit, offset)
        await self._require_existing(thread_id)
        return await self._store.children.children(thread_id, limit=limit, offset=offset)

    async def messages(
        self, thread_id: str, limit: int = 100, offset: int = 0, *, run_id: str | None = None
    ) -> Sequence[Message]:
        """Return the messages of the thread or of one run, oldest first, without messages that no run has read."""
        page(limit, offset)
        by_text("run_id", run_id)
        await self._require_existing(thread_id)
        if run_id is not None:
            run = await self._store.run(run_id)
            if (
                run is None or run.thread_id != thread_id
            ):  # the same error: a run of another thread is not revealed
                raise NotFound(f"There is no run {run_id!r} in the thread {thread_id!r}.")
        return await self._store.messages(thread_id, limit, offset, run_id=run_id)

    async def messages_before(
        self, thread_id: str, seq: int | None = None, limit: int = 100
    ) -> Sequence[Message]:
        """Return the last messages of the thread before that sequence number, or the last of all, in order."""
        page(limit, 0 if seq is None else seq)
        await self._require_existing(thread_id)
        return await self._store.messages_before(thread_id, seq, limit)

    async def _require_existing(self, thread_id: str) -> None:
        """Raise `NotFound` if the thread does not exist. The contents of a thread with a broken row are readable."""
        if not await exists(self._store.thread(by_id("thread", thread_id))):
            raise NotFound(f"There is no thread {thread_id!r}.")

    async def compactions(self, thread_id: str, limit: int = 100, offset: int = 0) -> Sequence[Compaction]:
        """Return the compactions of the thread's conversations, the oldest first."""
        page(limit, offset)
        await self._require_existing(thread_id)
        return await self._store.compactions(thread_id, None, limit, offset)

    async def summaries(self, thread_id: str) -> Sequence[Compaction]:
        """Return the effective compactions of the thread's own conversation, one per side if there are two."""
        await self._require_existing(thread_id)
        return in_effect(await self._store.compactions(thread_id, ""))

    async def edit_summary(
        self, thread_id: str, text: str, side: SideName | None = None, *, by: str | None = None
    ) -> Compaction:
        """Replace the summary of the messages that are left out, for the next steps. Return the compaction.

        `side` selects the summary of an agent with two sides. `by` is the editor. Raises `InvalidRequest` for a text
        that is empty or too long, `NotFound` if nothing is left out.
        """
        check_texts(text=text)
        text = await in_thread_if_large(text, clean_text, text)
        if not text.strip():
            raise _invalid_value("text", "is empty", "A summary must not be empty. Remove it instead.")
        if len(text) > MAX_SUMMARY:
            raise _invalid_value("text", f"must have at most {MAX_SUMMARY} characters")
        return await self._compact(
            thread_id,
            side,
            lambda row, number: Compact(
                compaction=edited(row, number, text, by, self._clock.now()), told=True
            ),
        )

    async def remove_summary(
        self, thread_id: str, side: SideName | None = None, *, by: str | None = None
    ) -> Compaction:
        """Remove the summary, so that the next steps read the whole conversation again. Return the compaction.

        The conversation is compacted again once it is too long. Raises `NotFound` if nothing is left out.
        """
        return await self._compact(
            thread_id,
            side,
            lambda row, number: Compact(
                compaction=removed(row, number, by, self._clock.now()), cut=0, told=True
            ),
        )

    async def _compact(
        self, thread_id: str, side: SideName | None, change: Callable[[Compaction, int], Compact]
    ) -> Compaction:
        """Commit the change of the effective compaction, again if it has been replaced in the meantime."""
        by_text("side", side)
        while True:  # retry if a run has compacted the conversation: the number is a compare-and-set
            thread = await self.get(thread_id)
            rows = await self._store.compactions(thread_id, "")
            row = _cut_row(rows, thread_id, side)
            number = max(thread.compacted, *[each.number for each in rows]) + 1
            effect = change(row, number)
            unit = units.Apply(token=self._new_id("unit"), at=self._clock.now(), effects=(effect,))
            answer = await self._store.commit(unit)
            if not isinstance(answer, units.Conflict):
                return effect.compaction
            if answer.guard != "compaction":
                raise NotFound(f"There is no thread {thread.id!r}.")

    async def pin(self, thread_id: str, message_id: str, pinned: bool = True) -> Message:
        """Pin a message, so that it is never left out of a request, or unpin it. Return the message.

        Raises `InvalidRequest` for a message of a tool or with calls, and if `MAX_PINNED` messages are already pinned;
        `NotFound` for a message that is not in the thread's own conversation.
        """
        by_kind("pinned", pinned, bool, "true or false")
        await self._require_existing(thread_id)
        while True:  # retry if others were pinned in the meantime: the limit was checked before the commit
            message = await self._store.message(thread_id, by_id("message", message_id))
            if message is None or message.seq is None:
                raise NotFound(f"There is no message {message_id!r} in the thread {thread_id!r}.")
            if message.pinned == pinned:
                return message
            if pinned and not message.kept:
                raise InvalidRequest(f"The message {message_id!r} cannot be pinned: its run was skipped.")
            if pinned and (message.role == "tool" or message.calls):
                raise InvalidRequest(
                    f"The message {message_id!r} cannot be pinned: calls and their results stay together. Pin a "
                    "message of a user or of the agent."
                )
            if pinned and len(await self._store.pinned_messages(thread_id)) >= MAX_PINNED:
                raise InvalidRequest(
                    f"{MAX_PINNED} messages of the thread {thread_id!r} are already pinned. Unpin another one first."
                )
            effect = Pin(thread_id=thread_id, seq=message.seq, pinned=pinned, most=MAX_PINNED)
            unit = units.Apply(token=self._new_id("unit"), at=self._clock.now(), effects=(effect,))
            answer = await self._store.commit(unit)
            if not isinstance(answer, units.Conflict):
                return changed(message, pinned=pinned)
            if answer.guard != "message":  # otherwise others were pinned in the meantime
                raise NotFound(f"There is no thread {thread_id!r}.")

    async def hide_message(
        self, thread_id: str, message_id: str, hidden: bool = True, *, by: str = "service"
    ) -> Sequence[Message]:
        """Leave a message out of all requests to models, or send it again. Return the messages that were changed.

        An answer with calls is hidden together with their results. The records keep it, with `by`, the person or
        service that hides it. A run in progress sends it until it is suspended or ends. Raises `InvalidRequest` if a
        call of the message has no result yet, or if its run was skipped; `NotFound` for a message that is not in the
        thread's own conversation.
        """
        by_kind("hidden", hidden, bool, "true or false")
        await self._require_existing(thread_id)
        message = await self._store.message(thread_id, by_id("message", message_id))
        if message is None or message.seq is None:
            raise NotFound(f"There is no message {message_id!r} in the thread {thread_id!r}.")
        if hidden and not message.kept and message.hidden_by is None:
            raise InvalidRequest(f"The message {message_id!r} cannot be hidden: its run was skipped.")
        group = await self._with_results(thread_id, message)
        chosen = [each for each in group if (each.hidden_by is None) == hidden]
        if not chosen:
            return group
        seqs = tuple([each.seq for each in chosen if each.seq is not None])
        effect = Hide(thread_id=thread_id, seqs=seqs, by=by if hidden else None)
        unit = units.Apply(token=self._new_id("unit"), at=self._clock.now(), effects=(effect,))
        answer = await self._store.commit(unit)
        if isinstance(answer, units.Conflict):  # changed or deleted in the meantime
            return await self.hide_message(thread_id, message_id, hidden, by=by)
        return [changed(each, kept=not hidden, hidden_by=by if hidden else None) for each in chosen]

    async def _with_results(self, thread_id: str, message: Message) -> Sequence[Message]:
        """Return the message with all that belongs to it: the answer that makes calls, and their results."""
        if message.role == "user" or not (message.calls or message.call_id):
            return [message]
        if message.imported:
            of_run = await self._store.messages(thread_id, MAX_IMPORTED)
        elif message.run_id is not None:
            of_run = [each for each in await self._store.run_messages(message.run_id) if each.within is None]
        else:
            return [message]
        answer = next(
            (each for each in of_run if message.call_id in [call.id for call in each.calls]), message
        )
        call_ids = {call.id for call in answer.calls}
        results = [each for each in of_run if each.call_id in call_ids]
        if len({each.call_id for each in results}) < len(call_ids):
            raise InvalidRequest(
                f"The message {message.id!r} cannot be hidden: one of its calls has no result yet. Wait for it, or "
                "cancel the run."
            )
        return [answer, *results]

    async def send(
        self,
        thread_id: str,
        content: str,
        attachments: Sequence[Attachment] = (),
        deps: object = None,
        *,
        by: Decider | str | None = None,
    ) -> Run:
        """Send a message, with files. Return the run that reads it, which can be a run in progress (D22).

        `deps` is a value of the type that the thread's agent declares, or a mapping with its fields; tools read it as
        `state.deps`. Without it, a new run has the deps of the thread's last run. `by` is who sends it, as the app
        says; hooks read it as `event.caller`. Raises `InvalidRequest` or `TooLarge` for an invalid file or value,
        `OtherDeps` if the run in progress has other deps; nothing is sent then.
        """
        return await self._runs.get((await self.post(thread_id, content, attachments, deps, by=by)).run_id)

    async def post(
        self,
        thread_id: str,
        content: str,
        attachments: Sequence[Attachment] = (),
        deps: object = None,
        *,
        by: Decider | str | None = None,
    ) -> SentMessage:
        """Send a message, as `send` does. Return the stored message."""
        if isinstance(content, str) and utf8_longer(content, MAX_MESSAGE):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise _invalid_value(
                "content",
                f"must have at most {MAX_MESSAGE} bytes",
                f"A message must have at most {MAX_MESSAGE} bytes. Attach a longer text as a file.",
            )
        check_texts(content=content)
        attachments = _checked_files(attachments)
        content = await in_thread_if_large(content, clean_text, content)
        if not content.strip() and not attachments:
            raise _invalid_value("content", "is empty", "A message must not be empty.")
        thread = await self._settled(thread_id)
        if thread.is_over or thread.agent == APP_TOOLS.id:
            raise _terminated(thread_id)
        brought, run_deps = await deps_of_message(self._store, self._agents.catalog, thread, deps)
        sender = None if by is None else sender_of(read_decider(by))
        message_id = self._new_id("msg")
        stored = await self._files.store(attachments)
        async with self._files.turn(thread_id, stored):
            while True:  # retry if another writer has taken a path of the files
                drafts = FileDrafts(StoredFiles(self._store, thread_id))
                refs = await self._files.attach(thread_id, drafts, stored)
                unit = self._posting(thread, message_id, content, refs, drafts.changes, sender)
                if run_deps is not None:
                    unit = changed(unit, run=changed(unit.run, deps=run_deps), deps=brought)
                answer = await self._store.commit(unit)
                if not isinstance(answer, units.Conflict):
                    self._motor.wake(thread_id)
                    return SentMessage(
                        message=_posted(unit, content, refs, answer), run_id=answer.run_id or unit.run.id
                    )
                if answer.guard == "terminated":
                    raise _terminated(thread_id)
                if answer.guard == "deps":
                    raise OtherDeps(OTHER_DEPS.format(thread_id))
                # otherwise a path was taken in the meantime: the files get other names
                if answer.guard != "file":
                    raise NotFound(f"There is no thread {thread_id!r}.")

    def _posting(
        self,
        thread: Thread,
        message_id: str,
        content: str,
        refs: Sequence[AttachmentRef],
        files: tuple[FileChange, ...],
        sender: JSONObject | None,
    ) -> units.PostMessage:
        now = self._clock.now()
        run = first_run(thread, self._new_id("run"), 0, self._clock)
        if self._telemetry is not None:
            run = changed(run, traceparent=self._telemetry.current())
        content_json: JSONObject = {"messageId": message_id, "content": content}
        if refs:
            content_json["attachments"] = [kept_ref(ref) for ref in refs]
        if sender is not None:
            content_json["sender"] = sender
        event = InboxEvent(
            thread_id=thread.id, event_id=message_id, type="message", content=content_json, created_at=now
        )
        return units.PostMessage(
            token=self._new_id("unit"), at=now, event=event, run=run, queued=run_event(run), files=files
        )

    async def _settled(self, thread_id: str) -> Thread:
        """Return the thread after a cancelled run has ended, so that the next run reads a message after a cancel."""
        thread = await self.get(thread_id)
        if thread.run_id is not None:
            run = await self._runs.get(thread.run_id)
            if run.cancel_requested_at is not None:
                with suppress(TimeoutError):
                    await self._runs.wait(run.id, CANCEL_PATIENCE)
        return thread

    async def stream(self, thread_id: str, after: int | None = None) -> AsyncGenerator[RunEvent]:
        """Yield the events of the thread's runs as values, without end: recorded events after `after`, then new events.

        0 yields all recorded events; None starts now. Stop with `contextlib.aclosing`. Raises `Reset` as `follow` does.
        """
        await self.get(thread_id)
        async with aclosing(self._streams.thread(thread_id, after)) as events:
            async for event in events:
                yield event

    async def delete(self, thread_id: str, cancel: bool = False) -> None:
        """Delete the thread with its messages, files, values, events and children, permanently.

        Raises `ThreadBusy` while a run is in progress in it or in a child thread, including queued and waiting runs;
        with `cancel` these are cancelled first. Raises `InvalidRequest` for the home thread of an agent, which is
        deleted with the agent. Messages of its calls in spaces are kept; a call that was still open is shown as
        cancelled there.
        """
        await self._deletion.delete(thread_id, cancel=cancel)

    async def cancel(self, thread_id: str, *, by: Decider | str | None = None) -> Run:
        """Request the cancellation of the thread's open run, as `runs.cancel`. Raises `NotFound` if there is none."""
        thread = await self.get(thread_id)
        if thread.run_id is None:
            raise NotFound(f"No run is in progress in the thread {thread_id!r}.")
        return await self._runs.cancel(thread.run_id, by=by)


def _invalid_value(path: str, error: str, message: str | None = None) -> InvalidRequest:
    return InvalidRequest(message or f"{path} {error}.", [{"path": path, "message": error}])


def _cut_row(rows: Sequence[Compaction], thread_id: str, side: SideName | None) -> Compaction:
    """Return the side's compaction that leaves something out. Without a side, there must be only one."""
    cut = [each for each in in_effect(rows) if each.cut or each.text]
    chosen = [each for each in cut if side is None or each.side == side]
    if not cut:
        raise NotFound(f"No compaction leaves out messages of the thread {thread_id!r}.")
    if len(chosen) == 1:
        return chosen[0]
    sides = " or ".join(repr(each.side) for each in cut if each.side)
    if not sides:
        raise _invalid_value(
            "side", "must be omitted", "The thread has one summary for the whole conversation. Omit the side."
        )
    raise _invalid_value("side", f"must be {sides}", f"Each side has its own summary. Set side to {sides}.")


def _checked_files(attachments: Sequence[Attachment]) -> list[Attachment]:
    try:
        by_list("attachments", attachments, Attachment, "attachments")
        return checked_fields(attachments, "Attachment")
    except InvalidField as error:
        number, name = error.place or (0, "")
        path = f"attachments.{number}.{to_camel(name)}" if error.place else "attachments"
        raise _invalid_value(path, str(error), f"A file cannot be kept. {error}") from error


def _posted(
    unit: units.PostMessage, content: str, refs: tuple[AttachmentRef, ...], answer: units.Committed
) -> Message:
    return Message(
        id=unit.event.event_id,
        role="user",
        content=content,
        run_id=answer.run_id,
        attachments=refs,
        created_at=unit.at,
    )


def _terminated(thread_id: str) -> ThreadTerminated:
    return ThreadTerminated(f"The thread {thread_id!r} is terminated, so no agent answers in it.")
