"""Calls over HTTP: list, claim, submit results, cancel; and requests for missing variables."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TypeAlias
from urllib.parse import quote

from toolwright.client.follow import follow
from toolwright.client.http import Http, segment
from toolwright.core.checks import by_list, by_names
from toolwright.core.env.env import EnvType, EnvVar
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSON, JSONObject, plain
from toolwright.core.results import ToolResult
from toolwright.core.threads.call import CallStatus
from toolwright.wire.call import Call, Offer, VariablesAnswered, VariablesRequest
from toolwright.wire.shape import Items, read, read_field, read_list

Values: TypeAlias = Mapping[str, EnvVar | str | Mapping[str, JSON] | None]
"""Values by name: text, or `{"value": …, "type": "text"}`. None deletes the name."""
OFFERED = "tool.call"


def values_json(env: Values) -> JSONObject:
    """Render the values for a request body."""
    by_names("env", env)
    return {
        name: {"value": each.value, "type": each.type} if isinstance(each, EnvVar) else plain(each)
        for name, each in env.items()
    }


def read_names(answer: JSON) -> dict[str, EnvType]:
    """Return the type (`text` or `secret`) of each name that is set."""
    names = read_field(dict[str, dict[str, EnvType]], answer, "env")
    return {name: each["type"] for name, each in names.items() if "type" in each}


class Requests:
    """Open requests for missing variables. Raises `NotFound` if one is unknown, finished or of another thread."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def get(self, thread_id: str, request_id: str) -> VariablesRequest:
        """Return the variables of a request and the names of the missing ones."""
        return read(VariablesRequest, await self._http.get(_request_path(thread_id, request_id)))

    async def answer(self, thread_id: str, request_id: str, env: Values) -> VariablesAnswered:
        """Submit values. Once no value is missing, the run resumes, or the child starts.

        Raises `VariablesRequired` with the names that are still `missing`; the submitted values are stored anyway. The
        request is not retried if the answer is lost (`AnswerLost`).
        """
        body: JSONObject = {"env": values_json(env)}
        return read(
            VariablesAnswered,
            (await self._http.call("POST", _request_path(thread_id, request_id), body)).json,
        )


def _request_path(thread_id: str, request_id: str) -> str:
    return f"/api/threads/{segment(thread_id)}/variables/{segment(request_id)}"


class Calls:
    """The calls of a gateway."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(
        self,
        status: CallStatus | Sequence[CallStatus] | None = None,
        run_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Items[Call]:
        """Return calls, oldest first. Without `status`, only open calls.

        Results are whole as long as they have at most 4 MiB together; a call with `result_truncated` has the beginning.
        """
        query = {
            "status": None if status is None else _joined("status", status, "statuses"),
            "runId": run_id,
            "limit": limit,
            "offset": offset,
        }
        return read_list(Call, await self._http.get("/api/calls", query), "calls")

    async def get(self, call_id: str) -> Call:
        """Return the call, regardless of its status, with its whole result if that has at most 4 MiB.

        If `result_truncated` is true, the whole is in the last of its `attachments`, unless it was larger than a file
        can be: read it with `files.read` and this `call_id`. Raises `NotFound`.
        """
        return read_field(Call, await self._http.get(_path(call_id)), "call")

    async def submit(
        self, run_id: str, call_id: str, result: JSON | ToolResult = None, *, error: str | None = None
    ) -> None:
        """Submit the result of an open call: any JSON value, or an error message. The first result is final.

        Raises `NotFound`, `Forbidden` (a call of another run), `CallResolved`, `CallExpired` or `CallCancelled`; in
        that case nothing has changed. After `AnswerLost` submit again: `CallResolved` means that the first submission
        was accepted.
        """
        body: JSONObject = {"callId": call_id, **_outcome(result, error)}
        await self._http.call("POST", f"/api/runs/{segment(run_id)}/tool-results", body)

    async def offers(self, tools: Sequence[str] | None = None) -> AsyncGenerator[Offer]:
        """Yield calls for external workers, without end: all open, unclaimed calls of these tools, then new ones.

        Open calls are offered again after a reconnect, so claim a call before you execute it. Close the generator with
        `contextlib.aclosing`. `Worker` does all of this.
        """
        query = ""
        if tools is not None:
            query = f"?tools={quote(_joined('tools', tools, 'names of tools'), safe=',')}"
        async with aclosing(follow(self._http, f"/api/tools/stream{query}", None)) as events:
            async for event in events:
                if event.type == OFFERED:
                    yield read(Offer, event.payload)

    async def cancel(self, call_id: str) -> Call:
        """Cancel an open call and return it. Its agent reads the error `Tool call cancelled`.

        Raises `NotFound`, `CallResolved`, `CallCancelled`, or `AlreadyOver` if the call has expired. After
        `AnswerLost` cancel again: `CallCancelled` means that the call was cancelled.
        """
        answer = await self._http.call("POST", f"{_path(call_id)}/cancel")
        return read_field(Call, answer.json, "call")

    async def claim(self, call_id: str, worker: str, lease: float) -> Call:
        """Claim an open call for a worker, for `lease` seconds (1 to 3600), or renew the worker's own claim.

        Raises `CallClaimed` while another worker has it, `NotFound`, `CallResolved`, `CallExpired`, `CallCancelled`.
        """
        body: JSONObject = {"worker": worker, "leaseMs": round(lease * 1000)}
        answer = await self._http.call("POST", f"{_path(call_id)}/claim", body, repeat="lost")
        return read_field(Call, answer.json, "call")


def _path(call_id: str) -> str:
    return f"/api/calls/{segment(call_id)}"


def _joined(field: str, names: str | Sequence[str], expected: str) -> str:
    """Return the names as one value of a query. A single one, given as text, is not split."""
    if isinstance(names, str):
        return names
    by_list(field, names, str, expected)
    return ",".join(names)


def _outcome(result: JSON | ToolResult, error: str | None) -> JSONObject:
    if error is not None:
        if result is not None:
            raise InvalidRequest("Give either a result or an error.")
        return {"error": error}
    if not isinstance(result, ToolResult):
        return {"result": plain(result)}
    if result.attachments or result.error_code or result.error_data:
        raise InvalidRequest(
            "Over HTTP a result must be a JSON value or an error message. Leave out attachments, code and data."
        )
    return {"error": result.error} if result.status == "error" else {"result": plain(result.result)}
