"""Plain text has the declared type, wherever it is set (D5)."""

from typing import Any

import pytest

import toolwright as tw
from tests.kit import calls, ran
from tests.runtime.rig import running
from toolwright.core.errors import DefinitionError, InvalidConfiguration, InvalidRequest
from toolwright.core.json_value import JSONObject
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

PLAIN = {"REGION": "eu-west-1", "TOKEN": "t-0123456789"}
DECLARED = [tw.Variable("REGION", required=False), tw.Variable("TOKEN", type="secret", required=False)]
TYPES = {"REGION": "text", "TOKEN": "secret"}


def telling(names: tuple[str, ...] = tuple(PLAIN)) -> tw.Tool:
    @tw.tool(description="Tell.", variables=DECLARED)
    async def tell(state: tw.ThreadState) -> dict[str, str | None]:
        return {name: await state.env_type(name) for name in names}

    return tell


def script() -> ScriptedModel:
    return ScriptedModel([calls("tell"), {"text": "Done."}])


@pytest.mark.parametrize("layer", ["app_env", "options", "prompt_options", "thread", "later"])
async def test_values_of_every_layer_are_of_the_declared_type(layer: str) -> None:
    options: dict[str, Any] = {}
    if layer not in ("thread", "later"):
        options[layer] = PLAIN if layer == "app_env" else {"env": PLAIN}
    async with running(script(), [telling()], **options) as rig:
        thread = await rig.rt.threads.create("tester", env=PLAIN if layer == "thread" else None)
        if layer == "later":
            assert await rig.rt.threads.set_env(thread.id, PLAIN) == TYPES
        run = await rig.rt.threads.send(thread.id, "Go")
        await rig.rt.runs.wait(run.id, 10)
        result = (await rig.transcript(thread.id))[2]
        assert result.content == '{"REGION":"text","TOKEN":"secret"}'


async def test_a_handlers_values_are_of_the_declared_type_unless_it_says_another() -> None:
    @tw.tool(description="Set.", variables=DECLARED)
    async def put(state: tw.ThreadState) -> str:
        state.set_env("REGION", "eu-west-1")
        state.set_env("TOKEN", "t-0123456789")
        state.set_env("OTHER", "o-0123456789")
        state.set_env("PLAIN", "p-0123456789", "text")
        return f"{await state.env('REGION')} {await state.env('TOKEN')} {await state.env('OTHER')}"

    async with running(ScriptedModel([calls("put"), {"text": "Done."}]), [put]) as rig:
        run = await rig.send()
        await rig.rt.runs.wait(run.id, 10)
        result = (await rig.transcript(run.thread_id))[2]
        assert result.content == "eu-west-1 [redacted:TOKEN] [redacted:OTHER]"
        assert await rig.rt.threads.env(run.thread_id) == {**TYPES, "OTHER": "secret", "PLAIN": "text"}


async def test_a_configured_agents_values_are_of_the_declared_type_and_the_same_again_is_no_change() -> None:
    app = tw.App(agents=[], tools=[telling()])
    config: dict[str, Any] = {
        "tools": [{"name": "tell", "env": {"REGION": "us"}}],
        "toolkits": [],
        "env": PLAIN,
    }
    async with tw.testing.runtime(app) as rt:
        first = (await rt.agents.save("scout", config)).agent
        again = (await rt.agents.save("scout", config)).agent
        assert first.revision == again.revision == 1
        active = await rt.agents.active("scout")
        assert {name: var.type for name, var in active.env[1].items()} == TYPES
        assert {name: var.type for name, var in active.tool_env["tell"].items()} == {"REGION": "text"}


OPEN: dict[str, JSONObject] = {"TOKEN": {"value": "t-0123456789", "type": "text"}}
REFUSED = r"env\.TOKEN is declared as a secret\."


@pytest.mark.parametrize("layer", ["app_env", "options", "prompt_options"])
async def test_a_declared_secret_cannot_be_defined_as_text(layer: str) -> None:
    options: dict[str, Any] = {layer: OPEN if layer == "app_env" else {"env": {**OPEN}}}
    with pytest.raises(DefinitionError, match=REFUSED):
        async with running(script(), [telling()], **options):
            pass


