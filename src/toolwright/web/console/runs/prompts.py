"""What a run's models were sent, step by step: tokens, what was left out, texts, tools and messages."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from toolwright.core.json_value import JSONObject
from toolwright.core.text import quantity
from toolwright.core.threads.compaction import NO_RECORD, NOT_EXACT, SentPrompt, left_out
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.web.auth.permits import reads_system_text
from toolwright.web.console.browsing import Listing
from toolwright.web.console.runs.facts import joined
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import badge, box, code, json_text, nothing, words

SIZE: Final = 10  # prompts of a page
MOST_MESSAGES: Final = 200  # of a prompt that are drawn, the newest


async def draw_prompts(visit: Visit, run: Run) -> None:
    """Render what the models were sent, a page of steps at a time."""

    async def read(limit: int, offset: int) -> Sequence[SentPrompt]:
        await visit.permits.run(visit.caller, run.id)
        return await visit.runtime.sent_prompts.of_run(run.id, limit, offset)

    listing = Listing(visit, read, partial(_draw, visit), empty=_no_prompts, size=SIZE)
    await listing.show()


def counted(prompt: SentPrompt) -> str:
    """Return the tokens of a request and of its parts in a few characters."""
    sent = prompt.sent
    if sent is None:
        return ""
    totals = {"estimated": sent.tokens, "counted": sent.counted, "at most": sent.budget}
    parts = [f"{name} {tokens:,}" for name, tokens in prompt.parts.items() if tokens]
    return joined(*[f"{tokens:,} {name}" for name, tokens in totals.items() if tokens is not None], *parts)


def _no_prompts() -> None:
    nothing("No model has answered yet.", "What it was sent appears here with each answer.")


def _draw(visit: Visit, prompt: SentPrompt) -> None:
    with box("li", "item"), box("div", "fill stack"):
        with box("div", "row"):
            words(f"Step {prompt.step}", "h2", "title")
            for each in (prompt.by, prompt.side, prompt.within):
                if each is not None:
                    badge(each)
            if prompt.sent is not None and not prompt.exact:
                badge("not exact", "waiting").props["title"] = NOT_EXACT
        if prompt.sent is None:
            words(NO_RECORD, "p", "quiet")
            return
        words(counted(prompt), "p", "quiet small")
        for line in left_out(prompt.compaction):
            words(line, "p", "small")
        if reads_system_text(visit.caller):
            _fold_text(visit, "System", prompt.system)
            _fold_text(visit, "System, changing", prompt.changing)
            if prompt.tools:
                tools: list[JSONObject] = [*prompt.tools]
                title = quantity(len(tools), "tool")
                _fold(visit, title, lambda: [code(json_text(each)) for each in tools])
        _fold(visit, quantity(len(prompt.messages), "message"), lambda: _draw_messages(prompt.messages))


def _draw_messages(messages: Sequence[Message]) -> None:
    hidden = len(messages) - MOST_MESSAGES
    if hidden > 0:
        words(f"{quantity(hidden, 'earlier message')} not shown here.", "p", "quiet small")
    for message in messages[-MOST_MESSAGES:]:
        with box("div", "row"):
            words(message.tool_name or message.role, "span", "title small")
            if message.pinned:
                badge("pinned")
        if message.content:
            code(message.content)
        for call in message.calls:
            code(f"{call.name}({call.arguments})")
        for file in message.attachments:
            words(file.path, "p", "quiet small")


def _fold_text(visit: Visit, title: str, text: str) -> None:
    if text:
        _fold(visit, title, lambda: code(text))


def _fold(visit: Visit, title: str, draw: Callable[[], object]) -> None:
    """Render a folded part, whose content is drawn when it is first opened."""
    details = box("details", "folded")
    with details:
        words(title, "summary", "quiet small")
        place = box()

    async def fill() -> None:
        if not place.default_slot.children:
            with place:
                draw()

    details.on("toggle", lambda: visit.act(fill()), args=[])
