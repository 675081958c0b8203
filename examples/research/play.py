"""Plays the newsroom through: a question, an answer, and the key that one of the researchers asks for over HTTP.

Serve it first, with `toolwright serve app:app`; then `python play.py`, with another server's address if it has one.
"""

import asyncio
import json
import sys

import httpx


async def play(base_url: str) -> None:
    async with httpx.AsyncClient(base_url=base_url, timeout=30) as http:
        thread = (await http.post("/api/threads", json={"agentId": "orchestrator"})).json()["threadId"]
        await ask(http, thread, "How are ferries doing?")
        results = [m for m in await messages(http, thread) if m["role"] == "tool"]
        asked = json.loads(results[1]["content"])
        print("Missing:", ", ".join(asked["missing"]), "for", asked["error_code"])
        given = await http.post(asked["variablesEndpoint"], json={"env": {"NEWS_KEY": "a-key-of-my-own"}})
        print("Given:", given.json()["status"])
        while not [m for m in await messages(http, thread) if "Nina has added" in m["content"]]:
            await asyncio.sleep(0.1)
        for message in await messages(http, thread):
            print(f"{message['role']:>9}: {message['content'][:100]}")


async def ask(http: httpx.AsyncClient, thread: str, content: str) -> None:
    """Send a message and wait until its run is over."""
    sent = (await http.post(f"/api/threads/{thread}/messages", json={"content": content})).json()
    while (await http.get(f"/api/runs/{sent['runId']}")).json()["run"]["status"] not in (
        "completed",
        "failed",
    ):
        await asyncio.sleep(0.1)


async def messages(http: httpx.AsyncClient, thread: str) -> list[dict[str, str]]:
    return (await http.get(f"/api/threads/{thread}/messages")).json()["messages"]


if __name__ == "__main__":
    asyncio.run(play(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"))
