"""Streams of answers: corrects chunks that deviate from OpenAI's chat completions, and reads bodies that are no stream.

Many servers speak the wire of OpenAI or Anthropic, and some send chunks that pydantic-ai misreads: they repeat a call's
name, number all calls alike, or count the tokens so far in each chunk. Others answer a request for a stream, with the
status 200, with the whole answer, with an error or with a page of HTML.
"""

import asyncio
import html
import re
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Protocol, cast

from pydantic_ai._model_errors import (  # pyright: ignore[reportPrivateImportUsage]  # as its own models use it
    stream_error,
)
from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponse as NativeResponse
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse

from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.text import brief

_MAX_KEPT = 16 * 1024 * 1024
"""Bytes of one event, and of a body without events that is read as an answer or an error."""
_LARGE = 256 * 1024  # characters of an event that take milliseconds to parse
_MARKUP = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>", re.DOTALL | re.IGNORECASE)
_ERRORS = ("error", "message", "detail")
_WIRES = ("OpenAIChatModel", "OpenAIResponsesModel", "AnthropicModel")
_CLASSES = {
    "chunk": ("openai.types.chat", "ChatCompletionChunk"),
    "OpenAIResponsesModel": ("openai.types.responses", "Response"),
    "AnthropicModel": ("anthropic.types.beta", "BetaMessage"),
}


class _Processing(Protocol):
    """The method of pydantic-ai's models that begins to read a stream."""

    async def __call__(self, response: Any, *args: Any, **options: Any) -> StreamedResponse: ...


def wire_of(model: Model) -> str | None:
    """Return the name of the class of pydantic-ai whose wire the model speaks, or None if it is another one."""
    # its SDK need not be installed
    return next((each.__name__ for each in type(model).__mro__ if each.__name__ in _WIRES), None)


def correct_streams(model: Model) -> None:
    """Read this model's streams, whatever its server deviates in. The model is changed: pass a copy."""
    wire = wire_of(model)
    if wire is None:
        return
    own: Any = model  # the methods are private
    own._process_streamed_response = partial(_read, model, wire, own._process_streamed_response)
    if wire == "AnthropicModel":
        own._create_message = partial(_create_message, own, own._create_message)


async def _create_message(model: Any, create: Any, client: Any, *args: Any) -> Any:
    """Send a request to Anthropic, whose first event is read at once: the decoder is set before.

    The client is pydantic-ai's copy for one request, as `max_retries` is among our settings.
    """
    if client is not model.client:
        client._make_sse_decoder = partial(_keeping, client._make_sse_decoder, model.model_name)
    return await create(client, *args)


def _keeping(make: Callable[[], Any], model: str) -> "Decoder":
    return Decoder(make(), model)


async def _read(
    model: Any, wire: str, process: _Processing, response: Any, *args: Any, **options: Any
) -> StreamedResponse:
    """Begin to read a stream of pydantic-ai's, or read the body if it has no event."""
    source = getattr(response, "source", response)  # of Anthropic
    decoder = getattr(source, "_decoder", None)
    if decoder is not None and not isinstance(decoder, Decoder):
        decoder = source._decoder = Decoder(decoder, model.model_name)
    is_chat = wire == "OpenAIChatModel"
    try:
        return await process(Chunks(response, model.model_name) if is_chat else response, *args, **options)
    except UnexpectedModelBehavior:
        answer = decoder.answer() if isinstance(decoder, Decoder) else None
        if answer is None:
            raise
    if is_chat:
        return await process(Chunks(_Whole(answer), model.model_name), *args, **options)
    parameters = next(each for each in args if isinstance(each, ModelRequestParameters))
    whole: NativeResponse = model._process_response(_sdk_value(wire, answer), *args)
    return CompletedStreamedResponse(whole, model_request_parameters=parameters, replay_events=True)


