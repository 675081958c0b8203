"""Questions that handlers ask while they run: to a person, or to the agent's model."""

from collections.abc import Sequence

from pydantic import BaseModel

from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.questions import OpenForms, check_question, elicited
from toolwright.core.results import ToolResult
from toolwright.core.state.state import (
    ELICIT,
    SAMPLE,
    Elicited,
    Sampled,
    model_of,
    question,
    sampled,
    sampling,
)
from toolwright.runtime.state.facts import Facts, NestedCalls

MAX_ASKED = 3
"""Maximum number of times that a question is asked whose answers its model rejects after they were submitted."""


class Questions(Facts):
    """Asks questions with nested calls of the handler's call, recorded, shown and answered like any call."""

    __slots__ = ("_forms",)

    _forms: OpenForms

    @property
    def _calls(self) -> NestedCalls:
        raise NotImplementedError

    async def elicit(
        self, message: str, schema: object = None, *, url: str | None = None, source: str | None = None
    ) -> Elicited:
        """Ask a person, and wait for the answer for up to an hour. The timeout of this call is paused in the meantime.

        `schema` is the JSON Schema of an object of plain fields, or a pydantic model; with `url` the person is sent to
        that page. `source` names the asker, by default the tool. The question is a pending nested call, shown in the
        run's space, and answered like any call: `{"action": "accept", "content": {…}}`, or `decline` or `cancel`.
        Raises `InvalidRequest` for an invalid question.
        """
        request, model = question(message, schema, url, source), model_of(schema)
        return await self.ask(request) if model is None else await self._ask_for(model, request)

    async def sample(
        self,
        messages: Sequence[tuple[str, str]] | str,
        *,
        system: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        source: str | None = None,
    ) -> Sampled:
        """Call the agent's model outside the conversation. The tokens count for the run.

        `messages` is a user's text, or pairs of `user` or `assistant` and a text. Raises `ModelError` if there is no
        answer, `InvalidRequest` for invalid messages.
        """
        request = sampling(messages, system, max_tokens, temperature, source)
        return sampled(await self._calls.make(SAMPLE, request, built_in=True))

    async def _ask_for(self, model: type[BaseModel], request: JSONObject) -> Elicited:
        """Ask for a model's input. Raises `InvalidRequest` if its validators reject the answers.

        Another process, which does not know the model, accepts an answer by its schema alone: it is asked for again.
        """
        check_question(request)
        asked, number = request, 1
        while True:
            result = await self._put(asked, model)
            try:
                return elicited(asked, result, model)
            except InvalidRequest as error:
                if number == MAX_ASKED:
                    raise
                asked = {**request, "message": f"{request['message']}\n\n{error.message}"}
                number += 1

    async def ask(self, request: JSONObject) -> Elicited:
        """Ask a question that is already parsed. Raises `InvalidRequest` for an invalid schema."""
        check_question(request)
        return elicited(request, await self._put(request))

    async def _put(self, request: JSONObject, model: type[BaseModel] | None = None) -> ToolResult:
        """Return the result of the nested call that asks the question."""
        with self._context.abort.clocks_paused(), self._forms.open(self.call.id, model):
            return await self._calls.make(ELICIT, request, built_in=True)
