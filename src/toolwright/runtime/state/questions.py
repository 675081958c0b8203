"""Questions that handlers ask while they run: to a person, or to the agent's model."""

from collections.abc import Sequence

from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.questions import check_question, elicited
from toolwright.core.state.state import ELICIT, SAMPLE, Elicited, Sampled, question, sampled, sampling
from toolwright.runtime.state.facts import Facts, NestedCalls


class Questions(Facts):
    """Asks questions with nested calls of the handler's call, recorded, shown and answered like any call."""

    __slots__ = ()

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
        return await self.ask(question(message, schema, url, source))

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

    async def ask(self, request: JSONObject) -> Elicited:
        """Ask a question that is already parsed. Raises `InvalidRequest` for an invalid schema."""
        check_question(request)
        with self._context.abort.clocks_paused():
            result = await self._calls.make(ELICIT, request, built_in=True)
        return elicited(request, result)
