"""Fitting: one conversation that is shortened until it fits: references, a summary or a note, fewer of the newest."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from toolwright.core.agents.model_settings import Context
from toolwright.core.errors import ContextTooLong
from toolwright.core.model import Model
from toolwright.core.text import brief, quantity
from toolwright.core.threads.compaction import (
    HEADER,
    INSTRUCTION_VERSION,
    Compaction,
    boundaries,
    cut_for,
    header,
    header_text,
    is_long,
    message_digest,
    message_tokens,
    reference,
)
from toolwright.core.threads.message import Message
from toolwright.core.value import changed
from toolwright.runtime.model.summaries import Summary, last_lines

OWN_SHARE = 0.2  # share of the budget that the messages which began the run can take of what always stays
LINES_SHARE = 0.1  # share of the budget that the last lines of spaces can take
HEADER_SHARE = (
    0.4  # share of the budget that it and its notes can take where nothing else is left to leave out
)
WORTH_CLEARING = (
    0.1  # share of the budget that references alone must save: each time the cached prefix is lost
)

Keep = Callable[[Sequence[Message], int], Awaitable[set[int]]]
"""Returns the places of the messages that stay, of some that are left out; they have at most so many tokens."""


@dataclass(slots=True, kw_only=True)
class Fitting:
    """A conversation that is made to fit into `budget` tokens: its messages, and the row that says what is left out.

    `fixed` are the estimated tokens of what is sent with it: system text, tools. The provider counts `factor` tokens
    for each that is estimated. Messages at places after `last` are not committed: no row may name them. `who` and the
    `model` are those of the request. `keep` says what stays, `refer` makes the reference to a result, `form` makes of
    a message what the model is sent of it, and `redact` takes the secrets out of a summary. `unpaid` is a summary in
    the row that no run has paid for.
    """

    messages: list[Message]
    row: Compaction
    policy: Context
    budget: int
    fixed: int
    factor: float = 1.0
    last: int | None = None
    who: str
    model: Model | None
    keep: Keep
    refer: Callable[[Message], Message] = reference
    form: Callable[[Message], Message] | None = None
    redact: Callable[[str], str]
    unpaid: Summary | None = None
    _counted: tuple[object, list[int], list[int]] = (None, [], [])

    @property
    def estimate(self) -> int:
        """The estimated tokens of the whole request."""
        return self.fixed + sum(self.sizes)

    @property
    def tokens(self) -> int:
        """The tokens of the whole request as the provider counts them."""
        return int(self.estimate * self.factor)

    @property
    def sizes(self) -> list[int]:
        """The estimated tokens of each message, counted once."""
        if self._counted[0] is not self.messages:
            self.count()
        return self._counted[1]

    def count(self) -> None:
        """Count the messages, and find where they can be cut in two. Of many that takes its time."""
        self._counted = self.messages, [*map(self._size, self.messages)], boundaries(self.messages)

    def _size(self, message: Message) -> int:
        return message_tokens(message if self.form is None else self.form(message))

    @property
    def limit(self) -> float:
        """The tokens, as the provider counts them, from which on the request is made shorter."""
        return limit_of(self.budget, self.fixed * self.factor, self.policy)

    def room(self, share: float) -> int:
        """Return the estimated tokens of messages that have this share of what the fixed parts leave to them."""
        return max(int((self.budget / self.factor - self.fixed) * share), 0)

    def older(self, share: float) -> int:
        """Return the number of messages before the newest ones that have this share of the budget."""
        last = self.last  # what is not committed yet may never be, and its places then are other messages'
        committed = None
        if last is not None:
            committed = sum(each.seq is None or each.seq <= last for each in self.messages)
        sizes = self.sizes
        return cut_for(self._counted[2], sizes, self.room(share), committed)

    def place(self, count: int) -> int:
        """Return the place in the thread of the last of so many messages."""
        return max([each.seq or 0 for each in self.messages[:count]], default=0)

    def digest(self, covers: int) -> bytes:
        """Return the digest of the messages up to that place, the same whether results are shown or are references."""
        digest = blake2b(digest_size=16)
        for each in self.messages:
            if each.seq is not None and each.seq <= covers:
                is_long_result = each.role == "tool" and is_long(each)
                digest.update(message_digest(self.refer(each) if is_long_result else each))
        return digest.digest()

    # ── the three measures ──────────────────────────────────────────────────────────────────────────────────

    def clear(self, keep: float | None, least: float = 0) -> None:
        """Send references in place of the older results, or of all if `keep` is None; if that saves enough tokens."""
        messages, before, row, counted = self.messages, self.tokens, self.row, self._counted
        older = messages if keep is None else messages[: self.older(keep)]
        cleared = max([each.seq or 0 for each in older if each.role == "tool" and is_long(each)], default=0)
        if not cleared:
            return
        self.messages = [
            self.refer(each)
            if each.role == "tool" and each.seq is not None and each.seq <= cleared and is_long(each)
            else each
            for each in messages
        ]
        pairs = zip(messages, self.messages, counted[1], strict=True)
        sizes = [size if old is new else self._size(new) for old, new, size in pairs]
        self._counted = self.messages, sizes, counted[2]  # a reference changes no place to cut at
        self.row = changed(row, cleared=max(row.cleared, cleared))
        if before - self.tokens < least:
            self.messages, self.row, self._counted = messages, row, counted

    async def leave_out(self, cut: int, summary: Summary | None) -> None:
        """Leave out the messages up to that place, for a summary of them, or with a note of how many they are."""
        row = self.row
        gone = [each for each in self.messages if each.seq is not None and each.seq <= cut]
        old = self.messages[0] if self.begins_with_header else None
        kept = await self.keep(gone, int(self.budget * OWN_SHARE / self.factor))
        room = int(self.budget * LINES_SHARE / self.factor)
        lost = [each for each in gone if each.seq not in kept and not each.pinned]
        notes = last_lines(lost if old is None else [old, *lost], room)
        if summary is None:
            row = changed(row, omitted=len(lost) + row.omitted)
        else:
            text = self.redact(summary.text)
            row = changed(
                row, summary=text, covers=cut, omitted=0, model=summary.model, version=INSTRUCTION_VERSION
            )
            self.unpaid = summary if self.unpaid is None else summary.with_cost_of(self.unpaid)
        text = header_text(
            row.summary, row.omitted, [] if notes is None else [notes], edited=row.model is None
        )
        self.row = row = changed(row, cut=cut, kept=tuple(sorted(kept)), text=text)
        stay = [
            each
            for each in self.messages
            if each.seq is None or each.seq > cut or each.pinned or each.seq in kept
        ]
        self.messages = [header(row), *[each for each in stay if each is not old]]

    async def squeeze(self) -> None:
        """Keep less and less of the newest messages while the request is too long. The last step stays."""
        for share in (0.2, 0.1, 0.0):
            self.clear(share)
            if self.tokens <= self.budget:
                return
            cut = self.place(self.older(share))
            if cut > self.row.cut:
                await self.leave_out(cut, None)
            if self.tokens <= self.budget:
                return
        self.clear(None)
        most = int(self.budget * HEADER_SHARE / self.factor) * 4
        if self.tokens > self.budget and self.begins_with_header and len(self.messages[0].content) > most:
            self.row = changed(self.row, text=brief(self.row.text, most))
            self.messages = [header(self.row), *self.messages[1:]]
        if self.tokens > self.budget and self.row.kept:
            kept = {*self.row.kept}
            self.row = changed(self.row, kept=())
            self.messages = [
                each for each in self.messages if each.pinned or each.seq is None or each.seq not in kept
            ]

    @property
    def begins_with_header(self) -> bool:
        """Whether the first message stands for what the conversation leaves out; a caller's own can be in it too."""
        first = self.messages[0] if self.messages else None
        return first is not None and first.id.startswith(HEADER) and (first.within or "") == self.row.within

    def too_long(self) -> ContextTooLong:
        """Return the error that names what does not fit, and what to do."""
        name = "the model" if self.model is None else self.model.name
        budget = quantity(self.budget, "token")
        fixed, sizes = int(self.fixed * self.factor), self.sizes
        if fixed > self.budget // 2:
            return ContextTooLong(
                f"The system text and the tools of the agent {self.who!r} have some {fixed} "
                f"tokens, and a request to {name} may have {budget}. Shorten them, or choose a model that takes more."
            )
        place = max(range(len(sizes)), key=sizes.__getitem__)
        message, size = self.messages[place], int(sizes[place] * self.factor)
        remedy = (
            "Unpin it." if message.pinned else "Send less at once, or send it as a file that a tool reads."
        )
        return ContextTooLong(
            f"The message {message.id} has some {size} tokens, and a request to {name} may have {budget}. {remedy}"
        )


def limit_of(budget: int, fixed: float, policy: Context) -> float:
    """Return the tokens of a request from which on it is made shorter: system text and tools cannot be."""
    return fixed + max(budget - fixed, 0) * policy.start_at
