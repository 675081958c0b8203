"""Scripted answers of the newsroom's models."""

from toolwright.testing import ScriptedModel

GROWTH = "export default () => Math.round((430 / 380 - 1) * 100)"


def _call(name: str, /, **args: object) -> dict[str, object]:
    return {"name": name, "args": args}


SCRIPT = ScriptedModel(
    {
        "orchestrator": [
            {"when": "[Subagent: Nina]", "text": "Nina has added: a new line opens in spring."},
            {
                "calls": [
                    _call(
                        "subagent_create", agent="figures", name="Felix", message="How have ferries grown?"
                    ),
                    _call(
                        "subagent_create",
                        agent="headlines",
                        name="Nina",
                        message="What is new about ferries?",
                    ),
                ]
            },
            {"calls": [_call("article", message="Ferries have grown by 13 percent.")]},
            {"calls": [_call("title", message="Ferries have grown by 13 percent in two years.")]},
            {"text": "More Ferries Than Ever. They have grown by 13 percent; the news follow."},
        ],
        "figures": [
            {"calls": [_call("archive", name="Ferries"), _call("calculate", code=GROWTH)]},
            {"text": "Ferries have grown by 13 percent since 2022."},
        ],
        "headlines": [
            {"calls": [_call("news", about="ferries")]},
            {"text": "A new line opens in spring."},
        ],
        "writer": [{"text": "Ferries have grown by 13 percent in two years."}],
        "reviewer": [{"text": "Clear and short: print it."}],
        "title": [{"text": "More Ferries Than Ever"}],
    },
    name="scripted:newsroom",
)
