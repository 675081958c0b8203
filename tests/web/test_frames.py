"""A frame is encoded once."""

from dataclasses import replace
from datetime import UTC, datetime

from toolwright.core.threads.event import Event
from toolwright.web.answers import MAX_FRAMES, Frames

event = Event(
    thread_id="t", run_id=None, agent="a", type="x", payload={}, at=datetime(2026, 1, 1, tzinfo=UTC), n=1
)


def test_a_recorded_event_is_known_by_its_number_and_a_live_one_by_being_the_same() -> None:
    frames = Frames()
    live = replace(event, n=None)
    assert frames.frame(event) is frames.frame(replace(event))
    assert frames.frame(live) is frames.frame(live)
    assert frames.frame(live) == frames.frame(replace(live))


def test_old_frames_are_forgotten() -> None:
    frames = Frames()
    first = frames.frame(event)
    for n in range(2, MAX_FRAMES + 2):
        frames.frame(replace(event, n=n))
    assert frames.frame(event) == first
    assert frames.frame(event) is not first


def test_frames_of_other_names_are_others() -> None:
    said = replace(event, type="agent.active", space_id="tea")
    ours, theirs = Frames("s3"), Frames("s4")
    for _ in range(2):
        assert b'"type":"agent.active"' in ours.frame(said)
        assert b'"type":"agent_typing"' in theirs.frame(said)
        assert b'"channelId":"tea"' in theirs.frame(said)
    assert ours.frame(event) == theirs.frame(event)  # it contains no space
