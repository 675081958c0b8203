"""Fitting: compacts one conversation until it fits: references, a summary or a note, fewer of the newest messages."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from toolwright.core.agents.prompt import Context
from toolwright.core.errors import ContextTooLong
from toolwright.core.model import Model
from toolwright.core.text import brief, quantity
from toolwright.core.threads.compaction import (
    HEADER,
    INSTRUCTION_VERSION,
    Compaction,
    bare_reference,
    boundaries,
    cut_for,
    cut_to_tokens,
    header,
    header_text,
    is_long,
    message_digest,
    message_tokens,
    reference,
    text_tokens,
)
from toolwright.core.threads.message import Message
from toolwright.core.value import changed
from toolwright.runtime.context.conversation import MAX_OFF
from toolwright.runtime.model.summaries import Summary, last_lines

OWN_SHARE = (
    0.2  # share of the budget that the messages which started the run can take of those that always stay
)
LINES_SHARE = 0.1  # share of the budget that the last messages of spaces can take
HEADER_SHARE = (
    0.4  # share of the budget that the header and its notes can take if nothing else can be left out
)
WORTH_CLEARING = (
    0.1  # minimum share of the budget that references alone must save: each time the cached prefix is lost
)

MIN_LIMIT = 100  # tokens: a lower limit of a provider is ignored
MAX_SAID = 300  # maximum characters of a provider's message that an error quotes

UNPIN = "Unpin it."
EDIT_SUMMARY = "Edit or remove the summary."
SEND_LESS = "Send less at once, or send it as a file that a tool reads."
WRITE_LESS = "Have the model write less at once, or choose a model that takes more."
FEWER_CALLS = "Have the model make fewer calls at once, and its tools return less."
SUMS = {
    "pinned": ("The {} pinned messages have some", "Unpin some of them."),
    "tool": ("The results of {} calls that were made at once have some", FEWER_CALLS),
    "assistant": ("The {} answers of the agent have, with their calls, some", FEWER_CALLS),
    "user": ("The {} messages that the agent is to answer have some", SEND_LESS),
}
"""Kinds of messages that are too long together, and the remedy."""

Keep = Callable[[Sequence[Message], int], Awaitable[set[int]]]
"""Returns the positions of those omitted messages that must stay, within so many tokens."""


@dataclass(slots=True, kw_only=True)
class Fitting:
    """A conversation to be fitted into `budget` tokens: its messages, and the row that records its compaction.

    `fixed` are the estimated tokens sent in addition to the messages: system text, tools. The provider counts `factor`
    tokens for each estimated token. Messages at positions after `last` are not committed, so no row may refer to them.
    `who` and the `model` are those of the request. `keep` returns the messages that must stay, and `form` converts a
    message to the form sent to the model.
    `unpaid` is a summary in the row that no run has paid for. `refused` is the provider's error for a longer request;
    the `budget` `is_guess` unless that error names it. `opening` are the estimated tokens of a composed request's own
    messages, a part of `fixed`. Messages that arrived for one step are separated only if it `divides_steps`.
    """

    messages: list[Message]
    row: Compaction
    policy: Context
    budget: int
    fixed: int
    factor: float = 1.0
    last: int
    who: str
    model: Model
    keep: Keep
    form: Callable[[Message], Message] | None = None
    unpaid: Summary | None = None
    refused: ContextTooLong | None = None
    is_guess: bool = False
    opening: int = 0
    divides_steps: bool = False
    _counted: tuple[object, list[int], list[int]] = (None, [], [])

    @property
    def estimate(self) -> int:
        """The estimated tokens of the whole request."""
        return self.fixed + sum(self.sizes)

    @property
    def tokens(self) -> int:
        """The tokens of the whole request, in the provider's count."""
        return int(self.estimate * self.factor)

    @property
    def sizes(self) -> list[int]:
        """The estimated tokens of each message, counted once."""
        if self._counted[0] is not self.messages:
            self.count()
        return self._counted[1]

    def count(self) -> None:
        """Count the messages, and find the positions at which they can be cut. Slow for many messages."""
        sizes = [*map(self._size, self.messages)]
        self._counted = self.messages, sizes, boundaries(self.messages, within_steps=self.divides_steps)

    def _size(self, message: Message) -> int:
        return message_tokens(message if self.form is None else self.form(message))

    @property
    def limit(self) -> float:
        """The number of tokens, in the provider's count, from which the request is compacted."""
        return limit_of(self.budget, self.fixed * self.factor, self.policy)

    def room(self, share: float) -> int:
        """Return the estimated tokens for messages: this share of the budget without the fixed parts."""
        return max(int((self.budget / self.factor - self.fixed) * share), 0)

    def older(self, share: float) -> int:
        """Return the number of messages older than the newest ones within this share of the budget."""
        # uncommitted messages can be dropped, and their positions then belong to others
        committed = sum(each.seq is None or each.seq <= self.last for each in self.messages)
        sizes = self.sizes
        return cut_for(self._counted[2], sizes, self.room(share), committed)

    def place(self, count: int) -> int:
        """Return the position in the thread of the last of the first `count` messages."""
        return max([each.seq or 0 for each in self.messages[:count]], default=0)

    def digest(self, covers: int) -> bytes:
        """Return the digest of the messages up to that position: the same for results and for their references."""
        digest = blake2b(digest_size=16)
        for each in self.messages:
            if each.seq is not None and each.seq <= covers:
                is_result = each.role == "tool"
                digest.update(message_digest(bare_reference(each) if is_result else each))
        return digest.digest()

    # ── the three measures ──────────────────────────────────────────────────────────────────────────────────

    def clear(self, keep: float | None, least: float = 0) -> None:
        """Replace the older results, or all if `keep` is None, by references if that saves at least `least` tokens."""
        older = self.messages if keep is None else self.messages[: self.older(keep)]
        cleared = max([each.seq or 0 for each in older if each.role == "tool" and is_long(each)], default=0)
        if not cleared:
            return
        before, was = self.tokens, (self.messages, self.row, self._counted)
        self._replace(
            lambda each: reference(each) if (each.seq or 0) <= cleared and is_long(each) else each,
            changed(self.row, cleared=max(self.row.cleared, cleared)),
        )
        if before - self.tokens < least:
            self.messages, self.row, self._counted = was

    def _replace(self, form: Callable[[Message], Message], row: Compaction) -> None:
        """Replace each result in the journal by `form` of it, as recorded by `row`."""
        messages, counted = self.messages, self._counted
        self.messages = [
            form(each) if each.role == "tool" and each.seq is not None else each for each in messages
        ]
        pairs = zip(messages, self.messages, counted[1], strict=True)
        sizes = [size if old is new else self._size(new) for old, new, size in pairs]
        self._counted = self.messages, sizes, counted[2]  # a reference changes no position at which to cut
        self.row = row

    async def leave_out(self, cut: int, summary: Summary | None) -> None:
        """Leave out the messages up to that position, replaced by a summary or by a note with their number."""
        row = self.row
        omitted = [each for each in self.messages if each.seq is not None and each.seq <= cut]
        old = self.messages[0] if self.begins_with_header else None
        kept_seqs = await self.keep(omitted, int(self.budget * OWN_SHARE / self.factor))
        room = int(self.budget * LINES_SHARE / self.factor)
        lost = [each for each in omitted if each.seq not in kept_seqs and not each.pinned]
        notes = last_lines(lost if old is None else [old, *lost], room)
        if summary is None:
            row = changed(row, omitted=len(lost) + row.omitted)
        else:
            row = changed(
                row,
                summary=summary.text,
                covers=cut,
                omitted=0,
                model=summary.model,
                version=INSTRUCTION_VERSION,
            )
            self.unpaid = summary if self.unpaid is None else summary.with_cost_of(self.unpaid)
        text = header_text(
            row.summary, row.omitted, [] if notes is None else [notes], edited=row.model is None
        )
        self.row = row = changed(row, cut=cut, kept=tuple(sorted(kept_seqs)), text=text)
        stay = [
            each
            for each in self.messages
            if each.seq is None or each.seq > cut or each.pinned or each.seq in kept_seqs
        ]
        self.messages = [header(row), *[each for each in stay if each is not old]]

    async def squeeze(self) -> None:
        """Keep fewer and fewer of the newest messages while the request is too long. The last step stays."""
        for share in (0.2, 0.1, 0.0):
            self.clear(share)
            await self._keep_newest(share)
            if self.fits:
                return
        self.clear(None)
        if not self.fits:
            self._bare()
        self._shorten_header()
        if self.fits:
            return
        self.divides_steps = True
        self.count()
        for share in (0.6, 0.3, 0.1, 0.0):
            await self._keep_newest(share)
            self._shorten_header()
            if self.fits:
                return
        if self.row.kept:
            kept_seqs = {*self.row.kept}
            self.row = changed(self.row, kept=())
            self.messages = [
                each for each in self.messages if each.pinned or each.seq is None or each.seq not in kept_seqs
            ]

    @property
    def fits(self) -> bool:
        """Return whether the request is short enough."""
        return self.tokens <= self.budget

    async def _keep_newest(self, share: float) -> None:
        """If the request is too long, leave out all but the newest messages within this share of the budget."""
        cut = 0 if self.fits else self.place(self.older(share))
        if cut > self.row.cut:
            await self.leave_out(cut, None)

    def _bare(self) -> None:
        """Replace all longer results by the first lines of references."""
        places = [each.seq or 0 for each in self.messages if each.role == "tool"]
        bare = max([self.row.bare, *places])
        if bare == self.row.bare:
            return
        row = changed(self.row, bare=bare)
        self._replace(lambda each: bare_reference(each), row)

    def _shorten_header(self) -> None:
        """If the request is too long, cut the text that replaces the omitted messages if it is a large part."""
        most = int(self.budget * HEADER_SHARE / self.factor)
        if not self.fits and self.begins_with_header and text_tokens(self.row.text) > most:
            self.row = changed(self.row, text=cut_to_tokens(self.row.text, most))
            self.messages = [header(self.row), *self.messages[1:]]

    @property
    def begins_with_header(self) -> bool:
        """Return whether the first message replaces omitted ones. It can contain a caller's message too."""
        first = self.messages[0] if self.messages else None
        return first is not None and first.id.startswith(HEADER) and (first.within or "") == self.row.within

    def too_long(self) -> ContextTooLong:
        """Return the error that names the largest part and the remedy."""
        what, size, remedy = self._largest()
        name, budget = self.model.name, self.budget
        most = quantity(budget, "token")
        if self.refused is not None:  # the budget is only a guess, unless the provider named it
            limit = self.refused.limit
            most = "fewer" if limit is None else quantity(limit, "token")
            most = f"{most}: {brief(self.refused.message, MAX_SAID).rstrip('.')}"
        return ContextTooLong(
            f"{what} {int(size * self.factor)} tokens, and a request to {name} may have {most}. {remedy}"
        )

    def _largest(self) -> tuple[str, int, str]:
        """Return the title of the largest part that cannot be left out, its estimated tokens, and the remedy."""
        room = self.budget / self.factor
        own_tokens = self.fixed - self.opening
        if self.fixed > room / 2 and self.opening > own_tokens:
            title = f"The context of the request to the agent {self.who!r} has some"
            return title, self.opening, "Send less of it, or choose a model that takes more."
        if self.fixed > room / 2:
            title = f"The system text and the tools of the agent {self.who!r} have some"
            return title, own_tokens, "Shorten them, or choose a model that takes more."
        message, size = max(zip(self.messages, self.sizes, strict=True), key=lambda each: each[1])
        groups: dict[str, list[int]] = {}
        for each, tokens in zip(self.messages, self.sizes, strict=True):
            if not each.id.startswith(HEADER):
                groups.setdefault("pinned" if each.pinned else each.role, []).append(tokens)
        kind, largest = max(groups.items(), key=lambda each: sum(each[1]))
        title, remedy = SUMS[kind]
        if message.id.startswith(HEADER) and size >= sum(largest):
            return "The summary of the omitted messages has some", size, EDIT_SUMMARY
        if size > room - self.fixed or len(largest) == 1:
            if message.role == "assistant":
                return f"The agent's answer {message.id} has, with its calls, some", size, WRITE_LESS
            return f"The message {message.id} has some", size, UNPIN if message.pinned else SEND_LESS
        return title.format(len(largest)), sum(largest), remedy


