"""Models that refuse requests that are too long, and invariants of every request of a conversation."""

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from hashlib import blake2b

from toolwright.adapters.motor.manual import START
from toolwright.core.errors import ContextTooLong
from toolwright.core.model import ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.compaction import (
    Compaction,
    SentPrompt,
    in_force,
    message_digest,
    message_tokens,
    shown,
    text_tokens,
)
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Usage
from toolwright.core.threads.state_report import as_sent, report_text, reported_parts
from toolwright.core.value import changed
from toolwright.runtime.context.conversation import arranged, prompted

Answering = Callable[[ModelRequest], ModelResponse]
Counting = Callable[[ModelRequest], int]


def prompt_of(request: ModelRequest) -> str:
    """Return what a request says beside its messages: the system text, and the agent's state as reported so far."""
    if request.state is None:
        return request.system
    last = Message(id="now", role="assistant", content="", state=request.state, created_at=START)
    parts = reported_parts([*request.messages, last], request.state.agent)
    return "\n\n".join([request.system, *[parts[name] for name in sorted(parts)]])


def sent_messages(request: ModelRequest) -> list[Message]:
    """Return the messages of a request with the reports of the agent's state, as its model is sent them."""
    return as_sent(request.messages, "" if request.state is None else request.state.agent)


def tokens_of(request: ModelRequest) -> int:
    """Return the tokens of a request, without its tools."""
    reported = 0 if request.state is None else text_tokens(report_text(request.state))
    return text_tokens(request.system) + reported + sum(message_tokens(each) for each in request.messages)


def all_tokens_of(request: ModelRequest) -> int:
    """Return the tokens of a request, with its tools."""
    tools = [[each.name, each.description, each.parameters] for each in request.tools]
    return tokens_of(request) + (len(json.dumps(tools, ensure_ascii=False)) // 4 if tools else 0)


def bytes_of(request: ModelRequest) -> int:
    """Return the approximate bytes of a request as a provider gets it."""
    reports = [each.state for each in (*request.messages, request) if each.state is not None]
    texts = [request.system, *[each.content for each in request.messages], *map(report_text, reports)]
    texts += [call.arguments for each in request.messages for call in each.calls]
    texts += [json.dumps([each.name, each.description, each.parameters]) for each in request.tools]
    return sum(len(text.encode()) + 40 for text in texts)


class Narrow:
    """A model that refuses requests longer than `limit`, measured by `counting`, and records the accepted ones."""

    def __init__(
        self,
        answer: Answering,
        *,
        limit: int,
        window: int | None = None,
        says: bool = True,
        name: str = "test:narrow",
        counting: Counting = tokens_of,
    ) -> None:
        self._answer, self.limit, self.says = answer, limit, says
        self._counting = counting
        self.window, self.name = window, name
        self.summary = "SUMMARY of what was said."
        self.requests: list[ModelRequest] = []
        self.refused = 0

    @property
    def summaries(self) -> list[ModelRequest]:
        """The requests for a summary."""
        return [each for each in self.requests if "summary" in each.who]

    @property
    def asked(self) -> list[ModelRequest]:
        """The requests of runs."""
        return [each for each in self.requests if "summary" not in each.who]

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        size = self._counting(request)
        if size > self.limit:
            self.refused += 1
            raise ContextTooLong("Too long.", *((self.limit, size) if self.says else ()))
        self.requests.append(request)
        tokens = all_tokens_of(request) if self._counting is bytes_of else size
        if "summary" in request.who:
            yield ModelResponse(text=self.summary, usage=Usage(input_tokens=tokens, output_tokens=9))
            return
        response = self._answer(request)
        yield changed(response, usage=Usage(input_tokens=tokens, output_tokens=5))


def echo(request: ModelRequest) -> ModelResponse:
    """Answer with the number of messages."""
    return ModelResponse(text=f"answer {len(request.messages)}", model="narrow")


def check_pairs(messages: Sequence[Message]) -> None:
    """Check that each call is directly followed by its result, and each result belongs to a call."""
    open_calls: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert message.call_id in open_calls
            open_calls.remove(message.call_id)
        else:
            assert open_calls == []
            open_calls = [call.id for call in message.calls]
    assert open_calls == []


def check_valid(messages: Sequence[Message]) -> None:
    """Check that a provider accepts it: it starts with a user and ends with one or a result; pairs are complete."""
    check_pairs(messages)
    assert messages and messages[0].role == "user"
    assert messages[-1].role != "assistant"


def digest_of(messages: Sequence[Message]) -> str:
    """Return the digest of a request's messages, computed again."""
    whole = blake2b(digest_size=16)
    for message in messages:
        whole.update(message_digest(message))
    return whole.hexdigest()


def check_rebuilt(prompts: Sequence[SentPrompt], requests: Iterable[ModelRequest]) -> None:
    """Check that each rebuilt prompt has the messages of a request that the model was sent."""
    sent = {digest_of(sent_messages(each)) for each in requests}
    assert prompts
    assert [each.step for each in prompts if digest_of(each.messages) not in sent] == []


def check_sent(
    messages: Sequence[Message], rows: Sequence[Compaction], requests: Iterable[ModelRequest] | None = None
) -> None:
    """Check, from the journal alone, the request of each answer in a conversation with one side.

    It is valid, and was compacted by a row that was committed before; each row was used. With `requests`, it is one of
    them.
    """
    asked = None if requests is None else {digest_of(each.messages) for each in requests}
    used: set[int] = set()
    for answer in messages:
        if answer.sent is None:
            continue
        assert answer.sent.compaction >= max(used, default=0)
        used.add(answer.sent.compaction)
        known = in_force([row for row in rows if row.number <= answer.sent.compaction])
        before = [each for each in messages if (each.seq or 0) < (answer.seq or 0)]
        sent = arranged(shown(before, known[-1] if known else None))
        sent = prompted(sent, sent[-1])
        check_valid(sent)
        assert asked is None or digest_of(sent) in asked
    assert used >= {row.number for row in rows}
