"""Composed requests, for users (S1): begun, solved in a thread of their own, and read as solutions."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from toolwright.core.agents.catalog import REQUESTS, Catalog
from toolwright.core.checks import brief_value
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.errors import InvalidRequest, NotFound, RunOver, SolutionError
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import CreateThread
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_NAME
from toolwright.core.plain import unwritable
from toolwright.core.ports import Clock, NewId
from toolwright.core.requests.conversation import message_of
from toolwright.core.requests.request import RequestForm, read_request
from toolwright.core.requests.solution import Solution
from toolwright.core.requests.speaker import OBJECT, RequestAgents, request_agent
from toolwright.core.schemas.meta import Call, read_call
from toolwright.core.schemas.output import Output
from toolwright.core.schemas.state_paths import read_value_key
from toolwright.core.threads.call import Call as CallRow
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.threads.runs import Runs
from toolwright.runtime.threads.threads import Threads
from toolwright.wire.result import result_from_json

PAGE = 500  # calls that are read at once


class ComposedRequests:
    """Begins composed requests and reads their solutions. A request is the one run of a thread of its own."""

    def __init__(
        self,
        catalog: Catalog,
        agents: RequestAgents,
        store: Store,
        threads: Threads,
        runs: Runs,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._catalog = catalog
        self._agents = agents
        self._store = store
        self._threads = threads
        self._runs = runs
        self._clock = clock
        self._new_id = new_id

    async def solve(
        self, config: Mapping[str, object], schema: object, context: Sequence[object] | str
    ) -> Solution:
        """Begin a request, and wait for its solution; a cancelled wait cancels the run."""
        run = await self.begin(config, schema, context)
        try:
            return await self.solution(run.id)
        except asyncio.CancelledError:
            with suppress(RunOver):
                await self._runs.cancel(run.id)
            raise
        finally:
            self._agents.forget(run.thread_id)

    async def begin(
        self, config: Mapping[str, object], schema: object, context: Sequence[object] | str
    ) -> Run:
        """Write a request down and let it be solved; its run. Raises `InvalidConfiguration` with every fault."""
        model, written = _without_object(config)
        output = Output(schema)
        request = await in_thread_if_large(
            [context, written],
            read_request,
            "The request",
            {"config": written, "schema": output.schema, "context": context},
        )
        message = message_of(request)
        thread = Thread(
            id=self._new_id("thr"), agent=REQUESTS.id, arguments=request.kept, created_at=self._clock.now()
        )
        active = request_agent(self._catalog, request, output, model, thread.created_at)
        assert active.form is not None, "its answers have one"
        if any(unwritable(each.content) for each in active.form.heard([])) or unwritable(message):
            raise InvalidRequest("The context of a request is text without NUL or lone surrogates.")
        self._agents.keep(thread.id, model, output)
        unit = CreateThread(token=self._new_id("unit"), at=thread.created_at, thread=thread)
        await self._store.commit(unit)
        return await self._threads.send(thread.id, message)

    async def solution(self, run_id: str) -> Solution:
        """The solution of a request, once its run is over; also of one that another process began.

        Raises `SolutionError` if the run failed or was cancelled, `NotFound` if it is none of a request.
        """
        run = await self._runs.wait(run_id)
        thread = await self._threads.get(run.thread_id)
        if thread.agent != REQUESTS.id:
            raise NotFound(f"The run {run_id!r} is none of a composed request.")
        if run.status != "completed":
            why = run.error or f"The request was {run.status}."
            raise SolutionError(why, run.id, thread.id)
        request = read_request("The request", thread.arguments)
        output = self._agents.output_of(thread.id, request)
        tools = {tool.name: tool for tool in self._agents.of(thread).by_name.values()}
        states = await self._states(thread.id, request)
        return Solution(
            output=None if run.output is None else output.load(run.output),
            calls=tuple([_call(row, tools) for row in await self._calls(run.id)]),
            state=states.pop(None),
            states={name: state for name, state in states.items() if name is not None},
            steps=run.step_count,
            usage=run.usage,
            stop_reason=run.stop_reason,
            run_id=run.id,
            thread_id=thread.id,
        )

    async def _calls(self, run_id: str) -> list[CallRow]:
        """The calls of the run that its model has made, in order."""
        rows: list[CallRow] = []
        while page := await self._store.calls(run_id=run_id, limit=PAGE, offset=len(rows)):
            rows += page
        own = [row for row in rows if row.parent_id is None]
        return sorted(own, key=lambda row: (row.step, row.position))

    async def _states(self, thread_id: str, request: RequestForm) -> dict[str | None, JSONObject]:
        """The state at the end, of no instance and of each: what was written lies over what the context says."""
        states = {instance: request.state_of(instance) for instance in (None, *request.instances)}
        for key, text in (await self._store.children.values(thread_id)).items():
            name, instance = read_value_key(key)
            states.setdefault(instance, {})[name] = json.loads(text)
        return states


def _without_object(config: object) -> tuple[object, JSONObject]:
    """The model that is an object, None if it is none; and the config as JSON can carry it."""
    if not isinstance(config, Mapping):
        raise InvalidRequest(f"The config of a request is an object, not {brief_value(config)}.")
    written = dict(cast("Mapping[str, Any]", config))  # its fields are judged with the request
    model: object = written.get("model")
    if isinstance(model, str) and model.startswith(OBJECT):
        raise InvalidRequest(f"The name of a model does not begin with {OBJECT!r}.")
    if model is None or isinstance(model, str):
        return None, written
    written["model"] = f"{OBJECT}{getattr(model, 'name', type(model).__name__)}"[:MAX_NAME]
    return model, written


def _call(row: CallRow, tools: Mapping[str, Tool]) -> Call:
    """A call as the document shows it, with its result."""
    arguments: JSON = json.loads(row.arguments or "{}")
    result = None if row.result is None else result_from_json(row.result)
    tool = tools.get(row.name)
    if tool is None or tool.meta is None or not isinstance(arguments, dict):
        return Call(tool=row.name, args=arguments if isinstance(arguments, dict) else {}, result=result)
    call = read_call(tool.name, tool.meta, arguments, row.kind == "latent")
    return changed(call, result=result)
