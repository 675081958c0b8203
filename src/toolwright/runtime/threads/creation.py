"""Creation of threads: their values, their key, and the conversation from elsewhere that they continue."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.catalog import RESERVED
from toolwright.core.agents.prompt import Env
from toolwright.core.arguments.errors import InvalidArguments, details_of, join_errors, within
from toolwright.core.checks import brief_value, by_list, invalid_value
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.env import EnvChange, name_error
from toolwright.core.errors import AlreadyExists, InvalidJSON, InvalidRequest, NotFound, TooLarge
from toolwright.core.files import FileChange, FileDrafts, NoFiles
from toolwright.core.imports.conversation import read_conversation
from toolwright.core.imports.message import ImportedMessage
from toolwright.core.journal.units import Conflict, CreateThread
from toolwright.core.json_value import JSON, NOT_WRITABLE, JSONObject, dumps, plain_names, unwritable
from toolwright.core.limits import MAX_ID, MAX_NAME, MAX_NAMES
from toolwright.core.results import AttachmentRef, InvalidField, ToolResult, checked_fields
from toolwright.core.text import sentence
from toolwright.core.threads.message import Message, MessageCall
from toolwright.core.threads.thread import Thread, owner_key
from toolwright.core.tools.tenvs_needed import missing_tenvs
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.env import Environment, tenv_vars
from toolwright.runtime.files import FileKeeper
from toolwright.runtime.journal import Services

AT_ONCE = 250  # imported messages whose rows are built without a pause
_MAX_CHARACTERS = {"agent": MAX_ID, "user_id": MAX_ID, "name": MAX_NAME, "tags": MAX_NAME, "key": MAX_ID}


class Creation:
    """Creates threads, or finds them by their key."""

    def __init__(
        self, services: Services, agents: Agents, environment: Environment, files: FileKeeper
    ) -> None:
        self._store = services.store
        self._clock = services.clock
        self._new_id = services.new_id
        self._agents = agents
        self._environment = environment
        self._files = files

    async def create(
        self,
        agent: str,
        user_id: str | None,
        env: Env | None,
        tenvs: Mapping[str, JSON] | None,
        tags: Sequence[str] | None,
        arguments: JSONObject | None,
        *,
        messages: Sequence[object] | None,
        key: str | None,
        form: str | None,
    ) -> Thread:
        """Create a thread as `Threads.create` does."""
        check_texts(agent=agent, user_id=user_id, tags=tags, **({} if key is None else {"key": key}))
        if key == "":
            raise invalid_value("key", "must not be empty")
        await in_thread_if_large(arguments, _plain, "arguments", arguments)
        if arguments is not None and not isinstance(arguments, dict):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise invalid_value("arguments", "must be an object")
        active = await self._agents.active(agent)
        if active.agent_id in RESERVED:  # reserved for internal use
            raise NotFound(f"There is no agent {agent!r}.")
        if key is not None and (existing := await self._existing(active, user_id, key)) is not None:
            return existing
        if arguments is not None:
            arguments = await in_thread_if_large(arguments, _required, active, arguments)
        thread = Thread(
            id=self._new_id("thr"),
            agent=active.agent.id,
            user_id=user_id,
            tags=tuple(tags or ()),
            arguments=arguments,
            key=key,
            created_at=self._clock.now(),
        )
        values = await self._values(thread, active, env, tenvs)
        rows, files = ((), ()) if messages is None else await self._imported(thread, active, messages, form)
        thread = changed(thread, seq=len(rows))
        unit = CreateThread(
            token=self._new_id("unit"),
            at=thread.created_at,
            thread=thread,
            env=values,
            messages=rows,
            files=files,
        )
        while isinstance(await self._store.commit(unit), Conflict):  # the key was taken in the meantime
            assert key is not None, "a new id is never taken"
            existing = await self._existing(active, user_id, key)
            if existing is not None:
                return existing
        return thread if key is None else changed(thread, created=True)

    async def _existing(self, active: ActiveAgent, user_id: str | None, key: str) -> Thread | None:
        """Return the owner's thread with that key, or None. Raises if it is another agent's."""
        thread = await self._store.rows.first(Thread, {"owner_key": owner_key(user_id, key)})
        if thread is None:
            return None
        if thread.agent != active.agent.id:
            raise AlreadyExists(f"The key {key!r} is that of a thread of another agent. Choose another key.")
        return changed(thread, created=False)

    async def _values(
        self, thread: Thread, active: ActiveAgent, env: Env | None, tenvs: Mapping[str, JSON] | None
    ) -> tuple[EnvChange, ...]:
        id, now = thread.id, thread.created_at
        tenv_rows = tenv_vars(await in_thread_if_large(tenvs, _tenvs, tenvs, active), active.secret_tenvs)
        return (
            *[self._environment.tenv(id, name, var, now) for name, var in tenv_rows.items()],
            *[self._environment.change(id, name, var, now) for name, var in active.types.stored(env).items()],
        )

    # ── imported messages ───────────────────────────────────────────────────────────────────────────────────

    async def _imported(
        self, thread: Thread, active: ActiveAgent, messages: Sequence[object], form: str | None
    ) -> tuple[tuple[Message, ...], tuple[FileChange, ...]]:
        """Return the rows of a conversation from elsewhere, and of its files, whose bytes are stored."""
        imported = await asyncio.to_thread(read_conversation, messages, form)
        drafts, rows, calls = FileDrafts(NoFiles()), list[Message](), deque[MessageCall]()
        for number, message in enumerate(imported):
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
            row = self._row(thread, active, message)
            if message.role == "tool":  # the results follow their calls in order
                call = calls.popleft()
                row = changed(row, call_id=call.id, model_call_id=call.model_call_id, tool_name=call.name)
                row = await self._shortened(thread.id, drafts, row)
            calls.extend(row.calls)
            if message.files:
                refs = (*row.attachments, *await self._attached(thread.id, drafts, message))
                row = changed(row, attachments=refs)
            rows.append(row)
        return tuple(rows), drafts.changes

    def _row(self, thread: Thread, active: ActiveAgent, message: ImportedMessage) -> Message:
        readers, at = active.agent.reasoning, thread.created_at
        is_reasoning = message.reasoning is not None and readers != "nobody"
        calls = [
            MessageCall(
                id=self._new_id("call"), name=call.name, arguments=call.arguments, model_call_id=call.id
            )
            for call in message.calls
        ]
        return Message(
            id=self._new_id("msg"),
            role=message.role,
            content=message.content,
            calls=tuple(calls),
            side="side_a" if message.role != "user" and len(active.sides) > 1 else None,
            status=message.status if message.role == "tool" else None,
            reasoning=message.reasoning if is_reasoning else None,
            reasoning_shared=is_reasoning and readers == "everyone",
            imported=True,
            source_id=message.id,
            created_at=at if message.created_at is None else min(message.created_at, at),
        )

    async def _shortened(self, thread_id: str, drafts: FileDrafts, row: Message) -> Message:
        """Return the message of a result, cut if it is too long for a model, with its full text in a file (D20)."""
        result = ToolResult.ok(row.content)
        cut = await self._files.within_limit(thread_id, drafts, result, row.tool_name or "tool")
        if cut is result:
            return row
        refs = tuple([each for each in cut.attachments if isinstance(each, AttachmentRef)])
        return changed(row, content=str(cut.result), attachments=refs)

    async def _attached(
        self, thread_id: str, drafts: FileDrafts, message: ImportedMessage
    ) -> tuple[AttachmentRef, ...]:
        """Store the files of a message. An error names the message."""
        place = f"messages.{message.place}"
        try:
            files = checked_fields(message.files, "File")
            return await self._files.attach(thread_id, drafts, files)
        except InvalidField as error:
            raise invalid_value(place, f"has a file that cannot be kept: {str(error).rstrip('.')}") from error
        except (InvalidRequest, TooLarge) as error:
            raise type(error)(f"{place} has a file that cannot be kept: {error.message}") from error


def check_texts(*, tags: Sequence[str] | None = None, **texts: str | None) -> None:
    """Check that texts can be stored in every database, and that tags are a list."""
    by_list("tags", tags, str, "texts")
    for path, text in [*texts.items(), *[("tags", tag) for tag in tags or ()]]:
        if text is None and path == "user_id":
            continue
        if not isinstance(text, str):  # user input
            hint = ": give its name" if isinstance(getattr(text, "name", None), str) else ""
            raise invalid_value(path, f"must be text, not {brief_value(text)}{hint}")
        if unwritable(text):
            raise invalid_value(path, NOT_WRITABLE)
        most = _MAX_CHARACTERS.get(path)
        if most is not None and len(text) > most:
            raise invalid_value(path, f"must have at most {most} characters")


def _plain(path: str, value: JSONObject | None) -> None:
    try:
        dumps(value)
    except InvalidJSON as error:
        raise invalid_value(path, f"must be JSON: {error.message.rstrip('.')}") from error


def _required(active: ActiveAgent, arguments: JSONObject) -> JSONObject:
    """Return the arguments as read by the model that the agent's prompt requires, or unchanged if it requires none."""
    validator = active.prompt.argument_validator(active.prompt.parameters())
    if validator is None:
        return arguments
    try:
        return validator.read(arguments)
    except InvalidArguments as error:
        errors = within(error.faults, "arguments")
        raise InvalidRequest(
            sentence(f"The arguments are invalid: {join_errors(errors)}"), details_of(errors)
        ) from error


def _tenvs(value: object, active: ActiveAgent) -> JSONObject:
    """Return the given tenvs as JSON. Raises if they are invalid, or insufficient together with those of the agent."""
    try:
        tenvs = plain_names({} if value is None else value)
    except InvalidJSON as error:
        raise invalid_value("tenvs", f"must be JSON: {error.message.rstrip('.')}") from error
    if not isinstance(tenvs, dict):
        raise invalid_value("tenvs", "must be an object of names and values")
    if len(tenvs) > MAX_NAMES:
        raise invalid_value("tenvs", f"must have at most {MAX_NAMES} names")
    for name in tenvs:
        fault = name_error(name)
        if fault is not None:
            raise invalid_value("tenvs", f"has the name {fault}")
    missing = active.missing_tenvs(tenvs)
    if missing:
        raise missing_tenvs("The thread cannot be created", missing)
    return tenvs
