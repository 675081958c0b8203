"""Hooks: an app's own code at six points of a run, whose verdicts are recorded (decision 47).

A verdict is committed in the unit of the step that it belongs to. It is never asked for again then; before that, a
process that takes the run over asks again.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import ClassVar, Literal, Protocol, TypeAlias, TypeVar, cast, get_args

from toolwright.core.checks import brief_value, check_list, is_number, takes_one
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSONObject, one_line, plain
from toolwright.core.limits import MAX_NAME
from toolwright.core.model import Model, ModelRequest, ModelResponse
from toolwright.core.results import ToolResult
from toolwright.core.state.state import Sampled, ThreadState
from toolwright.core.threads.call import Call
from toolwright.core.threads.decision import Decider
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.approval import Approval
from toolwright.core.tools.tool import Tool
from toolwright.core.value import Record, Stored, Value

T = TypeVar("T")
Maybe: TypeAlias = T | Awaitable[T | None] | None
"""The verdict of a method that is sync or async; None changes nothing."""
Point: TypeAlias = Literal[
    "before_run", "before_model", "after_model", "before_call", "after_call", "after_run"
]
POINTS: tuple[Point, ...] = get_args(Point)
Ruling: TypeAlias = Literal["rejected", "changed", "retried", "denied", "replaced", "asked", "failed"]
Purpose: TypeAlias = Literal["answer", "summary", "sample"]
MAX_REASON = 10_000  # characters
MAX_TIMEOUT = 1e9  # seconds


@dataclass(frozen=True, slots=True)
class Reject:
    """Verdict of `before_run`: the message is never sent to a model, and the run completes with this text."""

    reason: str

    def __post_init__(self) -> None:
        _check_reason("Reject", self.reason)


class ModelRetry(Exception):
    """Verdict of `after_model`: the model reads this text and answers again. Return it, or raise it."""

    def __init__(self, reason: str) -> None:
        _check_reason("ModelRetry", reason)
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Deny:
    """Verdict of `before_call`: the call is not executed, and the model reads this text as its error."""

    reason: str

    def __post_init__(self) -> None:
        _check_reason("Deny", self.reason)


@dataclass(frozen=True, slots=True)
class Replace:
    """Verdict of `before_call`: the call is executed with these arguments, which are validated again."""

    arguments: JSONObject
    reason: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.arguments, dict):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise DefinitionError(f"Replace needs a dict of arguments, not {brief_value(self.arguments)}.")
        object.__setattr__(self, "arguments", plain(self.arguments))
        _check_reason("Replace", self.reason or "…")


@dataclass(frozen=True, slots=True)
class Ask:
    """Verdict of `before_call`: the call waits for an approval. Who may answer, and how long, says the `Approval`."""

    approval: Approval = field(default_factory=Approval)
    reason: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.approval, Approval):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise DefinitionError(f"Ask needs a tw.Approval, not {brief_value(self.approval)}.")
        if self.approval.when is not None:
            raise DefinitionError("Ask needs an Approval without when=: the hook itself decides when to ask.")
        _check_reason("Ask", self.reason or "…")


def _check_reason(verdict: str, reason: object) -> None:
    if not isinstance(reason, str) or not reason.strip() or len(reason) > MAX_REASON:
        raise DefinitionError(
            f"{verdict} needs a reason: text of at most {MAX_REASON:,} characters, not {brief_value(reason)}."
        )


class HookSource(Protocol):
    """The run behind an event. Its parts are created when a hook reads them."""

    @property
    def state(self) -> ThreadState: ...

    @property
    def caller(self) -> Decider | None: ...

    async def sample(
        self,
        messages: Sequence[tuple[str, str]] | str,
        model: object,
        system: str | None,
        max_tokens: int | None,
        /,
    ) -> Sampled: ...


class HookEvent(Value, gc=True):
    """Attributes that the events of all points have.

    `state` reads the run's thread: it neither writes nor reads secrets. `agent` is the name of the active agent, `step`
    the number of the current step, 0 before the first. `caller` is who sent the message that the run answers, from
    their checked credential; None for plans and inbox events.
    """

    source: HookSource
    agent: str
    thread_id: str
    run_id: str
    step: int

    @property
    def state(self) -> ThreadState:
        """The state of the run's thread, to be read."""
        return self.source.state

    @property
    def caller(self) -> Decider | None:
        """Who sent the message that the run answers."""
        return self.source.caller

    async def sample(
        self,
        messages: Sequence[tuple[str, str]] | str,
        *,
        model: str | Model | object | None = None,
        system: str | None = None,
        max_tokens: int | None = None,
    ) -> Sampled:
        """Send a request to `model`, by default the agent's, outside the conversation. Its tokens count for the run.

        `messages` is a string, or pairs of a role (`user`, `assistant`) and a string. Raises `ModelError` if there is
        no answer, `InvalidRequest` for invalid arguments.
        """
        return await self.source.sample(messages, model, system, max_tokens)


