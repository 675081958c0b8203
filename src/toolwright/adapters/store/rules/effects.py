"""Rules of all effects of a unit, in the order of locks.

Other threads by id, spaces by id, their contents, inboxes and timers, and finally the counter of space events.
"""

from collections.abc import Sequence

from toolwright.adapters.store.engine.outcome import EffectResult, placed
from toolwright.adapters.store.rules.children import FamilyEffect, add_nested_call, perform_child
from toolwright.adapters.store.rules.parts import deliver
from toolwright.core.journal.effects import AddNestedCall, Effect, deliveries_of
from toolwright.core.journal.rows import Add, Delete, Publish, Put, RowEffect, Rule
from toolwright.core.journal.space_effects import UNCHANGED, Post, SpaceEffect
from toolwright.core.journal.units import Unit
from toolwright.core.threads.event import Event


def perform(effects: Sequence[Effect], unit: Unit) -> Rule[EffectResult]:
    """Perform all effects, and number their events."""
    done = EffectResult()
    for delivery in deliveries_of(effects):
        yield from deliver(delivery, unit, done)
    events = yield from _in_spaces(effects, unit, done)
    for effect in effects:
        if isinstance(effect, FamilyEffect):
            yield from perform_child(effect, unit, done)
        elif isinstance(effect, RowEffect):
            yield from effect.rule(unit.at)
        elif isinstance(effect, AddNestedCall):
            yield from add_nested_call(effect, unit, done)
        elif isinstance(effect, Put | Add | Delete):
            yield effect
    events += yield from _in_spaces(done.shown, unit, done)
    if events:
        done.events += yield Publish(events=events, token=unit.token)
    return done


def _in_spaces(effects: Sequence[Effect], unit: Unit, done: EffectResult) -> Rule[list[Event]]:
    """Perform the effects on spaces and return their events."""
    in_spaces = [each for each in effects if isinstance(each, SpaceEffect)]
    events: list[Event] = []
    for effect in sorted(in_spaces, key=lambda each: each.space_id):
        seq = yield from effect.rule(unit.at)
        done.count += seq != UNCHANGED
        if isinstance(effect, Post):
            done.seq = seq
        events += placed(effect, seq, unit.at)
    return events