def limit_of(budget: int, fixed: float, policy: Context) -> float:
    """Return the number of tokens above which a request is compacted; system text and tools cannot be shortened."""
    return fixed + max(budget - fixed, 0) * policy.start_at


def identity_of(refused: ContextTooLong, estimate: int) -> tuple[int | None, int | None]:
    """Return the provider's maximum tokens of a request, and its count of the rejected request.

    Both exclude the room for the answer. They are None if the provider does not name them, or if they are implausible.
    """
    answer = refused.answer or 0
    limit = None if refused.limit is None else refused.limit - answer
    if limit is None or limit < MIN_LIMIT:
        return None, None
    if refused.asked is None:
        return (limit, None) if limit * MAX_OFF >= estimate else (None, None)
    counted = refused.asked - answer
    if counted <= limit or not estimate / MAX_OFF <= counted <= estimate * MAX_OFF:
        return None, None
    return limit, counted


def may_be_open(message: Message) -> bool:
    """Return whether the call of a tool message can still get a result: the message is short and says so."""
    text = message.content
    return len(text) <= 2_000 and ("pending" in text or "timed out" in text)


def step_of(messages: Sequence[Message], call_id: str) -> set[int]:
    """Return the positions of the answer that made the call, and of the results of all its calls."""
    caller = next((each for each in messages if any(call.id == call_id for call in each.calls)), None)
    if caller is None or caller.seq is None:
        return set()
    ids = {call.id for call in caller.calls}
    return {caller.seq} | {each.seq for each in messages if each.seq is not None and each.call_id in ids}
