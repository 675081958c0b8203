"""Requests for values and the env of threads and people, as a client sees them."""

from collections.abc import Mapping
from typing import TypeAlias

from toolwright.client.transport.http import Http, segment
from toolwright.core.env.env import EnvType, EnvVar
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.plain import plain
from toolwright.wire.reading import read, read_field
from toolwright.wire.variables import VariablesAnswered, VariablesWanted

Values: TypeAlias = Mapping[str, EnvVar | str | Mapping[str, JSON] | None]
"""Texts by name, or `{"value": …, "type": "text"}`; None takes a name away."""


def values_json(env: Values) -> JSONObject:
    """The values as a body carries them."""
    return {
        name: {"value": each.value, "type": each.type} if isinstance(each, EnvVar) else plain(each)
        for name, each in env.items()
    }


def read_names(answer: JSON) -> dict[str, EnvType]:
    """The names that are set, and whether each is a secret."""
    names = read_field(dict[str, dict[str, EnvType]], answer, "env")
    return {name: each["type"] for name, each in names.items() if "type" in each}


class Requests:
    """Open requests for values. Raises `NotFound` for one that is unknown, over or another thread's."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def get(self, thread_id: str, request_id: str) -> VariablesWanted:
        """Variables of a request, and those without a value now."""
        return read(VariablesWanted, await self._http.get(_path(thread_id, request_id)))

    async def answer(self, thread_id: str, request_id: str, env: Values) -> VariablesAnswered:
        """Give values. When none is missing any more, the run goes on, or the child begins.

        Raises `VariablesLacking` with what is still `missing`; what was given is kept then. It is not repeated when
        its answer is lost (`AnswerLost`).
        """
        body: JSONObject = {"env": values_json(env)}
        return read(
            VariablesAnswered, (await self._http.call("POST", _path(thread_id, request_id), body)).json
        )


def _path(thread_id: str, request_id: str) -> str:
    return f"/api/threads/{segment(thread_id)}/variables/{segment(request_id)}"
