"""Parts of a runtime: its adapters, and the settings of its services."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from toolwright.core.journal.store import Outage
from toolwright.core.mcp.servers import McpServers
from toolwright.core.ports import Cipher, Embedder, FileStore, Models
from toolwright.core.state.sandbox import Sandbox
from toolwright.core.tools.openapi import ReadApi
from toolwright.core.tools.pipeline import Executor
from toolwright.core.tools.tool import Kind
from toolwright.core.value import field
from toolwright.runtime.calls.execute import ABORT_GRACE
from toolwright.runtime.calls.plan import INLINE_EXECUTORS, InlineExecutor
from toolwright.runtime.journal import Services


def _is_ready() -> str | None:
    return None


class Parts(Services):
    """All parts of a runtime.

    `outage` is shared with the scheduler. `lifespan` is the value that the app's lifespan yields. `unready` returns the
    reason why this node executes no runs, `look_for_worker` that no other process does. `abort_grace` are the seconds
    between the abort signal and the cancellation of a handler.
    """

    models: Models
    files: FileStore
    cipher: Cipher
    sandbox: Sandbox
    executors: Mapping[Kind, Executor]
    read_api: ReadApi
    mcp: McpServers
    embedder: Embedder | None = None
    close: Sequence[Callable[[], Awaitable[None]]] = ()
    inline_executors: Mapping[Kind, InlineExecutor] = field(default_factory=lambda: INLINE_EXECUTORS)
    outage: Outage | None = None
    lifespan: object = None
    unready: Callable[[], str | None] = _is_ready
    look_for_worker: Callable[[], Awaitable[str | None]] | None = None
    abort_grace: float = ABORT_GRACE


class RuntimeSettings(Protocol):
    """The settings of a runtime's services, see `toolwright.Settings`."""

    model: str | None
    context_tokens: int | None
    summary_model: str | None
    max_steps: int
    max_chain_depth: int
    max_subagent_depth: int
    max_attachment: int
    max_result_text: int
    model_timeout: timedelta
    model_request_timeout: timedelta
    retain_events: timedelta | None
    retain_runs: timedelta | None

    @property
    def longest_outage(self) -> timedelta:
        """Return how long a model can be unavailable before a run fails."""
        ...
