"""The prompt of a thread's agent, as its model is told it now."""

from toolwright.core.errors import ToolwrightError
from toolwright.core.text import quantity
from toolwright.core.threads.thread import Thread
from toolwright.web.console.browsing import check_service
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, code, nothing, words


async def draw_prompt(visit: Visit, thread: Thread) -> None:
    """What its model reads before the conversation, in the parts that it is made of; for services alone."""
    check_service(visit)
    try:
        told = await visit.runtime.prompts.of(thread.answering, thread.space_id)
    except ToolwrightError as error:
        nothing("The prompt cannot be shown.", error.message)
        return
    words(
        "What the model is told now. Parts that change from step to step are sent after the messages of the "
        "conversation, all others before them. A run that is over was told what held then.",
        "p",
        "quiet",
    )
    for part in told.sections:
        with box("section", "section"):
            with box("div", "row"):
                words(part.name, "h2")
                size = quantity(len(part.text), "character")
                words(f"{size}, after the messages" if part.changes else size, "span", "quiet small")
            code(part.text)
