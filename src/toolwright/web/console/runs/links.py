"""Links to runs, threads and agents, as every page shows them."""

from urllib.parse import quote

from nicegui.elements.mixins.text_element import TextElement

from toolwright.core.errors import NotFound
from toolwright.core.results.content import AttachmentRef
from toolwright.core.text import brief
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, file_url, link, words


def run_path(run_id: str) -> str:
    """The path of a run's page."""
    return f"/runs/{quote(run_id, safe='')}"


def thread_path(thread_id: str) -> str:
    """The path of a thread's page."""
    return f"/threads/{quote(thread_id, safe='')}"


def run_link(run_id: str, content: str = "run", classes: str = "quiet small") -> TextElement:
    """A link to a run, such as every message has that comes from one."""
    return link(content, run_path(run_id), f"run-link {classes}")


def thread_link(thread_id: str, content: str | None = None, classes: str = "") -> TextElement:
    """A link to a thread."""
    return link(content or thread_id, thread_path(thread_id), classes)


def agent_link(visit: Visit, agent_id: str, name: str) -> TextElement:
    """An agent's name; services come to its page by it."""
    if visit.is_service:
        return link(name, f"/agents/{quote(agent_id, safe='')}")
    return words(brief(name, 300))


async def agent_name(visit: Visit, agent_id: str) -> str:
    """The name of an agent; of one that is gone, its id."""
    try:
        return (await visit.runtime.agents.get(agent_id)).name
    except NotFound:
        return agent_id


def file_link(thread_id: str, ref: AttachmentRef) -> None:
    """A link that opens a file, or saves it where a browser could run it."""
    anchor = box("a", "file-link")
    anchor.props["href"] = file_url(thread_id, ref.path)
    anchor.props["target"] = "_blank"  # so that no view of the console is looked for at its path
    anchor.props["rel"] = "noopener noreferrer"
    with anchor:
        words(ref.name)
