"""A loop of your own that stays short: old results become references, and a tool of the loop opens them again.

`python long_loop.py` runs offline: a script takes the place of the model.
"""

import asyncio
from typing import Any

import toolwright as tw

TASK = "Read all pages."
KEPT, LONG = 3, 400  # newest results that stay whole, and characters from which a result is shortened

READ_RESULT = {
    "name": "read_result",
    "description": "Read the whole result of an earlier call.",
    "input_schema": {
        "type": "object",
        "properties": {"tool_use_id": {"type": "string"}},
        "required": ["tool_use_id"],
    },
}


@tw.tool(read_only=True)
def page(number: int) -> str:
    """A page of the archive."""
    return f"Page {number}: " + f"line of page {number}. " * 200


app = tw.App(agents=[tw.Agent("archivist", instructions="Read.", tools=[page])])


def shorten(messages: list[dict[str, Any]], results: dict[str, str]) -> list[dict[str, Any]]:
    """Return the messages with references in place of all but the newest long results, which `results` keeps."""
    shown: list[dict[str, Any]] = []
    newer = 0
    for message in reversed(messages):
        if message["role"] == "user" and message["content"] != TASK:
            newer += 1
            [block] = message["content"]
            text: str = block["content"][0]["text"]
            if newer > KEPT and len(text) > LONG:
                results[block["tool_use_id"]] = text
                note = (
                    f"[{len(text)} characters, no longer shown. Call read_result to read them.] {text[:80]}"
                )
                short: dict[str, Any] = {**block, "content": [{"type": "text", "text": note}]}
                message = {"role": "user", "content": [short]}
        shown.append(message)
    return shown[::-1]


async def main() -> None:
    """Read twenty pages, then the first one again."""
    results: dict[str, str] = {}
    async with app.runtime(tw.Settings(database_url="memory://")) as rt:
        toolkit = rt.toolkit("archivist")
        messages: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
        for number in range(1, 21):
            messages = shorten(messages, results)
            # Here you would ask a model, with messages and [*toolkit.definitions, READ_RESULT]. This is its answer:
            use = {"type": "tool_use", "id": f"use_{number}", "name": "page", "input": {"number": number}}
            result = await toolkit.handlers["page"](use["input"])
            messages.append({"role": "assistant", "content": [use]})
            block = {"type": "tool_result", "tool_use_id": use["id"], **result}
            messages.append({"role": "user", "content": [block]})
    print(len(str(messages)), "characters; the first page has", len(results["use_1"]))


if __name__ == "__main__":
    asyncio.run(main())
