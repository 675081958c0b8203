"""Runs that wait for values: which of them a visitor may answer, and the form in which the values are given."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from toolwright.core.errors import NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.text import brief, quantity
from toolwright.core.threads.run import Run
from toolwright.core.value import value
from toolwright.runtime.children.requests import Wanted
from toolwright.web.console.schema_form import SchemaForm
from toolwright.web.console.tool_ui.form import read
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, words

MOST: Final = 50
_THREADS: Final = 200  # of a person, that are looked at, the newest


@value
class Request:
    """An open request for values of a run."""

    thread_id: str
    run: Run
    wanted: Wanted


async def open_requests(visit: Visit) -> Sequence[Request]:
    """Requests of parked runs, the oldest first: of a person those in their threads."""
    found: list[Request] = []
    for run in reversed(await _parked(visit)):
        request_id = (run.waiting or {}).get("requestId")
        if isinstance(request_id, str) and len(found) < MOST:
            with suppress(NotFound):  # answered a moment ago
                await visit.permits.request(visit.caller, run.thread_id, request_id)
                wanted = await visit.runtime.requests.get(run.thread_id, request_id)
                found.append(Request(thread_id=run.thread_id, run=run, wanted=wanted))
    return found


async def count_requests(visit: Visit) -> int:
    """How many runs wait for values that the visitor may give."""
    return min(len(await _parked(visit)), MOST)


async def _parked(visit: Visit) -> Sequence[Run]:
    """Runs that wait for values, the newest first."""
    caller, runtime = visit.caller, visit.runtime
    if caller.users is None:
        runs = await runtime.runs.list(status="waiting", limit=200)
    else:
        threads = await runtime.threads.list(among=caller.users, order="newest_first", limit=_THREADS)
        runs = [await runtime.runs.get(each.run_id) for each in threads if each.run_id is not None]
    return [
        run for run in runs if run.status == "waiting" and (run.waiting or {}).get("reason") == "variables"
    ]


def draw_request(visit: Visit, request: Request, done: Callable[[], Awaitable[object]]) -> None:
    """What is missing, and a form to give it; `done` is called once something was given."""
    wanted = request.wanted
    with box("div", "row head-of-call"):
        words(f"{brief(wanted.agent_name, 100)} needs {quantity(len(wanted.missing), 'value')}", "h3", "name")
        badge("waits for values", "waiting")
    words(
        "Its run goes on as soon as they are there. Secrets are kept encrypted, and shown to nobody.",
        "p",
        "quiet small",
    )
    form = SchemaForm(schema_of(wanted), name="variables")

    async def give() -> None:
        entered = read(form)
        if entered is not None:
            await visit.act(_answer(visit, request, entered), "Given: the run goes on.")
            await done()

    with box("div", "row answers"):
        action("Give", give, kind="primary")


def schema_of(wanted: Wanted) -> JSONObject:
    """The form's schema: what is missing is required, what has a value by now may be given anew."""
    properties: JSONObject = {}
    for each in wanted.required:
        field: JSONObject = {"type": "string", "minLength": 1, "description": each.description}
        properties[each.name] = field | ({"format": "password"} if each.type == "secret" else {})
    missing: list[JSON] = [*wanted.missing]
    return {"type": "object", "properties": properties, "required": missing}


async def _answer(visit: Visit, request: Request, entered: JSONObject) -> None:
    request_id = request.wanted.request_id
    await visit.permits.request(visit.caller, request.thread_id, request_id)
    given = {name: each for name, each in entered.items() if isinstance(each, str)}
    await visit.runtime.requests.answer(request.thread_id, request_id, given)
