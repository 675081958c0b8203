"""Results that are JSON: they stay JSON after redaction, and an absent secret changes nothing (D6)."""

import json
from typing import Annotated

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.runtime.rig import running
from tests.runtime.test_env import finished, script
from toolwright.core.json_value import JSON

pytestmark = pytest.mark.anyio

KEY = "https://keys.test/a\u00fcb"
SPELLINGS = (
    r"https:\/\/keys.test\/a\u00fcb",
    r"https:\/\/keys.test\/a\u00FCb",
    r"\u0068ttps:/\/\u006bEYS.test/a\u00Fcb".replace("EYS", "eys"),
    r"\u0068\u0074\u0074\u0070\u0073\u003A\u002F\u002F\u006B\u0065\u0079\u0073.test\u002fa\u00fcb",
)


class Optional(BaseModel):
    """Declaration of the tools."""

    other: Annotated[str | None, tw.Secret] = None


def saying(result: JSON) -> tw.Tool:
    """Return a tool with that result."""

    @tw.tool(description="Say it.", tenvs=Optional)
    async def say() -> JSON:
        return result

    return say


FACTS: JSON = {"none": None, "on": True, "pin": 4711, "list": [None, 4711], "word": "null"}


@pytest.mark.parametrize("result", [FACTS, None, json.dumps(FACTS, indent=2), "null"])
async def test_an_optional_secret_that_is_none_hides_nothing(result: JSON) -> None:
    async with running(script("say"), [saying(result)]) as rig:
        thread = await rig.rt.threads.create("tester", tenvs={"other": None})
        run_id = await finished(rig, thread.id)
        [call] = await rig.rt.calls.list(run_id=run_id, status=None)
        assert call.result == {"status": "success", "result": result}
        message = (await rig.transcript(thread.id))[2]
        assert message.content == (
            result if isinstance(result, str) else json.dumps(result, separators=(",", ":"))
        )


@pytest.mark.parametrize("secret", ["null", "true", "4711", "1234567890"])
@pytest.mark.parametrize("written", [False, True])
async def test_a_json_result_stays_json_whatever_is_a_secret(secret: str, written: bool) -> None:
    facts: JSON = {"none": None, "on": True, "pin": 4711, "long": 1234567890, "word": f"x {secret}"}
    async with running(script("say"), [saying(json.dumps(facts, indent=1) if written else facts)]) as rig:
        thread = await rig.rt.threads.create("tester", tenvs={"other": secret})
        await finished(rig, thread.id)
        read = json.loads((await rig.transcript(thread.id))[2].content)
        long = "[redacted:other]" if secret == "1234567890" else 1234567890
        assert read == {"none": None, "on": True, "pin": 4711, "long": long, "word": "x [redacted:other]"}


@pytest.mark.parametrize("result", [None, True, 4711, [None, 4711]])
@pytest.mark.parametrize("secret", ["null", "true", "4711"])
async def test_a_result_that_is_a_number_or_a_literal_stays_what_it_is(result: JSON, secret: str) -> None:
    async with running(script("say"), [saying(result)]) as rig:
        thread = await rig.rt.threads.create("tester", tenvs={"other": secret})
        await finished(rig, thread.id)
        assert json.loads((await rig.transcript(thread.id))[2].content) == result


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_secret_is_found_in_every_spelling_that_json_has(spelling: str) -> None:
    text = f'{{"key": "{spelling}", "more": [1.50]}}'
    async with running(script("say", "say"), [saying(text)]) as rig:
        thread = await rig.rt.threads.create("tester", tenvs={"other": KEY})
        await finished(rig, thread.id)
        said = (await rig.transcript(thread.id))[2].content
        assert json.loads(said) == {"key": "[redacted:other]", "more": [1.5]}
        assert "keys.test" not in repr(await rig.rt.calls.list(status=None))
