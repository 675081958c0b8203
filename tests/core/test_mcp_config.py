"""Configurations of MCP servers: accepted values, and every error by its path."""

from typing import Any

import pytest
from tests.counting import calls_of_ours

import toolwright as tw
from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.mcp.config import declared_servers, read_servers
from toolwright.core.tools.http.url_template import Unfillable
from toolwright.core.tools.mcp import McpServer, McpToolOptions, target_of


def one(entry: object, *, trusted: bool = True) -> McpServer:
    [server] = read_servers([entry], "mcp.servers", trusted=trusted)
    assert isinstance(server, McpServer)
    return server


def test_the_configuration_of_the_document_is_read() -> None:
    server = one(
        {
            "name": "github-tools",
            "url": "https://mcp.github.com",
            "transport": "http",
            "allowedTools": ["list_prs", "create_issue"],
        },
        trusted=False,
    )
    assert (server.name, server.url, server.transport) == ("github-tools", "https://mcp.github.com", "http")
    assert server.allows("list_prs")
    assert not server.allows("delete_repository")
    assert not server.visible
    assert server.timeout == 30.0
    assert not server.trusted


def test_options_of_a_server_and_of_its_tools() -> None:
    server = one(
        {
            "name": "x",
            "url": "https://x",
            "visible": True,
            "timeout": 1500,
            "tools": {"a": {"visible": False, "timeout": 60000}},
            "sampling": True,
            "holdChanges": True,
        }
    )
    assert (server.visible, server.timeout, server.sampling, server.hold_changes) == (True, 1.5, True, True)
    assert server.options("a") == McpToolOptions(visible=False, timeout=60.0)
    assert server.options("b") == McpToolOptions()


