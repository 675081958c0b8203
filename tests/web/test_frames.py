"""A frame is made once."""

from dataclasses import replace
from datetime import UTC, datetime

from toolwright.core.threads.event import Event
from toolwright.web.answers import KEPT, Frames

event = Event(
    thread_id="t", run_id=None, agent="a", type="x", payload={}, at=datetime(2026, 1, 1, tzinfo=UTC), n=1
)


def test_a_recorded_event_is_known_by_its_number_and_a_live_one_by_being_the_same() -> None:
    frames = Frames()
    live = replace(event, n=None)
    assert frames.of(event) is frames.of(replace(event))
    assert frames.of(live) is frames.of(live)
    assert frames.of(live) == frames.of(replace(live))


def test_old_frames_are_forgotten() -> None:
    frames = Frames()
    first = frames.of(event)
    for n in range(2, KEPT + 2):
        frames.of(replace(event, n=n))
    assert frames.of(event) == first
    assert frames.of(event) is not first


def test_frames_of_other_names_are_others() -> None:
    said = replace(event, type="agent.active", space_id="tea")
    ours, theirs = Frames("s3"), Frames("s4")
    for _ in range(2):
        assert b'"type":"agent.active"' in ours.of(said)
        assert b'"type":"agent_typing"' in theirs.of(said)
        assert b'"channelId":"tea"' in theirs.of(said)
    assert ours.of(event) == theirs.of(event)  # no space is in it
