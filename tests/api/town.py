"""A served runtime with two people. One of them has a thread with a suspended run, and a space of her own."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import toolwright as tw
from tests.api.rig import JSON, Api, read, serving
from tests.play import AT, dump
from tests.web.signing import SECRET, claims, signed
from toolwright.adapters.system import SystemClock
from toolwright.core.env.env import VariablesRequest
from toolwright.core.journal.child_effects import OpenRequest
from toolwright.core.journal.units import Apply
from toolwright.core.threads.child import Link
from toolwright.runtime.children.child import NewChildRows, birth_json
from toolwright.web.auth.person_tokens import ExpectedClaims, SharedSecret

SERVICE = {"x-secret-key": "sk"}


def person(name: Any, **more: Any) -> dict[str, str]:  # claims, any JSON
    """Return the headers of a person whose token has that claim."""
    return {"x-public-key": "pk", "authorization": f"Bearer {signed(claims(name, **more))}"}


ADA, BOB, UNKNOWN = (person(name) for name in ("user-ada", "user-bob", "user-nobody"))


@dataclass
class Town:
    """A served runtime that knows Ada and Bob; the thread, the run and the call are Ada's."""

    api: Api
    ids: dict[str, str]

    async def journal(self) -> dict[str, Any]:  # values of all kinds
        store: Any = self.api.rig.store  # reads pass through to the store
        rows = await dump(store)
        for thread in await store.threads(limit=1_000):
            wake = rows[thread.id]["wake"]
            rows[thread.id]["wake"] = wake and wake.gen  # a drain can recompute its due time
        return {**rows, "entities": list(await store.entities(limit=1_000))}

    async def get(self, path: str, headers: dict[str, str], status: int = 200, **params: Any) -> JSON:
        return read(await self.api.client.get(path, headers=headers, params=params or None), status)

    async def post(self, path: str, headers: dict[str, str], body: Any, status: int) -> JSON:
        return read(await self.api.client.post(path, headers=headers, json=body), status)

    async def stream_token(self, headers: dict[str, str]) -> str:
        return str((await self.post("/api/stream-tokens", headers, None, 200))["token"])


def asked_for_child(thread_id: str, agent_id: str) -> VariablesRequest:
    """Return a request of the thread for a child that starts when the request is answered."""
    birth = NewChildRows(
        thread_id="thr_child",
        parent_id=thread_id,
        agent_id=agent_id,
        name="Ann",
        message="Go",
        arguments={},
        user_id=None,
        depth=0,
        link=Link(),
    )
    return VariablesRequest(
        id="req_child", thread_id=thread_id, kind="child", agent="tester", required=(), child=birth_json(birth),
        created_at=AT,
    )  # fmt: skip


@asynccontextmanager
async def town(**options: Any) -> AsyncGenerator[Town]:
    """Serve a town with a secret key `sk`, a public key `pk` and tokens signed with `SECRET`, by default."""
    keys: dict[str, Any] = {
        "secret_keys": ("sk",),
        "public_keys": ("pk", "zweiter-ü"),
        "verify_token": SharedSecret(SECRET, ExpectedClaims(claim="sub"), SystemClock()),
    }
    async with serving(**{**keys, **options}) as api:
        people = api.rig.rt.entities
        ada, bob = [await people.create(external_id=name) for name in ("user-ada", "user-bob")]
        thread = await api.rig.rt.threads.create("tester", ada.id)
        file = tw.Attachment(name="note.txt", mime_type="text/plain", data="aGk=")
        run = await api.rig.rt.threads.send(thread.id, "Go", [file])
        await api.until(run.id, "run.waiting")
        [call] = await api.rig.rt.calls.list(run_id=run.id)
        agent = api.rig.rt.agents.declared[0]
        spaces = api.rig.rt.spaces
        configured = (await api.rig.rt.agents.save("ranger", {})).agent
        space = await spaces.create("Tea", members=[ada.id])
        said = (await spaces.say(space.id, ada.id, "Hello")).message
        await spaces.react(said.id, ada.id, "+1")
        client = await api.rig.rt.clients.register(ada.id, "Phone")
        request = asked_for_child(thread.id, agent.id)
        await api.rig.store.commit(
            Apply(token="request", at=AT, effects=(OpenRequest(thread_id=thread.id, request=request),))
        )
        ids = {
            "client_id": client.id,
            "space_id": space.id,
            "message_id": said.id,
            "path": "attachments/note.txt",
            "request_id": request.id,
            "event_id": "tr:x",
            "label": "mood",
            "reader_id": configured.id,
            **dict.fromkeys(("goal_id", "key", "plan_id", "passage_id", "server", "tool"), "none"),
            "thread_id": thread.id,
            "run_id": run.id,
            "call_id": call.id,
            "entity_id": bob.id,
        }
        yield Town(
            api, {**ids, "agent_id": agent.id, "configured_id": configured.id, "ada": ada.id, "bob": bob.id}
        )