class Decoder:
    """Decoder of an SDK's stream that keeps the body up to the first event, and limits the size of each event."""

    def __init__(self, decoder: Any, model: str) -> None:
        self._decoder = decoder
        self._model = model
        self._body: bytearray | None = bytearray()
        self._size = 0  # bytes since the last event

    async def aiter_bytes(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        """Yield the events of the stream. Raises `ModelAPIError` for one that is too large."""
        async for event in self._decoder.aiter_bytes(self._kept(chunks)):
            self._body, self._size = None, 0
            if len(event.data) > _LARGE:  # others run between the decoding and the parsing
                await asyncio.sleep(0)
            yield event

    async def _kept(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for data in chunks:
            self._size += len(data)
            if (
                self._size > _MAX_KEPT
            ):  # the SDK copies all of them for each new chunk, and parses them at once
                raise ModelAPIError(
                    self._model, f"the server sent an event of more than {_MAX_KEPT // 1024**2} MiB"
                )
            if self._body is not None:
                self._body += data
            yield data

    def answer(self) -> JSONObject | None:
        """Return the whole answer in this body, or None if it is empty. Raises `ModelAPIError` for any other body."""
        text = (self._body or b"").decode(errors="replace").strip()
        if not text or text.startswith(":"):  # comments keep a connection open
            return None
        try:
            whole = parse_json(text)
        except NotJson:
            raise ModelAPIError(self._model, f"the server's answer is not a stream: {_plain(text)}") from None
        if not isinstance(whole, dict) or not whole.keys() & {"choices", "output", "content"}:
            raise _error(self._model, whole)
        return whole


class _Whole:
    """A chat completion that was not streamed, as a stream of one chunk."""

    def __init__(self, answer: JSONObject) -> None:
        for choice in _choices(answer):
            if not choice.get("finish_reason"):
                choice["finish_reason"] = "stop"  # the body is complete
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[Any]:
        yield _sdk_value("chunk", self._answer)

    async def close(self) -> None:
        """Do nothing: the response has been read."""


def _sdk_value(kind: str, fields: JSONObject) -> Any:
    """Return the value of the provider's SDK, which its model has loaded. Like the SDK, it accepts wrong fields."""
    module, name = _CLASSES[kind]
    return getattr(sys.modules[module], name).construct(**fields)


def _choices(answer: JSONObject) -> Sequence[JSONObject]:
    choices = answer.get("choices")
    return [each for each in choices if isinstance(each, dict)] if isinstance(choices, list) else []


def _error(model: str, body: JSON) -> ModelAPIError:
    """Return the error that a body is, with its message and code. Without a known code it is worth a retry."""
    fields = body if isinstance(body, dict) else {}
    error = next((fields[name] for name in _ERRORS if fields.get(name)), body)
    if isinstance(error, dict):
        message = error.get("message")
        return stream_error(model, message if isinstance(message, str) else dumps_unescaped(error), error)
    message = error if isinstance(error, str) else dumps_unescaped(error)
    return stream_error(model, message, {**fields, "message": message})


def _plain(page: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", _MARKUP.sub(" ", page)).strip())


class Chunks:
    """Chunks of a chat completion, corrected: each call has its own index and one name, usage is in the last chunk."""

    def __init__(self, source: Any, model: str) -> None:  # the SDK's stream
        self._source = source
        self._model = model
        self._usage: JSONObject = {}
        self._calls: list[_PartialCall] = []
        self._has_content = False

    async def close(self) -> None:
        """Close the stream."""
        await self._source.close()

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Yield the corrected chunks."""
        last: Any = None
        async for chunk in self._source:
            try:
                last = self._corrected(chunk)
            except (AttributeError, TypeError, KeyError) as error:  # the SDK accepts any JSON as a chunk
                raise ModelAPIError(
                    self._model, f"the server sent a chunk of another form: {brief(f'{chunk}', 200)}"
                ) from error
            yield last
        if self._usage:
            fields = last.model_dump(exclude={"choices", "usage"}, warnings=False)
            yield _sdk_value("chunk", {**fields, "choices": [], "usage": self._usage})

    def _corrected(self, chunk: Any) -> Any:
        self._correct_fields(chunk)
        if not chunk.choices:
            if isinstance(getattr(chunk, "message", None), str):  # an error without its envelope
                raise _error(self._model, chunk.model_dump(warnings=False))
            return chunk
        choice = chunk.choices[0]
        whole: Any = getattr(choice, "message", None)
        if isinstance(whole, dict) and choice.delta is None:
            chunk = self._with_delta(chunk, {} if self._has_content else cast(JSONObject, whole))
        elif getattr(choice.delta, "function_call", None) is not None:
            chunk = self._with_delta(chunk, choice.delta.model_dump())
        delta = chunk.choices[0].delta
        if delta is not None:
            for call in delta.tool_calls or ():
                self._correct_call(call)
            self._has_content |= bool(delta.content or self._calls)
        return chunk

    def _correct_fields(self, chunk: Any) -> None:
        chunk.id, chunk.model = _text(chunk.id), _text(chunk.model)
        if isinstance(chunk.created, bool) or not isinstance(chunk.created, int | float):
            chunk.created = 0
        if not isinstance(chunk.service_tier, str):
            chunk.service_tier = None
        if hasattr(chunk.usage, "model_dump"):
            self._usage = _larger(self._usage, chunk.usage.model_dump(warnings=False))
        chunk.usage = None

    def _with_delta(self, chunk: Any, delta: JSONObject) -> Any:
        """Return the chunk with this delta. A call of the older form, `function_call`, becomes a tool call."""
        fields = chunk.model_dump(warnings=False)
        legacy = delta.get("function_call")
        if isinstance(legacy, dict):
            delta = {**delta, "tool_calls": [{"index": 0, "type": "function", "function": legacy}]}
        choice = {key: each for key, each in fields["choices"][0].items() if key != "message"}
        fields["choices"][0] = {**choice, "delta": {**delta, "function_call": None}}
        return _sdk_value("chunk", fields)

    def _correct_call(self, delta: Any) -> None:
        function = delta.function
        name, written = (None, None) if function is None else (function.name, function.arguments)
        name = name if isinstance(name, str) else ""
        arguments = written if isinstance(written, str) or written is None else dumps_unescaped(written)
        call = self._call(delta.index, _text(delta.id), name, arguments)
        delta.id = call.take_id(_text(delta.id))
        delta.index = call.number
        if function is not None:
            function.name = call.take_name(name)
            function.arguments = call.take_arguments(arguments)

    def _call(self, index: object, id: str, name: str, arguments: str | None) -> "_PartialCall":
        """Return the call that this piece belongs to, which it can begin."""
        for call in reversed(self._calls):
            if (index is None or call.index == index) and (not id or call.id == id):
                latest = call
                break
        else:
            latest = next((each for each in reversed(self._calls) if index in (None, each.index)), None)
        if latest is None or latest.is_ended_by(index, id, name, arguments):
            latest = _PartialCall(len(self._calls), index)
            self._calls.append(latest)
        return latest


class _PartialCall:
    """One call of an answer, as far as it has arrived. `index` is the server's number of it."""

    def __init__(self, number: int, index: object) -> None:
        self.number = number
        self.index = index
        self.id = ""
        self._name = ""
        self._arguments: list[str] = []

    def is_ended_by(self, index: object, id: str, name: str, arguments: str | None) -> bool:
        """Return whether a piece begins another call: the ids decide if both have one, otherwise the arguments do."""
        if not name:
            return False
        if id and self.id:
            return id != self.id
        if index is None and name != self._name:
            return True
        return bool(arguments) and self._is_complete()

    def take_id(self, id: str) -> str | None:
        """Return the id to pass on: the first one."""
        if self.id or not id:
            return None
        self.id = id
        return id

    def take_name(self, name: str) -> str | None:
        """Return what a piece adds to the name. Some servers send the whole name, or the name so far, each time."""
        added = name.removeprefix(self._name) if self._name else name
        self._name += added
        return added or None

    def take_arguments(self, arguments: str | None) -> str | None:
        """Return what a piece adds to the arguments."""
        if arguments:
            self._arguments.append(arguments)
        return arguments

    def _is_complete(self) -> bool:
        written = "".join(self._arguments)
        if not written.rstrip().endswith("}"):
            return False
        try:
            parse_json(written)
        except NotJson:
            return False
        return True


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _larger(old: JSONObject, new: JSONObject) -> JSONObject:
    """Return the larger counts of both: each chunk has the tokens so far, in all or some of the fields."""
    merged = dict(old)
    for key, each in new.items():
        before = merged.get(key)
        if isinstance(each, dict):
            merged[key] = _larger(cast(JSONObject, before) if isinstance(before, dict) else {}, each)
        elif isinstance(each, int | float) and not isinstance(each, bool):
            merged[key] = max(before, each) if isinstance(before, int | float) else each
    return merged