@pytest.mark.parametrize(
    "given",
    [
        {"files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}}},
        {"servers": [{"name": "files", "command": "npx", "args": ["-y", "x"], "env": {"A": "1"}}]},
        [{"name": "files", "command": "npx", "args": ["-y", "x"], "env": {"A": "1"}}],
        [McpServer(name="files", transport="stdio", command="npx", args=("-y", "x"), env=(("A", "1"),))],
    ],
)
def test_servers_are_declared_by_name_or_as_a_list(given: object) -> None:
    [server] = declared_servers(given, "App")
    assert isinstance(server, McpServer)
    assert (server.name, server.transport, server.command) == ("files", "stdio", "npx")
    assert (server.args, server.env) == (("-y", "x"), (("A", "1"),))


def test_python_may_spell_the_fields_its_own_way() -> None:
    [server] = declared_servers(
        {"x": {"url": "https://x", "allowed_tools": ["a"], "hold_changes": True}}, "App"
    )
    assert isinstance(server, McpServer)
    assert (server.allowed_tools, server.hold_changes) == (frozenset({"a"}), True)


@pytest.mark.parametrize(
    ("entry", "path", "words"),
    [
        ({"url": "https://x"}, "name", "is required"),
        ({"name": "", "url": "https://x"}, "name", "must not be empty"),
        ({"name": "a\nb", "url": "https://x"}, "name", "line breaks"),
        ({"name": "x"}, "url", "is required"),
        ({"name": "x", "url": "ftp://x"}, "url", "must begin with http://"),
        ({"name": "x", "url": "https://x/{id}"}, "url", "placeholder {id}"),
        ({"name": "x", "url": "https://${env.HOST}/"}, "url", "placeholder in scheme"),
        ({"name": "x", "url": "https://x", "transport": "carrier-pigeon"}, "transport", "must be"),
        ({"name": "x", "url": "https://x", "revision": "2025-06-18"}, "revision", "must be '2025-11-25' or"),
        ({"name": "x", "url": "https://x", "revision": 2026}, "revision", "must be '2025-11-25' or"),
        ({"name": "x", "url": "https://x", "headers": {"Host": "y"}}, "headers.Host", "set by Toolwright"),
        ({"name": "x", "url": "https://x", "headers": {"A": "a\nb"}}, "headers.A", "line breaks"),
        ({"name": "x", "url": "https://x", "headers": {"A": "${B}"}}, "headers.A", "${env.NAME}"),
        ({"name": "x", "url": "https://x", "args": ["a"]}, "args", "only taken by a server on stdio"),
        ({"name": "x", "url": "https://x", "command": "ls", "transport": "http"}, "command", "only taken by"),
        ({"name": "x", "command": "ls", "url": "https://x"}, "url", "is not taken by a server on stdio"),
        ({"name": "x", "command": "ls", "headers": {"A": "b"}}, "headers", "give env"),
        ({"name": "x", "transport": "stdio"}, "command", "is required"),
        ({"name": "x", "command": "ls", "env": {"A=B": "c"}}, "env.A=B", "no variable"),
        ({"name": "x", "url": "https://x", "timeout": 0}, "timeout", "more than 0"),
        ({"name": "x", "url": "https://x", "allowedTools": [""]}, "allowedTools.0", "must not be empty"),
        ({"name": "x", "url": "https://x", "colour": "red"}, "colour", "is not a known field"),
        ("x" * 3, "", ""),
        (7, "", "must be an object"),
    ],
)
def test_errors_are_named_by_their_paths(entry: Any, path: str, words: str) -> None:
    if isinstance(entry, str):
        assert read_servers([entry], "mcp.servers", trusted=True) == [entry]
        return
    with pytest.raises(InvalidConfiguration) as caught:
        one(entry)
    [fault] = caught.value.details
    assert fault["path"] == f"mcp.servers.0{'.' if path else ''}{path}"
    assert words in fault["message"]


def test_two_servers_have_two_names() -> None:
    with pytest.raises(InvalidConfiguration, match="is the name of another server"):
        read_servers(
            [{"name": "x", "url": "https://x"}, {"name": "x", "url": "https://y"}], "mcp", trusted=True
        )


@pytest.mark.parametrize("given", ["x", 7, {"x": 7}, {"x": McpServer(name="y", url="https://y")}])
def test_what_is_no_server_is_refused_in_one_sentence(given: Any) -> None:
    with pytest.raises(InvalidConfiguration, match=r"^App: [^\n]*\.$"):
        tw.App(mcp=given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"notes": {"ulr": "https://x"}}, "App: mcp.notes.ulr is not a known field."),
        ({"notes": {"command": "npx", "args": "-y x"}}, "App: mcp.notes.args must be a list."),
        ({"mcpServers": {"notes": {"command": "npx"}}}, "App: mcp.mcpServers.notes is not a known field."),
        (
            {"notes": {"command": "npx", "revision": ""}},
            "App: mcp.notes.revision must be '2025-11-25' or '2026-07-28'.",
        ),
        ([{"name": "notes"}], "App: mcp.0.url is required."),
        ({"servers": [{"name": "notes"}]}, "App: mcp.servers.0.url is required."),
        ({"x": {"name": "y", "url": "https://x"}}, "App: the MCP server 'y' is declared as 'x'."),
    ],
)
def test_an_error_says_where_the_server_is_declared(given: Any, said: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        tw.App(mcp=given)
    assert caught.value.message == said


def test_an_agent_names_servers_of_the_app_or_brings_its_own() -> None:
    servers = {"a": {"url": "https://a"}, "b": {"url": "https://b"}}
    prompt = tw.Prompt("p", "x")
    agents = [
        tw.Agent("all", prompt),
        tw.Agent("none", prompt, mcp=[]),
        tw.Agent("one", prompt, mcp=["b"]),
        tw.Agent("own", prompt, mcp={"c": {"url": "https://c"}}),
    ]
    catalog = tw.App(agents=agents, mcp=servers).catalog
    named = {each.name: [server.name for server in catalog.active(each.id).mcp] for each in agents}
    assert named == {"all": ["a", "b"], "none": [], "one": ["b"], "own": ["c"]}


def test_a_server_that_the_app_does_not_have_is_refused() -> None:
    with pytest.raises(
        DefinitionError, match=r"names the MCP server 'git', which the app does not have\. It has: github"
    ):
        tw.App(agents=[tw.Agent("a", tw.Prompt("p", "x"), mcp=["git"])], mcp={"github": {"url": "https://x"}})


def test_what_a_server_needs_of_a_thread_its_agent_needs() -> None:
    server = {"url": "https://x/?u=${env.USER}", "headers": {"Authorization": "Bearer ${env.TOKEN}"}}
    app = tw.App(agents=[tw.Agent("a", tw.Prompt("p", "x"))], mcp={"x": server})
    [agent] = app.catalog.agents
    assert [each.name for each in app.catalog.active(agent.id).variables] == ["TOKEN", "USER"]


def test_a_target_has_the_values_and_its_words_do_not() -> None:
    server = one({"name": "x", "url": "https://x/?u=${env.USER}", "headers": {"A": "Bearer ${env.TOKEN}"}})
    target = target_of(server, {"USER": "a b", "TOKEN": "s3cret-token"})
    assert (target.url, target.headers) == ("https://x/?u=a%20b", (("A", "Bearer s3cret-token"),))
    assert "s3cret" not in repr(target)
    assert target.key != target_of(server, {"USER": "a b", "TOKEN": "another"}).key
    with pytest.raises(Unfillable, match="control character") as caught:
        target_of(server, {"USER": "a", "TOKEN": "s3cret\r\nX: y"})
    assert "s3cret" not in str(caught.value)


def test_what_reads_configurations_is_made_once_for_a_thousand_servers() -> None:
    servers = [{"name": f"server_{number}", "url": "https://x"} for number in range(1_000)]
    with calls_of_ours() as entered:
        assert len(read_servers(servers, "mcp.servers", trusted=False)) == 1_000
    assert entered.count("_form") <= 1


def test_a_connection_is_shared_only_by_those_for_whom_the_same_values_are_secrets() -> None:
    server = McpServer(name="notes", url="https://x/${env.KEY}")
    values = {"KEY": "k-12345678"}
    plain, secret, again = [target_of(server, values, frozenset(each)) for each in ("", ["KEY"], ["KEY"])]
    assert plain.key != secret.key
    assert again.key == secret.key
