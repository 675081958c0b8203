"""Threads over HTTP, with their messages, summaries, values and files."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from urllib.parse import quote

from toolwright.client.calls import Values, read_names, values_json
from toolwright.client.follow import follow
from toolwright.client.http import Http, Repeat, segment
from toolwright.client.runs import RunResults
from toolwright.core.agents.run_result import RunEvent
from toolwright.core.checks import by_list, by_names
from toolwright.core.env.env import EnvType
from toolwright.core.imports.conversation import ConversationForm, opened
from toolwright.core.json_value import JSON, JSONObject, plain, plain_names
from toolwright.core.results import Attachment
from toolwright.core.threads.run import Side
from toolwright.wire.event import Event
from toolwright.wire.message import File, Message, Sent
from toolwright.wire.result import attachment_to_json
from toolwright.wire.shape import Items, read, read_field, read_list
from toolwright.wire.thread import Child, Compaction, Thread


class Threads:
    """The threads of a gateway. Raises `NotFound` for unknown ids."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self._results = RunResults(http)

    async def create(
        self,
        agent: str,
        user_id: str | None = None,
        *,
        env: Values | None = None,
        tenvs: Mapping[str, JSON] | None = None,
        tags: Sequence[str] | None = None,
        arguments: Mapping[str, JSON] | None = None,
        messages: Sequence[object] | None = None,
        key: str | None = None,
        format: ConversationForm | None = None,
    ) -> Thread:
        """Create a thread of an agent, given by name or id, or return the one that its owner has with the `key`.

        `messages` are a conversation from elsewhere that the thread continues, in a form that is recognized unless
        `format` names it: dictionaries, or values that pydantic can write as JSON. With a key, `created` of the thread
        tells whether it is new. Raises `TenvsRequired` with the names that are `missing` and `invalid`. The request is
        not retried if the answer is lost (`AnswerLost`), because it could create two threads; with a key it is.
        """
        for name, given in (("tenvs", tenvs), ("arguments", arguments)):
            if given is not None:
                by_names(name, given)
        fields: dict[str, JSON | None] = {
            "userId": user_id,
            "env": None if env is None else values_json(env),
            "tenvs": None if tenvs is None else plain_names(dict(tenvs)),
            "tags": None if tags is None else plain(tags),  # a text, given by mistake, is not split
            "arguments": None if arguments is None else plain(dict(arguments)),
            "messages": None if messages is None else [*opened(messages)],
            "key": key,
            "format": format,
        }
        body: JSONObject = {"agentId": agent, **{n: each for n, each in fields.items() if each is not None}}
        repeat: Repeat = "unsent" if key is None else "lost"
        answer = await self._http.call("POST", "/api/threads", body, repeat=repeat)
        return read_field(Thread, answer.json, "thread")

    async def get(self, thread_id: str) -> Thread:
        """Return the thread."""
        return read_field(Thread, await self._http.get(_path(thread_id)), "thread")

    async def list(self, user_id: str | None = None, limit: int = 50, offset: int = 0) -> Items[Thread]:
        """Return threads, oldest first."""
        query = {"userId": user_id, "limit": limit, "offset": offset}
        return read_list(Thread, await self._http.get("/api/threads", query), "threads")

    async def rename(self, thread_id: str, name: str | None) -> Thread:
        """Set the thread's display name, or remove it with None. A child is named by its parent."""
        changes: JSONObject = {"name": name}
        answer = await self._http.call("PATCH", _path(thread_id), changes, repeat="lost")
        return read_field(Thread, answer.json, "thread")

    async def delete(self, thread_id: str, cancel: bool = False) -> None:
        """Delete the thread with its messages, files, values, events and children, permanently.

        Raises `ThreadBusy` while a run is in progress in the thread or in a child; with `cancel` such runs are
        cancelled first.
        """
        query = "?cancel=true" if cancel else ""
        await self._http.call("DELETE", f"{_path(thread_id)}{query}", repeat="lost")

    async def children(self, thread_id: str, limit: int = 100, offset: int = 0) -> Items[Child]:
        """Return the child threads, oldest first."""
        query = {"limit": limit, "offset": offset}
        return read_list(Child, await self._http.get(f"{_path(thread_id)}/children", query), "children")

    async def send(
        self,
        thread_id: str,
        content: str,
        attachments: Sequence[Attachment] = (),
        deps: object = None,
    ) -> Sent:
        """Send a message. Return it with the `run_id` of the run that reads it: the running run, or a new one.

        `deps` is a value of the type that the agent declares, or its JSON object. Only services may set it, unless the
        agent has `user_deps`. Raises `OtherDeps` if the running run has other deps.

        On return the message is stored. The request is not retried if the answer is lost (`AnswerLost`), because the
        message could be sent twice; `messages` shows whether it was stored.
        """
        by_list("attachments", attachments, Attachment, "attachments")
        body: JSONObject = {"content": content}
        if attachments:
            body["attachments"] = [attachment_to_json(each) for each in attachments]
        if deps is not None:
            body["deps"] = plain(deps)
        return read(Sent, (await self._http.call("POST", f"{_path(thread_id)}/messages", body)).json)

    async def messages(self, thread_id: str, limit: int = 100, offset: int = 0) -> Items[Message]:
        """Return the messages that a run has read or written, oldest first."""
        query = {"limit": limit, "offset": offset}
        return read_list(Message, await self._http.get(f"{_path(thread_id)}/messages", query), "messages")

    async def pin(self, thread_id: str, message_id: str, pinned: bool = True) -> Message:
        """Pin a message, so that it is never omitted from requests to the model, or unpin it."""
        path = f"{_path(thread_id)}/messages/{segment(message_id)}/pin"
        answer = await self._http.call("PUT" if pinned else "DELETE", path, repeat="lost")
        return read_field(Message, answer.json, "message")

    async def hide_message(self, thread_id: str, message_id: str, hidden: bool = True) -> Items[Message]:
        """Leave a message out of all requests to models, or send it again. Return the messages that were changed.

        An answer with calls is hidden together with their results.
        """
        path = f"{_path(thread_id)}/messages/{segment(message_id)}/hidden"
        answer = await self._http.call("PUT" if hidden else "DELETE", path, repeat="lost")
        return read_list(Message, answer.json, "messages")

    async def compactions(self, thread_id: str, limit: int = 100, offset: int = 0) -> Items[Compaction]:
        """Return the compactions of the thread's conversations with their summaries, oldest first."""
        query = {"limit": limit, "offset": offset}
        listed = await self._http.get(f"{_path(thread_id)}/compactions", query)
        return read_list(Compaction, listed, "compactions")

    async def edit_summary(self, thread_id: str, text: str, side: Side | None = None) -> Compaction:
        """Replace the summary of the omitted messages. It is used from the next step on."""
        body: JSONObject = {"text": text} if side is None else {"text": text, "side": side}
        answer = await self._http.call("PATCH", f"{_path(thread_id)}/summary", body, repeat="lost")
        return read_field(Compaction, answer.json, "compaction")

    async def remove_summary(self, thread_id: str, side: Side | None = None) -> Compaction:
        """Remove the summary. From the next step on all messages are sent, until the conversation is too long again.

        The request is not retried if the answer is lost (`AnswerLost`): a new summary could have been written since.
        """
        query = "" if side is None else f"?side={side}"
        answer = await self._http.call("DELETE", f"{_path(thread_id)}/summary{query}")
        return read_field(Compaction, answer.json, "compaction")

    async def set_env(self, thread_id: str, env: Values) -> dict[str, EnvType]:
        """Set values, or delete them with None. Return the types of the names that are set.

        Plain text gets the type that the thread's agent declares, or becomes a secret if it declares none.
        """
        body: JSONObject = {"env": values_json(env)}
        answer = await self._http.call("PATCH", f"{_path(thread_id)}/env", body, repeat="lost")
        return read_names(answer.json)

    def stream(self, thread_id: str, after: int | None = None) -> AsyncGenerator[RunEvent]:
        """Yield the events of the thread's runs as values, without end. See `follow`."""
        return self._results.thread(thread_id, after)

    def follow(self, thread_id: str, after: int | None = None) -> AsyncGenerator[Event]:
        """Yield the thread's events, without end: first recorded events with a number above `after`, then new events.

        `after=0` starts with the oldest event. Without `after` it starts with the first event after the connection.
        Live events, such as parts of an answer, have no number. A lost connection is re-opened, without a limit after
        the first one has succeeded. No recorded event is skipped or repeated. Raises `Reset` if the server no longer
        has the events after that number, and any error that a retry cannot fix (`Unauthorized`, `Forbidden`,
        `NotFound`, …). Close the generator with `contextlib.aclosing` to close its connection.
        """
        return follow(self._http, f"{_path(thread_id)}/stream", after)


def _path(thread_id: str) -> str:
    return f"/api/threads/{segment(thread_id)}"


class Files:
    """The files of a thread."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(self, thread_id: str, limit: int = 100, offset: int = 0) -> Items[File]:
        """Return the files, by path. Raises `NotFound`."""
        query = {"limit": limit, "offset": offset}
        return read_list(File, await self._http.get(_file_path(thread_id), query), "files")

    async def read(self, thread_id: str, path: str, *, call_id: str | None = None) -> bytes:
        """Return the bytes of the file at that path. Raises `NotFound`.

        With `call_id`, members of the space that shows the call may read the files of its result.
        """
        where = "/".join(segment(part) for part in path.removeprefix("/").split("/"))
        query = "" if call_id is None else f"?callId={quote(call_id, safe='')}"
        return (await self._http.call("GET", f"{_file_path(thread_id)}/{where}{query}", repeat="lost")).body


def _file_path(thread_id: str) -> str:
    return f"/api/threads/{segment(thread_id)}/files"
