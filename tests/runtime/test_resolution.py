"""Values over random thread trees, compared with a naive model (D5)."""

import asyncio
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.conformance.test_entities import human, save
from tests.play import AT, token
from toolwright.adapters.memory import MemoryCipher
from toolwright.adapters.system import SystemClock
from toolwright.core.agents.catalog import Catalog
from toolwright.core.env.env import EnvChange, EnvVar
from toolwright.core.journal.units import CreateThread
from toolwright.core.threads.child import Link
from toolwright.core.threads.thread import Thread
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.env import Environment
from toolwright.runtime.threads.thread_tree import Lineages
from toolwright.testing import MemoryStore
from toolwright.wiring.lazy import NamedModels

NAMES = ("A", "B")
names = st.sets(st.sampled_from(NAMES))


@dataclass
class Node:
    """A thread: its parent, its agent, and the names for which it has a value."""

    parent: int | None
    agent: int
    own: Set[str]


@dataclass
class World:
    nodes: Sequence[Node]
    scoped: Sequence[Set[str]]
    agents: Sequence[Set[str]]
    prompts: Sequence[Set[str]]
    app: Set[str]
    user: Set[str]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    kinds = draw(st.integers(1, 3))
    size = draw(st.integers(1, 6))
    nodes = [
        Node(None if n == 0 else draw(st.integers(0, n - 1)), draw(st.integers(0, kinds - 1)), draw(names))
        for n in range(size)
    ]
    each = st.lists(names, min_size=kinds, max_size=kinds)
    return World(nodes, draw(each), draw(each), draw(each), draw(names), draw(names))


def naive(world: World, place: int, name: str) -> str | None:
    """Look up in the thread, its ancestors up to one that blocks, user, app, agent, prompt."""
    at: int | None = place
    while at is not None:
        node = world.nodes[at]
        if name in node.own:
            return f"thread {at}"
        at = None if name in world.scoped[node.agent] else node.parent
    agent = world.nodes[place].agent
    layers = {
        "user": world.user,
        "app": world.app,
        f"agent {agent}": world.agents[agent],
        f"prompt {agent}": world.prompts[agent],
    }
    return next((layer for layer, having in layers.items() if name in having), None)


def catalog(world: World) -> Catalog:
    def agent(n: int) -> tw.Agent:
        scoped = [tw.Variable(name, scoped=True, required=False) for name in sorted(world.scoped[n])]
        env = dict.fromkeys(world.prompts[n], f"prompt {n}")
        prompt = tw.Prompt(f"prompt{n}", "x", variables=scoped, env=env)
        return tw.Agent(f"agent{n}", prompt, env=dict.fromkeys(world.agents[n], f"agent {n}"))

    return Catalog(agents=[agent(n) for n in range(len(world.scoped))], env=dict.fromkeys(world.app, "app"))


async def check(world: World) -> None:
    store, numbers = MemoryStore(lambda _: None), count()
    environment = Environment(MemoryCipher())
    made = catalog(world)
    agents = Agents(
        store, made, environment, NamedModels(), SystemClock(), lambda prefix: f"{prefix}_{next(numbers)}"
    )

    def value(owner: str, name: str, text: str) -> EnvChange:
        return environment.change(owner, name, EnvVar(value=text, type="text"), AT)

    await store.commit(save(human(1)))
    threads: list[Thread] = []
    for n, node in enumerate(world.nodes):
        thread = Thread(
            id=f"thr_{n}",
            agent=made.agent(f"agent{node.agent}").id,
            user_id="ent_1",
            parent_id=None if node.parent is None else f"thr_{node.parent}",
            link=None if node.parent is None else Link(),
            created_at=AT,
        )
        own = [value(thread.id, name, f"thread {n}") for name in node.own]
        users = [value("ent_1", name, "user") for name in world.user] if n == 0 else []
        await store.commit(CreateThread(token=token(), at=AT, thread=thread, env=(*own, *users)))
        threads.append(thread)
    lineages = Lineages(store, agents, environment)
    for n, thread in enumerate(threads):
        env = await lineages.env(thread, made.find(thread.agent))
        for name in NAMES:
            found = env.get(name)
            assert (None if found is None else found.value) == naive(world, n, name), (n, name)


@requirement("S0-3-5", "S0-3-6")
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_every_thread_of_a_tree_has_the_value_that_the_model_says(world: World) -> None:
    asyncio.run(check(world))