class BeforeRun(HookEvent, gc=True):
    """A run is about to read `message`: its first, another that joins it, or a batch of inbox events as one text."""

    run: Run
    thread: Thread
    message: Message


class BeforeModel(HookEvent, gc=True):
    """A request is about to be sent.

    `purpose` is `answer`, `summary` for the summary of a long conversation, or `sample` for a handler's `state.sample`.
    """

    request: ModelRequest
    purpose: Purpose = "answer"


class AfterModel(HookEvent, gc=True):
    """A model has answered."""

    answer: ModelResponse


class BeforeCall(HookEvent, gc=True):
    """A call is about to start, with its validated arguments."""

    call: Call
    tool: Tool
    arguments: JSONObject
    counter: Callable[[int], Awaitable[int]]

    async def earlier_calls(self, most: int) -> int:
        """Return how many earlier calls of this tool the run has started, or is about to start, at most `most`."""
        return await self.counter(most)


class AfterCall(HookEvent, gc=True):
    """A call has a result, without secrets. It is not recorded yet, unless it was submitted from outside.

    `tool` is None for a submitted result if the agent no longer has the tool.
    """

    call: Call
    tool: Tool | None
    result: ToolResult


class AfterRun(HookEvent, gc=True):
    """A run has ended, and its end is recorded."""

    run: Run


class Hooks:
    """Base of hooks: override the methods that you need, each async or not. One that returns None changes nothing.

    Given as `hooks=[…]` to an app, an agent or a prompt, and asked in this order; after a model, a call or a run in the
    reverse. Methods that do I/O must be async, as others run on the event loop.

    Attributes:
        name: Name in records and errors. Default: the name of the class.
        on_error: What an exception or a timeout does. `"fail"` (default): `before_call` denies the call with the code
            `hook_failed`, any other point but `after_run` fails the run. `"continue"`: it is logged. For hooks that
            only observe.
        timeout: Maximum number of seconds of one method. Default: 30.
        hold_text: Whether the text of an answer is shown only after `after_model`. Default: False, it is shown live,
            and begins again if `after_model` changes it.
    """

    name: ClassVar[str] = ""
    on_error: ClassVar[Literal["fail", "continue"]] = "fail"
    timeout: ClassVar[float] = 30.0
    hold_text: ClassVar[bool] = False

    def before_run(self, event: BeforeRun, /) -> Maybe[Reject]:
        """Reject a message before the run reads it. Asked for each message, and for those that join the run."""

    def before_model(self, event: BeforeModel, /) -> Maybe[ModelRequest]:
        """Return a changed request: other messages, `system` text, texts of `state`, settings, or fewer tools."""

    def after_model(self, event: AfterModel, /) -> Maybe[ModelResponse | ModelRetry]:
        """Return a changed answer, or have the model answer again, at most twice in a row."""

    def before_call(self, event: BeforeCall, /) -> Maybe[Deny | Replace | Ask]:
        """Deny a call, replace its arguments, or have a person approve it."""

    def after_call(self, event: AfterCall, /) -> Maybe[ToolResult]:
        """Return a changed result. It is asked for results of all executors, but not for calls that did not start."""

    def after_run(self, event: AfterRun, /) -> Maybe[None]:
        """Observe the end of a run. It is asked at least once: a process that dies in between is made up for."""


_RETURNS: dict[Point, tuple[type, ...]] = {
    "before_run": (Reject,),
    "before_model": (ModelRequest,),
    "after_model": (ModelResponse, ModelRetry),
    "before_call": (Deny, Replace, Ask),
    "after_call": (ToolResult,),
    "after_run": (),
}


_NAMES = (*POINTS, "on_error", "timeout", "hold_text")


