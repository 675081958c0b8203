"""Messages of a thread, in order: texts, calls and results."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import AttachmentRef
from toolwright.core.threads.run import Side
from toolwright.core.value import Record, Stored, Value

MAX_REASONING = 32_768  # characters
CORRECTION = "fix_"
"""Prefix of the ids of messages that tell the model what is wrong with its last answer."""
SENT_BACK = "back_"
"""Prefix of the ids of answers that a hook has sent back to the model."""

Role: TypeAlias = Literal["user", "assistant", "tool", "system"]
"""The journal has no message of the system. It is the role of reports and notices in a request to a model."""


class MessageCall(Value):
    """A tool call in an assistant message; `arguments` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str
    model_call_id: str


class MessageVersion(Record):
    """An earlier text of an edited message, valid until the thread had `until` messages."""

    STORED = Stored(key=("thread_id", "seq", "until"), owner="thread_id")

    thread_id: str
    seq: int
    until: int
    content: str
    native: JSON = None


class Sent(Value):
    """Record of one request to a model, from which it can be rebuilt.

    `compaction` is the number of the compaction in force, or 0. `version` is the version of the compaction rules.
    `system` and `tools` are the digests of these texts. `tokens` is our estimate of the request's tokens, or None,
    `counted` the provider's count, `budget` the maximum, or None for no limit. `change` is what hooks have changed in
    the messages, a record of `core/request_changes.py`.
    """

    system: str = ""
    tools: str = ""
    compaction: int = 0
    version: int = 1
    tokens: int | None = None
    counted: int | None = None
    budget: int | None = None
    change: JSONObject | None = None


class StateReport(Value):
    """Parts of an agent's state, by name, as the agent read them before an answer: those that had changed.

    A part with an empty text was withdrawn. `agent` is the id of the agent whose state it is.
    """

    agent: str
    parts: Mapping[str, str]


class Decided(Value):
    """Values that the functions of a prompt have returned for an answer (see `core/dependencies/dynamic.py`).

    `instructions` is the digest of the system text of the run, or empty for a text that does not depend on it.
    `unavailable` are the names of the tools that were not offered.
    """

    prompt: str
    instructions: str = ""
    unavailable: tuple[str, ...] = ()


class Message(Record):
    """One message of a thread.

    `seq` is its position (1, 2, 3 …), None until it is stored. A tool message answers the call `call_id`, whose id for
    the model is `model_call_id`. `native` is provider-specific content (thinking, signatures), which later requests
    replay. `kept` is false for the messages of a skipped run (D12). A `pinned` message is never omitted from a request.
    A hidden message is not `kept`; `hidden_by` is the person or service that has hidden it. `sent` is the record of the
    request that an answer belongs to, `state` the report that the request ended with; later requests repeat it before
    the answer. `side` is the side that wrote the message, or for
    which it is. `by` is the prompt that wrote it, if a thread has had more than one. Messages of a prompt tool are not
    part of the top-level conversation; `within` is the tool's call. `reasoning` is what the provider shows of the
    model's reasoning, at most `MAX_REASONING` characters; people read it only if it is `reasoning_shared`. An
    `imported` message belongs to no run: its thread was created with it. `source_id` is the id that it had before.
    `sender` is who sent the message, as far as it is known (`sender_of`).
    `decided` is what the functions of the prompt had returned for an answer, or None if it has none.
    """

    STORED = Stored(key=("thread_id", "seq"), owner="thread_id")

    id: str
    role: Role
    content: str
    seq: int | None = None
    run_id: str | None = None
    step: int = 0
    calls: tuple[MessageCall, ...] = ()
    side: Side | None = None
    by: str | None = None
    within: str | None = None
    call_id: str | None = None
    model_call_id: str | None = None
    tool_name: str | None = None
    status: Literal["success", "error"] | None = None
    stack: str | None = None
    attachments: tuple[AttachmentRef, ...] = ()
    native: JSON = None
    kept: bool = True
    pinned: bool = False
    hidden_by: str | None = None
    sent: Sent | None = None
    state: StateReport | None = None
    reasoning: str | None = None
    reasoning_shared: bool = False
    imported: bool = False
    source_id: str | None = None
    sender: JSONObject | None = None
    decided: Decided | None = None
    created_at: datetime
