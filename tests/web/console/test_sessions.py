"""Cookies of the console's sessions."""

import pytest

from toolwright.runtime.spaces.entities import LONGEST_EXTERNAL_ID
from toolwright.testing import ManualClock
from toolwright.web.auth.access import Caller
from toolwright.web.console.sessions import Sessions


@pytest.mark.parametrize("letter", ["a", "é", "名", "🎉"])
def test_whoever_has_the_longest_name_in_any_script_can_sign_in(letter: str) -> None:
    sessions = Sessions(ManualClock(), ["sk"])
    caller = Caller(kind="person", entity_id="ent_1", external_id=letter * LONGEST_EXTERNAL_ID)
    session = sessions.begin(caller)
    back = sessions.read(sessions.seal(session))
    assert back is not None
    assert (back.id, back.caller.user_ids) == (session.id, caller.user_ids)
