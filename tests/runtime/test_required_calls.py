"""`tool_choice="required"` is sent until the prompt has made a call in the run."""

import pytest

import toolwright as tw
from tests.kit import Watched, call
from tests.runtime.talk import talking

pytestmark = pytest.mark.anyio


@tw.tool(description="Look.")
async def look() -> str:
    return "seen"


def choices(model: Watched) -> list[str]:
    return [each.tool_choice for each in model.requests]


def prompt(model: Watched, name: str = "eye", **options: object) -> tw.Prompt:
    return tw.Prompt(name, "Look.", model=model, tools=[look], tool_choice="required", **options)  # type: ignore[arg-type]


async def test_a_required_call_is_required_once_in_each_run() -> None:
    model = Watched(
        [{"text": ""}, {**call("look"), "stop_reason": "max_tokens"}, call("look"), {"text": "Done."}]
    )
    async with talking(tw.App(agents=[tw.Agent("eye", prompt(model))]), "eye") as talk:
        run = await talk.say()
        assert (run.stop_reason, run.output) == ("end_turn", "Done.")
        assert choices(model) == ["required", "required", "required", "auto"]
        await talk.say()
        assert choices(model)[4] == "required"


async def test_a_prompt_tool_has_its_own_required_call() -> None:
    below = Watched([call("look"), {"text": "Seen."}])
    model = Watched([call("eye", message="Go"), {"text": "Done."}])
    app = tw.App(
        agents=[
            tw.Agent("boss", tw.Prompt("main", "Ask.", tools=["eye"], tool_choice="required", model=model))
        ],
        prompts=[prompt(below, tool_description="Looks.", expose_as_tool=True)],
    )
    async with talking(app, "boss") as talk:
        assert (await talk.say()).output == "Done."
    assert (choices(model), choices(below)) == (["required", "auto"], ["required", "auto"])
