"""Tool calls: their statuses, and the table of allowed transitions."""

from datetime import datetime
from typing import Literal, TypeAlias

from toolwright.core.errors import ToolwrightError
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.approval import ApprovalState
from toolwright.core.value import Record, Stored, Value, changed

CallStatus: TypeAlias = Literal[
    "created", "running", "waiting", "pending", "done", "error", "resolved", "expired", "cancelled"
]
Route: TypeAlias = Literal["inline", "inbox"]

MOVES: dict[CallStatus, frozenset[CallStatus]] = {
    "created": frozenset({"running", "waiting", "pending", "done", "error"}),
    "running": frozenset({"running", "waiting", "pending", "done", "error"}),
    "waiting": frozenset({"created", "resolved", "pending", "expired", "cancelled"}),
    "pending": frozenset({"resolved", "expired", "cancelled"}),
    "done": frozenset(),
    "error": frozenset(),
    "resolved": frozenset(),
    "expired": frozenset(),
    "cancelled": frozenset(),
}
OPEN: tuple[CallStatus, ...] = ("waiting", "pending")
UNSETTLED: frozenset[CallStatus] = frozenset({"created", "running", "waiting"})  # its caller has read nothing
MOVED = (
    *("status", "result", "attempts", "deadline", "expires_at", "space_id", "approval", "terms"),
    *("started_at", "completed_at"),
)
"""The fields that a transition can change. While a call keeps its status, only its run's worker writes them."""
BEGUN: frozenset[CallStatus] = frozenset({"running", "waiting", "pending"})


def timer_of(call_id: str) -> str:
    """Return the name of the timer that ends a call after its timeout."""
    return f"call:{call_id}"


class ForbiddenMove(ToolwrightError):
    """The table of transitions does not allow this change of a call's status."""

    code = "forbidden_move"


def is_over(status: CallStatus) -> bool:
    """Return whether the status is final."""
    return not MOVES[status]


class Call(Record):
    """One invocation of a tool, as stored in the journal.

    `id` is ours and unique; `model_call_id` is the model's id. `arguments` is the JSON text as the model wrote it, or
    a hook or an approver replaced it; `requested` is the model's text then. `deadline` is when the inline wait ends,
    `expires_at` when a submission is no longer accepted. `result` is a rendered `ToolResult` (see `wire.result`).
    `attempts` counts how often the tool was started. A `visible` call is shown in `space_id`, if the thread had an
    active space. `worker` has claimed it until `leased_until`. After that it is available again only if it is
    `repeatable` (D25). `parent_id` is the call that made this one, through a prompt tool or `invoke_tool`. A call that
    needs an `approval` waits for it before it starts, on its `terms`. Once approved, it is `created` again, with the
    approved arguments; so is one whose tool has changed, still `asked`. `decisions` are those of people, services and
    the app about it, oldest first.
    """

    STORED = Stored(key=("id",), owner="thread_id")

    id: str
    thread_id: str
    run_id: str
    agent: str | None = None
    step: int
    position: int
    name: str
    kind: str
    arguments: str
    requested: str | None = None
    model_call_id: str
    status: CallStatus
    route: Route | None = None
    result: JSONObject | None = None
    attempts: int = 0
    deadline: datetime | None = None
    expires_at: datetime | None = None
    visible: bool = False
    space_id: str | None = None
    repeatable: bool = False
    worker: str | None = None
    leased_until: datetime | None = None
    parent_id: str | None = None
    approval: ApprovalState | None = None
    terms: JSONObject | None = None
    decisions: tuple[JSONObject, ...] = ()
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None

    @property
    def awaits_approval(self) -> bool:
        """Return whether the call waits for an approval."""
        return self.approval == "asked" and self.status == "waiting"

    @property
    def ends_with_run(self) -> bool:
        """Return whether the call is cancelled with the run: it runs in a child, or as a task of an MCP server."""
        return self.has_child or self.kind == "mcp"

    @property
    def has_child(self) -> bool:
        """Return whether a child thread executes the call."""
        return self.kind in ("agent", "delegate") and not self.awaits_approval

    def approved(self, arguments: str | None) -> "Call":
        """Return the approved call, with the approver's arguments if there are any."""
        if not self.awaits_approval:
            raise _forbidden(self.id, self.status, "created")
        return changed(
            self,
            status="created",
            approval="approved" if arguments is None else "edited",
            arguments=self.arguments if arguments is None else arguments,
            requested=self.requested if arguments is None else self.as_requested,
            expires_at=None,
        )

    @property
    def as_requested(self) -> str:
        """The arguments as they were requested, also after they were replaced."""
        return self.arguments if self.requested is None else self.requested

    def with_arguments(self, arguments: str) -> "Call":
        """Return the call with replaced arguments."""
        return changed(self, arguments=arguments, requested=self.as_requested)

    def free_for(self, worker: str, at: datetime) -> bool:
        """Return whether the worker can claim the call: it is unclaimed, or repeatable and its lease has expired."""
        if self.expires_at is not None and self.expires_at <= at:
            return False
        if self.worker is None or self.worker == worker:
            return True
        return self.repeatable and self.leased_until is not None and self.leased_until <= at

    def moved_to(
        self,
        status: CallStatus,
        at: datetime,
        *,
        result: JSONObject | None = None,
        deadline: datetime | None = None,
        expires_at: datetime | None = None,
        space_id: str | None = None,
        terms: JSONObject | None = None,
    ) -> "Call":
        """Return the call in a new status, with the given fields. With `terms` it waits for an approval.

        Raises `ForbiddenMove`.
        """
        if status not in MOVES[self.status]:
            raise _forbidden(self.id, self.status, status)
        begins = self.status == "created" and status in BEGUN and terms is None
        return changed(
            self,
            status=status,
            result=self.result if result is None else result,
            attempts=self.attempts + (status == "running"),
            deadline=deadline or self.deadline,
            expires_at=expires_at or self.expires_at,
            space_id=space_id or self.space_id,
            approval=self.approval if terms is None else "asked",
            terms=terms or self.terms,
            started_at=at if begins else self.started_at,
            completed_at=self.completed_at if MOVES[status] else at,
        )


class CallMove(Value):
    """One transition of a call, from one row to the next. Transitions outside the table cannot be created.

    Only the columns `MOVED` change. A call whose status is no longer that of `before` is a conflict.
    """

    before: Call
    after: Call

    def __post_init__(self) -> None:
        if self.after.status not in MOVES[self.before.status]:
            raise _forbidden(self.after.id, self.before.status, self.after.status)


def _forbidden(call_id: str, was: CallStatus, now: CallStatus) -> ForbiddenMove:
    return ForbiddenMove(f"Call {call_id!r} cannot go from {was!r} to {now!r}.")
