"""Records of requests sent to models: the digests of a request, and the texts that they refer to."""

import json
from collections import OrderedDict
from dataclasses import dataclass

from toolwright.core.agents.agent import is_declared_id
from toolwright.core.agents.catalog import REQUESTS
from toolwright.core.model import ModelRequest, ToolDefinition
from toolwright.core.threads.compaction import VERSION, SentText, changes_of, text_digest
from toolwright.core.threads.message import Sent
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.conversation import Frame

KNOWN_TEXTS, KNOWN_TOOLS = 10_000, 100
KNOWN_LAST = 100  # threads whose last changing text is cached
MOST_CHANGES = 0.5  # maximum size of a stored difference to the previous text, as a share of the text
MOST_STEPS = 20  # maximum number of stored differences to read to rebuild a text


@dataclass(slots=True)
class _Last:
    """The last changing text of a thread, and the number of differences that it is built from."""

    digest: str
    lines: list[str]
    steps: int = 0
    is_kept: bool = False


class SentRecords:
    """Builds the records of requests. Caches which texts are in the journal, and the last sent tools."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._tools: OrderedDict[int, tuple[tuple[ToolDefinition, ...], str, str]] = OrderedDict()
        self._last: OrderedDict[str, _Last] = OrderedDict()

    def stored(self, frame: Frame) -> None:
        """Remember that the texts of the last request are in the journal."""
        for each in frame.texts:
            self._known[each.thread_id, each.digest] = None
            last = self._last.get(each.thread_id)
            if last is not None and last.digest == each.digest:
                last.is_kept = True
        frame.texts = ()
        while len(self._known) > KNOWN_TEXTS:
            self._known.popitem(last=False)

    def record(
        self,
        context: RunContext,
        frame: Frame,
        request: ModelRequest,
        tokens: int,
        budget: int | None,
        digest: str,
    ) -> None:
        """Set the record of a request, and the texts that it refers to if they can be missing from the journal."""
        system, tools, digests = frame.printed
        if system != request.system or tools is not request.tools:
            digests = self._texts(context, frame, request)
        row = frame.compaction(context.side) if frame.compactions else None
        frame.sent = Sent(
            hash=digest,
            system=digests[0],
            changing=digests[1],
            tools=digests[2],
            compaction=0 if row is None else row.number,
            version=VERSION,
            tokens=tokens or None,
            budget=budget,
        )

    def _texts(self, context: RunContext, frame: Frame, request: ModelRequest) -> tuple[str, str, str]:
        stable, changing = request.stable_system, request.changing_system
        tools, tools_digest = self.tools_text(request.tools)
        digests = text_digest(stable), text_digest(changing), tools_digest
        own, agent_id = context.thread.id, context.active.agent_id
        # A request brings its own system text, and an agent configured over HTTP can be deleted with all its texts.
        shared = "" if is_declared_id(agent_id) and context.thread.agent != REQUESTS.id else own
        texts = [(shared, digests[0], stable), (own, digests[1], changing), (shared, digests[2], tools)]
        frame.texts = tuple(
            [
                SentText(
                    thread_id=whose, digest=digest, text=text if n != 1 else self._in_short(own, digest, text)
                )
                for n, (whose, digest, text) in enumerate(texts)
                if text and (whose, digest) not in self._known
            ]
        )
        frame.printed = request.system, request.tools, digests
        return digests

    def _in_short(self, thread_id: str, digest: str, text: str) -> str:
        """Return the difference of a text to the previous one in its thread, or the text if that is not shorter.

        Recent channel messages are a part of each request, with only a few new lines each time.
        """
        last, stored = self._last.pop(thread_id, None), text
        this = self._last[thread_id] = _Last(digest, text.split("\n"))
        if len(self._last) > KNOWN_LAST:
            self._last.popitem(last=False)
        if last is not None and last.is_kept and last.steps < MOST_STEPS:
            changes = changes_of(text, last.digest, last.lines)
            if len(changes) < len(text) * MOST_CHANGES:
                stored, this.steps = changes, last.steps + 1
        return stored

    def tools_text(self, tools: tuple[ToolDefinition, ...]) -> tuple[str, str]:
        """Return the tools as JSON, and its digest. They are cached while the same tuple is sent."""
        if not tools:
            return "", ""
        cached = self._tools.get(id(tools))
        if cached is None or cached[0] is not tools:
            described = [[each.name, each.description, each.parameters] for each in tools]
            text = json.dumps(described, ensure_ascii=False)
            cached = tools, text, text_digest(text)
            self._tools[id(tools)] = cached
            if len(self._tools) > KNOWN_TOOLS:
                self._tools.popitem(last=False)
        return cached[1], cached[2]
