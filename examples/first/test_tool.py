from tool import agent

import toolwright as tw


def test_the_words_are_counted_by_the_tool() -> None:
    turns = [{"calls": [{"name": "count_words", "args": {"text": "a b"}}]}, {"text": "Two."}]
    result = tw.run_sync(agent, "How many?", model=tw.testing.ScriptedModel(turns))
    assert result.calls[0].result == tw.ToolResult.ok(2)
