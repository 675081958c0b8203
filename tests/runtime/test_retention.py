"""Threads without activity for a long time are deleted, and the log reports it."""

import logging
from collections.abc import Sequence
from datetime import timedelta

import pytest

from tests.play import Drain, begun, committed, create_thread, later, leave, new_id, post
from toolwright.adapters.memory import MemoryCipher, MemoryFiles
from toolwright.core.agents.agent import home_thread_id_of
from toolwright.core.errors import DefinitionError
from toolwright.core.journal.store import Store
from toolwright.runtime.env import Environment, Keys
from toolwright.runtime.housekeeping import Housekeeper, RetentionPeriods
from toolwright.runtime.threads.deletion import Deletion
from toolwright.testing import ManualClock, ManualMotor, MemoryBus, MemoryStore
from toolwright.wiring.settings import Settings, read_duration

pytestmark = pytest.mark.anyio

DAYS = 86_400.0


def keeper(store: Store, days: float, **kept: timedelta | None) -> Housekeeper:
    """Return a housekeeper whose clock is that many days after the beginning."""
    clock = ManualClock(later(days * DAYS))
    motor, files = ManualMotor(store, clock), MemoryFiles()
    deletion = Deletion(store, motor.wake, MemoryBus(), files, clock, new_id)
    keys = Keys(store, Environment(MemoryCipher()), clock, new_id)
    return Housekeeper(store, motor, keys, files, clock, new_id, deletion, RetentionPeriods(**kept))


async def done(store: Store, thread_id: str, days: float) -> Drain:
    """Create a thread whose one run ended that many days after the beginning."""
    drain = await begun(store, thread_id)
    await drain.end(later(days * DAYS))
    wake = await store.wake(thread_id)
    assert wake is not None
    await committed(store, leave(thread_id, wake.gen))
    return drain


async def ids(store: Store) -> Sequence[str]:
    return [each.id for each in await store.threads()]


async def test_threads_are_deleted_so_long_after_their_last_run(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore(lambda _: None)
    await done(store, "th_old", 1)
    await done(store, "th_young", 5)
    await begun(store, "th_busy")
    await create_thread(store, "th_empty")
    with caplog.at_level(logging.INFO, logger="toolwright.runtime"):
        await keeper(store, 10, runs=timedelta(days=6)).sweep()
        assert await ids(store) == ["th_busy", "th_young"]
        await keeper(store, 10, runs=timedelta(days=6)).sweep()
    [line] = caplog.records
    assert line.getMessage() == (
        "Retention deleted 2 old events, 2 threads, 0 rows of deleted threads and 0 files."
    )


async def test_without_the_setting_every_thread_stays() -> None:
    store = MemoryStore(lambda _: None)
    await done(store, "th_old", 1)
    await keeper(store, 9_999, events=None).sweep()
    assert await ids(store) == ["th_old"]


async def test_what_is_waited_for_stays() -> None:
    store = MemoryStore(lambda _: None)
    drain = await begun(store, "th_late")
    await drain.answer(drain.call("pending"))
    await drain.end()
    woken = await begun(store, "th_woken")
    await woken.end()
    await keeper(store, 10, runs=timedelta(days=1)).sweep()
    assert await ids(store) == ["th_late", "th_woken"]


async def test_a_family_stays_until_the_youngest_of_it_is_old() -> None:
    store = MemoryStore(lambda _: None)
    await done(store, "th_1", 1)
    await create_thread(store, "th_2", parent_id="th_1")
    first = post("th_2")
    await committed(store, first)
    child = Drain(store, "th_2", first.run)
    await child.claim([first.event.event_id])
    await child.end(later(8 * DAYS))
    wake = await store.wake("th_2")
    assert wake is not None
    await committed(store, leave("th_2", wake.gen))
    await keeper(store, 10, runs=timedelta(days=4)).sweep()
    assert sorted(await ids(store)) == ["th_1", "th_2"]
    await keeper(store, 13, runs=timedelta(days=4)).sweep()
    assert await ids(store) == []


async def test_the_home_of_an_agent_is_never_too_old() -> None:
    store = MemoryStore(lambda _: None)
    home = home_thread_id_of("helper")
    await done(store, home, 1)
    await keeper(store, 99, runs=timedelta(days=1)).sweep()
    assert await ids(store) == [home]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("30d", timedelta(days=30)),
        ("12h", timedelta(hours=12)),
        ("90 m", timedelta(minutes=90)),
        ("3600s", timedelta(hours=1)),
        ("2W", timedelta(days=14)),
        ("forever", None),
    ],
)
def test_durations_are_written_as_one_says_them(written: str, meant: timedelta | None) -> None:
    assert read_duration(written) == meant
    assert Settings.model_validate({"retain_runs": written}).retain_runs == meant


@pytest.mark.parametrize("written", ["", "0", "-1d", "1y", "soon", "1.5d", "9" * 30, "999999999d", "١d"])
def test_what_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(DefinitionError, match="TOOLWRIGHT_RETAIN_RUNS is not valid"):
        Settings.model_validate({"retain_runs": written})


DURATIONS = [name for name, field in Settings.model_fields.items() if "timedelta" in str(field.annotation)]


@pytest.mark.parametrize("name", DURATIONS)
def test_a_duration_without_a_unit_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = f"TOOLWRIGHT_{name.upper()}"
    for written in ("90", " 7 ", "007"):
        monkeypatch.setenv(variable, written)
        number = written.strip()
        with pytest.raises(DefinitionError, match=f"{variable} .*a unit, such as {number}s or {number}d"):
            Settings()
    monkeypatch.setenv(variable, "90s")
    assert getattr(Settings(), name) == timedelta(seconds=90)
    monkeypatch.delenv(variable)
    assert getattr(Settings.model_validate({name: 90}), name) == timedelta(seconds=90)


def test_every_duration_is_found() -> None:
    assert {"retain_events", "retain_runs", "max_outage", "stop_delay"} <= {*DURATIONS}


def test_nothing_is_kept_for_less_than_no_time() -> None:
    with pytest.raises(DefinitionError):
        Settings(retain_events=timedelta(0))
