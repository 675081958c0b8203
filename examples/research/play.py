"""Plays the newsroom: a question, an answer, and the key that one of the researchers requests over HTTP.

Serve it first, with `toolwright serve app:app`; then `python play.py`, with another server's address if it has one.
"""

import asyncio
import json
import sys

from toolwright.client import Client


async def play(address: str) -> None:
    async with Client(address) as client:
        thread = await client.threads.create("orchestrator")
        sent = await client.threads.send(thread.id, "How are ferries doing?")
        await client.runs.wait(sent.run_id, timeout=60)
        results = [message for message in await client.threads.messages(thread.id) if message.role == "tool"]
        asked = json.loads(results[1].content)
        print("Missing:", ", ".join(asked["missing"]), "for", asked["error_code"])
        await client.requests.answer(thread.id, asked["requestId"], {"NEWS_KEY": "a-key-of-my-own"})
        print("Given: the researcher begins.")
        async for event in client.threads.follow(thread.id, after=0):
            if event.type == "run.completed" and await told(client, thread.id):
                break
        for message in await client.threads.messages(thread.id):
            print(f"{message.role:>9}: {message.content[:200]}")


async def told(client: Client, thread_id: str) -> bool:
    """Return whether the orchestrator has passed on the second researcher's findings."""
    return "Nina has added" in (await client.threads.messages(thread_id))[-1].content


if __name__ == "__main__":
    asyncio.run(play(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"))