def _plain(name: str) -> str:
    """Return a name in camelCase as Python would write it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def check_verdict(point: Point, verdict: object) -> None:
    """Raise `DefinitionError` if a hook has returned a value that the point does not know."""
    if verdict is not None and not isinstance(verdict, _RETURNS[point]):
        names = ", ".join(["None", *[_public(each) for each in _RETURNS[point]]])
        raise DefinitionError(f"{point} must return one of {names}, not {brief_value(verdict)}.")


def _public(kind: type) -> str:
    return f"tw.{'model.' if kind in (ModelRequest, ModelResponse) else ''}{kind.__name__}"


def name_of(hook: Hooks) -> str:
    """Return the name of the hook in records and errors."""
    return hook.name or type(hook).__name__


@dataclass(frozen=True, slots=True)
class HookPoints:
    """The hooks of an active agent by the points that they override, in the order in which they are asked."""

    before_run: tuple[Hooks, ...] = ()
    before_model: tuple[Hooks, ...] = ()
    after_model: tuple[Hooks, ...] = ()
    before_call: tuple[Hooks, ...] = ()
    after_call: tuple[Hooks, ...] = ()
    after_run: tuple[Hooks, ...] = ()
    holds_text: bool = False


def points_of(hooks: Sequence[Hooks]) -> HookPoints | None:
    """Return the hooks by point, or None without hooks. A hook that is given twice is asked once."""
    once = list({id(each): each for each in hooks}.values())
    if not once:
        return None
    by_point: dict[str, tuple[Hooks, ...]] = {}
    for point in POINTS:
        asked = [each for each in once if getattr(type(each), point) is not getattr(Hooks, point)]
        by_point[point] = tuple(reversed(asked) if point.startswith("after") else asked)
    return HookPoints(**by_point, holds_text=any(each.hold_text for each in by_point["after_model"]))


def check_hooks(subject: str, hooks: object) -> tuple[Hooks, ...]:
    """Return the declared hooks. Raises `DefinitionError` if one is invalid, also for a misspelt method."""
    given = cast("Sequence[object]", hooks if isinstance(hooks, list | tuple) else ())
    for each in given:
        if isinstance(each, type) and issubclass(each, Hooks):
            raise DefinitionError(
                f"{subject}: hooks must be instances. Write {each.__name__}(), not {each.__name__}."
            )
    check_list(
        f"{subject}: hooks", cast("object", hooks), Hooks, "instances of classes derived from tw.Hooks"
    )
    declared = tuple(cast("Sequence[Hooks]", hooks))
    for each in declared:
        if not isinstance(each.name, str) or not one_line(each.name) or len(each.name) > MAX_NAME:  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise DefinitionError(
                f"{subject}: the hook {type(each).__name__!r}: name must be text of at most {MAX_NAME} characters in "
                f"one line, not {brief_value(each.name)}."
            )
        whose = f"{subject}: the hook {name_of(each)!r}"
        for name in dir(each):
            if name in _NAMES or name.startswith("_"):
                continue
            meant = get_close_matches(
                _plain(name), _NAMES, n=1, cutoff=0.85
            )  # not `ask_model`, a method of the user's
            if meant or name.startswith(("before_", "after_")):
                known, suggestion = ", ".join(POINTS), f" Did you mean {meant[0]!r}?" if meant else ""
                raise DefinitionError(f"{whose} has {name!r}, which is not one of {known}.{suggestion}")
        for point in POINTS:
            if not takes_one(getattr(each, point)):
                raise DefinitionError(f"{whose}: {point} must be a method that takes the event.")
        if not any(getattr(type(each), point) is not getattr(Hooks, point) for point in POINTS):
            raise DefinitionError(f"{whose} has no method of a hook. Write one of {', '.join(POINTS)}.")
        if each.on_error not in ("fail", "continue"):
            raise DefinitionError(f"{whose}: on_error must be 'fail' or 'continue', not {each.on_error!r}.")
        if not isinstance(each.hold_text, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise DefinitionError(
                f"{whose}: hold_text must be True or False, not {brief_value(each.hold_text)}."
            )
        if not (is_number(each.timeout) and 0 < each.timeout <= MAX_TIMEOUT):
            raise DefinitionError(
                f"{whose}: timeout must be a positive number of seconds, not {brief_value(each.timeout)}."
            )
    return declared


class HookVerdict(Record):
    """A verdict of a hook other than None, as recorded. `details` says what a request was changed to.

    `call_id` is the call that the verdict is about, or None; `step` the step that it belongs to.
    """

    STORED = Stored(key=("id",), owner="thread_id", order=("created_at", "id"))

    id: str
    thread_id: str
    run_id: str
    step: int
    hook: str
    point: Point
    ruling: Ruling
    reason: str | None = None
    call_id: str | None = None
    details: JSONObject | None = None
    created_at: datetime
