"""Scripted answers of the office's agents: the first turn of an agent's list whose `when` fits the last message."""

import json
import re
from collections.abc import AsyncGenerator

import toolwright as tw
from toolwright.testing import ScriptedModel

LAST_MESSAGE = "the id of the last message in the prompt"


def _turn(when: str, *calls: tuple[str, dict[str, object]]) -> dict[str, object]:
    return {"when": when, "calls": [{"name": name, "args": args} for name, args in calls]}


def _say(channel: str, text: str) -> tuple[str, dict[str, object]]:
    return "send_message", {"channelId": channel, "text": text}


SILENT = "do_nothing", dict[str, object]()
DONE: dict[str, object] = {"text": "That is all."}
SCRIPT: dict[str, list[dict[str, object]]] = {
    "michael": [
        _turn("theme", _say("general", "Space! I shall be an astronaut.")),
        _turn("Really?", _say("dm-michael-jim", "With a helmet.")),
        _turn("lend you", _say("dm-michael-jim", "You are a true friend.")),
        _turn("Meredith", SILENT),
        DONE,
    ],
    "jim": [
        _turn(
            "theme",
            ("react_to_message", {"messageId": LAST_MESSAGE, "emoji": "🚀"}),
            _say("dm-michael-jim", "Really?"),
        ),
        _turn("helmet", _say("dm-michael-jim", "I can lend you a bigger one.")),
        _turn("Meredith", SILENT),
        DONE,
    ],
    "dwight": [_turn("theme", SILENT), _turn("Meredith", SILENT), DONE],
    "angela": [
        _turn('"passages"', _say("general", "Anything but peanuts. I wrote it down.")),
        _turn("theme", _say("general", "No costumes. There is cake at four.")),
        _turn(
            "Meredith is",
            ("store_memory", {"content": "Meredith is allergic to peanuts.", "tags": ["party"]}),
            ("update_memory", {"label": "mood", "content": "Watchful: no peanuts near the cake."}),
        ),
        _turn("Meredith eat", ("search_memory", {"query": "meredith"})),
        DONE,
    ],
}


class Script:
    """A scripted model that can refer to the last message that its agent has read."""

    name = "scripted:office"

    async def respond(self, request: tw.model.ModelRequest) -> AsyncGenerator[tw.model.ModelEvent]:
        said = "\n".join([each.content for each in request.messages])
        if request.state is not None:  # what was said in a channel since the agent was last asked
            said = "\n".join([said, *request.state.parts.values()])
        message_ids = re.findall(r"messageId: (\w+)", said) or [""]
        script = json.loads(json.dumps(SCRIPT).replace(LAST_MESSAGE, message_ids[-1]))
        async for event in ScriptedModel(script, name=self.name).respond(request):
            yield event
