"""Values that a run or a child waits for: which they are, and the form to give them."""

from collections.abc import Awaitable, Callable, Mapping

from toolwright.core.errors import NotFound, VariablesLacking
from toolwright.runtime.children.requests import Wanted
from toolwright.web.console.sign_in import Field, entry_form
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import badge, box, words

Give = Callable[[Mapping[str, str]], Awaitable[object]]


async def variables_form(
    visit: Visit, thread_id: str, request_id: str, given: Callable[[], object] = lambda: None
) -> None:
    """Show what the open request of that thread asks for, and take it; `given` is told once all is there.

    What a value is never comes back to the page. Of a request that is answered or over, the page says so.
    """
    card = box("section", "card stack")
    card.props["aria-label"] = "Values that are missing"

    async def draw() -> None:
        wanted = await _wanted(visit, thread_id, request_id)
        card.clear()
        with card:
            if wanted is None:
                words("Nobody waits for these values any more.", "p", "quiet")
            else:
                _ask(wanted, give)

    async def give(entered: Mapping[str, str]) -> None:
        if await visit.act(answer(entered), "The values are given."):
            given()

    async def answer(entered: Mapping[str, str]) -> None:
        await visit.permits.request(visit.caller, thread_id, request_id)
        try:
            await visit.runtime.requests.answer(thread_id, request_id, entered)
        except (VariablesLacking, NotFound):  # what was given is kept, or nobody asks any more
            await draw()
            raise
        await draw()

    await draw()


async def _wanted(visit: Visit, thread_id: str, request_id: str) -> Wanted | None:
    try:
        await visit.permits.request(visit.caller, thread_id, request_id)
        return await visit.runtime.requests.get(thread_id, request_id)
    except NotFound:
        return None


def _ask(wanted: Wanted, give: Give) -> None:
    words("Values are missing", "h2")
    words(f"{wanted.agent_name} goes on once they are given. Secrets are kept encrypted.", "p", "quiet")
    there = [each.name for each in wanted.required if each.name not in wanted.missing]
    if there:
        with box("div", "row small"):
            words("There already:", "span", "quiet")
            for name in there:
                badge(name, "good")
    missing = [each for each in wanted.required if each.name in wanted.missing]
    fields = [Field(name=each.name, secret=each.type == "secret", hint=each.description) for each in missing]
    entry_form(fields, "Give", give)
