"""The answer of a scripted provider, for any wire format."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Ending: TypeAlias = Literal["whole", "dropped", "cut", "stalled", "failed"]
Stop: TypeAlias = Literal["max_tokens", "content_filter"]
"""Why the provider stopped the answer before its end."""


@dataclass(frozen=True, kw_only=True)
class WireCall:
    """A tool call; the pieces of `arguments` arrive one by one."""

    name: str
    arguments: tuple[str, ...] = ("{}",)
    id: str = "call_1"

    @property
    def whole(self) -> str:
        """The complete arguments."""
        return "".join(self.arguments)


@dataclass(frozen=True, kw_only=True)
class WireAnswer:
    """One answer; the pieces of `text`, `thinking` and `refusal` arrive one by one. `vectors` are for embeddings.

    `ending` determines what happens after everything but the end was sent. Either the connection drops, or the
    stream is cut (it ends as if complete), or nothing more arrives until the client disconnects, or it has
    `failed`: the stream reports the error. A `status` other than 200 answers with `error` alone. An error can have
    a `code` and a `kind`. A `body` is sent as it is, with its `content_type`.
    """

    text: tuple[str, ...] = ()
    calls: tuple[WireCall, ...] = ()
    thinking: tuple[str, ...] = ()
    signature: str = "sig"
    refusal: tuple[str, ...] = ()
    vectors: tuple[tuple[float, ...], ...] = ()
    input_tokens: int = 11
    output_tokens: int = 7
    cached_tokens: int = 0
    written_tokens: int = 0
    ending: Ending = "whole"
    stop: Stop | None = None
    status: int = 200
    error: str = ""
    code: str | None = None
    kind: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: str | None = None
    content_type: str = "text/event-stream"
