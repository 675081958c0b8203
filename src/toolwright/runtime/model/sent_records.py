"""Records of what models were sent: the digests of a request, and the texts that they refer to."""

import json
from collections import OrderedDict

from toolwright.core.agents.catalog import REQUESTS
from toolwright.core.model import ModelRequest, ToolDefinition
from toolwright.core.threads.compaction import VERSION, SentText, text_digest
from toolwright.core.threads.message import Sent
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.frame import Frame

KNOWN_TEXTS, KNOWN_TOOLS = 10_000, 100


class SentRecords:
    """Makes the records of requests. It knows which texts are in the journal, and the tools that were sent last."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._tools: OrderedDict[int, tuple[tuple[ToolDefinition, ...], str, str]] = OrderedDict()

    def kept(self, frame: Frame) -> None:
        """Remember that the texts of the last request are in the journal."""
        for each in frame.texts:
            self._known[each.thread_id, each.digest] = None
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
        """Set the record of a request, and the texts that it refers to if they may not be in the journal."""
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
        own = context.thread.id
        shared = own if context.thread.agent == REQUESTS.id else ""  # a request brings its own system text
        texts = [(shared, digests[0], stable), (own, digests[1], changing), (shared, digests[2], tools)]
        frame.texts = tuple(
            [
                SentText(thread_id=whose, digest=digest, text=text)
                for whose, digest, text in texts
                if text and (whose, digest) not in self._known
            ]
        )
        frame.printed = request.system, request.tools, digests
        return digests

    def tools_text(self, tools: tuple[ToolDefinition, ...]) -> tuple[str, str]:
        """Return the tools as JSON, and its digest. They are kept as long as the same tuple is sent."""
        if not tools:
            return "", ""
        known = self._tools.get(id(tools))
        if known is None or known[0] is not tools:
            described = [[each.name, each.description, each.parameters] for each in tools]
            text = json.dumps(described, ensure_ascii=False)
            known = tools, text, text_digest(text)
            self._tools[id(tools)] = known
            if len(self._tools) > KNOWN_TOOLS:
                self._tools.popitem(last=False)
        return known[1], known[2]
