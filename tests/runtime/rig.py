"""A runtime over a store with barriers, and invariants of every transcript."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import toolwright as tw
from tests import journals
from tests.idle_clock import IdleClockLoop
from tests.kit import ran, send_to
from toolwright.adapters.memory import MemoryCipher, MemoryFiles
from toolwright.adapters.system import SystemClock
from toolwright.core.agents.catalog import Catalog
from toolwright.core.journal.retention import Prune
from toolwright.core.journal.store import Store
from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.journal.units import Committed, Conflict, Unit
from toolwright.core.model import Model
from toolwright.core.ports import Cipher, FileStore
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.tools.function import FunctionExecutor
from toolwright.core.tools.pipeline import Executor
from toolwright.core.tools.tool import Kind
from toolwright.runtime.calls.execute import ABORT_GRACE
from toolwright.runtime.calls.plan import INLINE_EXECUTORS, InlineExecutor
from toolwright.runtime.runtime import Runtime
from toolwright.testing import EmbeddedMotor, MemoryBus, NoLock
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

GRACE = 0.2  # seconds that work in progress gets when the runtime stops; much of it never ends

Hook = Callable[[int, Unit], Awaitable[None]]


async def nothing(_: int, __: Unit) -> None:
    """Do nothing."""


@dataclass
class Barriers:
    """A store that calls hooks before and after every unit; units made by a hook itself are not counted."""

    inner: Store
    before: Hook = nothing
    after: Hook = nothing
    units: list[Unit] = field(default_factory=list[Unit])
    committed: list[Unit] = field(default_factory=list[Unit])
    _inside: bool = False

    async def commit(self, unit: Unit) -> Committed | Conflict:
        if self._inside or isinstance(unit, Prune):
            return await self.inner.commit(unit)
        n = len(self.units)
        self.units.append(unit)
        await self._call(self.before, n, unit)
        answer = await self.inner.commit(unit)
        if isinstance(answer, Committed):
            self.committed.append(unit)
        await self._call(self.after, n, unit)
        return answer

    async def _call(self, hook: Hook, n: int, unit: Unit) -> None:
        self._inside = True
        try:
            await hook(n, unit)
        finally:
            self._inside = False

    def __getattr__(self, name: str) -> Any:  # reads pass through
        return getattr(self.inner, name)

    @property
    def names(self) -> list[str]:
        """The committed units, by name, without housekeeping and without a unit in progress."""
        return [type(unit).__name__ for unit in self.committed]


@dataclass
class Rig:
    rt: Runtime
    store: Barriers

    async def send(self, content: str = "Go") -> Run:
        """Send a message to a new thread of the tester. Return its run."""
        return await send_to(self.rt, "tester", content)

    async def run(self, content: str = "Go") -> Run:
        """Send a message to a new thread of the tester. Return its run, once it has ended."""
        return await ran(self.rt, "tester", content)

    async def transcript(self, thread_id: str) -> Sequence[Message]:
        return await self.rt.threads.messages(thread_id, 1_000)


@asynccontextmanager
async def running(
    model: Model,
    tools: Sequence[tw.Tool | str] = (),
    *,
    max_steps: int = 50,
    max_seconds: float | None = None,
    store: Callable[[MemoryBus], Awaitable[Store]] | None = None,
    inline_wait: float = 1.0,
    prompts: Sequence[tw.Prompt] = (),
    agents: Sequence[tw.Agent] = (),
    options: Mapping[str, Any] | None = None,
    prompt_options: Mapping[str, Any] | None = None,
    app_env: Mapping[str, str] | None = None,
    settings: Settings | None = None,
    files: FileStore | None = None,
    cipher: Cipher | None = None,
    answer_limits: tuple[float, float] | None = None,
    inline_executors: Mapping[Kind, InlineExecutor] = INLINE_EXECUTORS,
    executors: Mapping[Kind, Executor] | None = None,
    abort_grace: float = ABORT_GRACE,
    telemetry: Telemetry | None = None,
    bus: MemoryBus | None = None,
) -> AsyncGenerator[Rig]:
    """Run an agent `tester` with that model and those tools.

    `options` and `prompt_options` are additional fields of the agent and its prompt. `prompts` and `agents` are
    further declarations of the app.
    """
    async with journals.opening() if store is None else nullcontext(store) as opening:
        bus = bus or MemoryBus()
        barriers = Barriers(await opening(bus))
        clock = SystemClock()
        # A clock that jumps from timer to timer would stop at each sweep.
        sweep = 5.0 if isinstance(asyncio.get_running_loop(), IdleClockLoop) else 0.02
        motor = EmbeddedMotor(barriers, clock, NoLock(), sweep=sweep)  # type: ignore[arg-type]  # reads go through
        prompt = tw.Prompt("tester", "You test.", model=model, tools=list(tools), **(prompt_options or {}))
        agent = tw.Agent(
            "tester", tw.Side(prompt, max_steps=max_steps, max_seconds=max_seconds), **(options or {})
        )
        parts = DefaultParts(
            store=barriers,  # type: ignore[arg-type]  # reads go through
            motor=motor,
            bus=bus,
            clock=clock,
            files=files or MemoryFiles(),
            cipher=cipher or MemoryCipher(),
            inline_executors=inline_executors,
            executors={"function": FunctionExecutor(), **(executors or {})},
            abort_grace=abort_grace,
            telemetry=telemetry,
        )
        chosen = settings or Settings(max_outage=timedelta(0))
        if answer_limits is not None:
            names = ("model_timeout", "model_request_timeout")
            limits = zip(names, [timedelta(seconds=each) for each in answer_limits], strict=True)
            chosen = chosen.model_copy(update=dict(limits))
        rt = Runtime(
            Catalog(agents=[agent, *agents], prompts=prompts, env=app_env), parts, chosen, inline_wait
        )
        await rt.start()
        try:
            yield Rig(rt, barriers)
        finally:
            await rt.stop(GRACE)


def assert_valid(messages: Sequence[Message]) -> None:
    """Check that the numbers have no gap, and that each call has exactly one result, directly after its message."""
    assert [message.seq for message in messages] == list(range(1, len(messages) + 1))
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert message.call_id == waiting.pop(0), "a result out of order, or of no call"
        else:
            assert not waiting, "a call without a result"
            waiting = [call.id for call in message.calls]
    assert not waiting, "a call without a result"