async def test_a_declared_secret_cannot_be_given_as_text_to_a_thread_or_an_agent() -> None:
    async with running(script(), [telling()]) as rig:
        with pytest.raises(InvalidRequest, match=REFUSED):
            await rig.rt.threads.create("tester", env=OPEN)
        assert await rig.rt.threads.list() == []
        thread = await rig.rt.threads.create("tester")
        with pytest.raises(InvalidRequest, match=REFUSED):
            await rig.rt.threads.set_env(thread.id, {**PLAIN, **OPEN})
        assert await rig.rt.threads.env(thread.id) == {}
    app = tw.App(agents=[], tools=[telling()])
    async with tw.testing.runtime(app) as rt:
        configs: list[JSONObject] = [
            {"tools": ["tell"], "toolkits": [], "env": {**OPEN}},
            {"tools": [{"name": "tell", "env": {**OPEN}}], "toolkits": []},
        ]
        for config in configs:
            with pytest.raises(InvalidConfiguration, match=REFUSED):
                await rt.agents.save("scout", config)


async def test_a_handler_cannot_set_a_declared_secret_as_text() -> None:
    @tw.tool(description="Set.", variables=DECLARED)
    async def put(state: tw.ThreadState) -> str:
        with pytest.raises(InvalidRequest, match=REFUSED):
            state.set_env("TOKEN", "t-0123456789", "text")
        assert await state.env("TOKEN") is None
        return "refused"

    async with running(ScriptedModel([calls("put"), {"text": "Done."}]), [put]) as rig:
        run = await rig.run()
        assert (await rig.transcript(run.thread_id))[2].content == "refused"
        assert await rig.rt.threads.env(run.thread_id) == {}


async def test_a_declared_secret_that_a_user_has_as_text_is_never_shown() -> None:
    @tw.tool(description="Tell.", variables=DECLARED)
    async def tell(state: tw.ThreadState) -> str:
        return f"The token is {await state.env('TOKEN')}."

    async with running(script(), [tell]) as rig:
        ada = await rig.rt.entities.create(display_name="Ada")
        await rig.rt.entities.set_env(ada.id, OPEN)
        run = await ran(rig.rt, "tester", user_id=ada.id)
        assert (await rig.transcript(run.thread_id))[2].content == "The token is [redacted:TOKEN]."


async def test_a_secret_that_models_would_be_shown_is_refused_wherever_it_is_given() -> None:
    refused: list[str] = []

    @tw.tool(description="Set.")
    async def put(state: tw.ThreadState) -> str:
        try:
            state.set_env("COMPANY", "Acme & Sons", "secret")
        except InvalidRequest as error:
            refused.append(error.message)
        state.set_env("COMPANY", None)
        return "Set."

    child = tw.Agent("child", tw.Prompt("child_prompt", "x"), expose_as_tool=True, tool_description="Help.")
    called: dict[str, Any] = {"name": "child", "immediate": {"nameEnv": "COMPANY"}, "optional": "WITH_CHILD"}
    model = ScriptedModel([calls("put"), {"text": "Done."}])
    leader = tw.Agent("leader", tw.Prompt("leader_prompt", "x", model=model, tools=[put, called]))
    secret = {"COMPANY": {"value": "Acme & Sons", "type": "secret"}}
    async with tw.testing.runtime(tw.App(agents=[leader, child])) as rt:
        with pytest.raises(InvalidRequest, match="shown to models"):
            await rt.threads.create("leader", env=secret)
        thread = await rt.threads.create("leader", env={"COMPANY": "Acme & Sons", "WITH_CHILD": "no"})
        assert await rt.threads.env(thread.id) == {"COMPANY": "text", "WITH_CHILD": "text"}
        with pytest.raises(InvalidRequest, match="shown to models"):
            await rt.threads.set_env(thread.id, secret)
        run = await rt.threads.send(thread.id, "Go")
        await rt.runs.wait(run.id, 10)
        assert refused == ["env.COMPANY is shown to models: store it as text, not as a secret."]
        assert await rt.threads.env(thread.id) == {"WITH_CHILD": "text"}
