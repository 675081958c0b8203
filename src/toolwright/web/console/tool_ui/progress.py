"""The component that shows how far a call is."""

from typing import Final

from toolwright.core.json_value import JSON
from toolwright.core.spaces.tool_ui import ShownCall, Submit
from toolwright.core.text import brief
from toolwright.core.value import value
from toolwright.web.console.tool_ui.facts import CallFacts
from toolwright.web.console.tool_ui.parts import arguments, outcome, text_of
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, words

_DONE: Final = ("done", "current", "value", "progress", "percent")
_TOTAL: Final = ("total", "max", "of")
_TEXT: Final = ("text", "message", "label", "title", "status")


@value
class Progress:
    """How far something is: `share` is from 0 to 1, None where nobody knows."""

    share: float | None
    said: str
    text: str


async def draw_progress(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """What the call has said last of how far it is, else what its arguments say."""
    call = facts.call
    progress = read_progress(call)
    if progress is None:
        await arguments(call)
    else:
        draw_bar(progress)
    await outcome(call)


def draw_bar(progress: Progress) -> None:
    """A bar, and words beside it."""
    with box("div", "stack"):
        if progress.text:
            words(brief(progress.text, 400), "div")
        with box("div", "progress") as bar:
            bar.props["role"] = "progressbar"
            bar.props["aria-label"] = progress.text[:200] or "Progress"
            done = box("div", "done" if progress.share is not None else "done unknown")
            if progress.share is not None:
                bar.props["aria-valuenow"] = round(progress.share * 100)
                done.style(f"width: {progress.share:.1%}")
        words(progress.said, "div", "quiet small")


def read_progress(call: ShownCall) -> Progress | None:
    """How far the call is, None where it says nothing of it."""
    if call.progress is not None:
        done, total, text = call.progress
        return _progress(done, total, text)
    args = call.args if isinstance(call.args, dict) else {}
    done = next((each for name in _DONE if (each := _number(args.get(name))) is not None), None)
    total = next((each for name in _TOTAL if (each := _number(args.get(name))) is not None), None)
    if done is None:
        return None
    if total is None and "percent" in args:
        total = 100.0
    return _progress(done, total, text_of(call.args, *_TEXT) or "")


def _progress(done: float, total: float | None, text: str) -> Progress:
    if total is None and 0 <= done <= 1:
        total = 1.0
    if total is None or total <= 0:
        return Progress(share=None, said=f"{done:g}", text=text)
    share = min(max(done / total, 0.0), 1.0)
    said = f"{share:.0%}" if total in (1.0, 100.0) else f"{done:g} of {total:g}"
    return Progress(share=share, said=said, text=text)


def _number(number: JSON) -> float | None:
    is_number = isinstance(number, int | float) and not isinstance(number, bool) and abs(number) < 1e300
    return float(number) if is_number else None  # type: ignore[arg-type]  # as just seen
