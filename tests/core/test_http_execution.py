"""The requests of HTTP tools: valid URLs and headers, and the values that are filled in (D13)."""

import json
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSONObject
from toolwright.core.tools.http.execution import (
    HttpExecution,
    HttpRequest,
    Method,
    property_names,
    request_for,
)
from toolwright.core.tools.http.url_template import Unfillable


def filled(url: str, arguments: JSONObject, method: Method = "GET", **env: str) -> HttpRequest:
    return request_for(HttpExecution(url=url, method=method), arguments, env)


def body_of(request: HttpRequest) -> bytes:
    assert request.body is not None
    return request.body.content


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("{scheme}://x/", "scheme, host, port or userinfo"),
        ("ftp://x/", "must begin with http"),
        ("file:///etc/passwd", "must begin with http"),
        ("/path", "must begin with http"),
        ("https://{host}/", "scheme, host, port or userinfo"),
        ("https://api.{region}.example.com/", "scheme, host, port or userinfo"),
        ("https://x:{port}/", "scheme, host, port or userinfo"),
        ("https://${env.USER}:${env.PASSWORD}@x/", "scheme, host, port or userinfo"),
        ("https://x{path}", "scheme, host, port or userinfo"),
        ("https://${env.HOST}/", "scheme, host, port or userinfo"),
        ("https://", "must have a host"),
        ("https://:80/", "must have a host"),
        ("https://x:99999/", "must have a host, and a port"),
        ("https://x:0/", "must have a host, and a port"),
        ("https://[::1/", "must have a host"),
        ("https://x/#part", "fragment"),
        ("https://x/a b", "blanks"),
        ("https://x\\@y/", "backslashes"),
        ("https://x/\n", "control characters"),
        ("https://x/{a", "brace"),
        ("https://x/a}", "brace"),
        ("https://x/{}", "without a name"),
        ("https://x/${KEY}", "must name a variable as ${env.NAME}"),
        ("https://x/${env.}", "printable"),
    ],
)
def test_urls_that_can_never_be_right_are_refused_with_the_reason(url: str, words: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        HttpExecution(url=url)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("Host", "x", "is set by Toolwright itself"),
        ("content-length", "1", "is set by Toolwright itself"),
        ("Transfer-Encoding", "chunked", "is set by Toolwright itself"),
        ("Connection", "close", "is set by Toolwright itself"),
        ("Idempotency-Key", "x", "is set by Toolwright itself"),
        ("Bad Name", "x", "is no name of a header"),
        ("X\r\nY", "x", "is no name of a header"),
        ("X", "a\r\nY: b", "line breaks"),
        ("X", "${KEY}", "must name a variable as ${env.NAME}"),
    ],
)
def test_headers_that_can_never_be_right_are_refused(name: str, text: str, words: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        HttpExecution(url="https://x/", headers=((name, text),))
    assert words in caught.value.message


def test_a_header_is_given_once() -> None:
    with pytest.raises(DefinitionError, match="given twice"):
        HttpExecution(url="https://x/", headers=(("X-A", "1"), ("x-a", "2")))


@pytest.mark.parametrize("method", ["TRACE", "OPTIONS", "get", "CONNECT"])
def test_methods_are_those_that_have_an_answer_to_read(method: Any) -> None:  # invalid on purpose
    with pytest.raises(DefinitionError, match="must be one of GET, HEAD, POST, PUT, PATCH, DELETE"):
        HttpExecution(url="https://x/", method=method)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_arguments_stand_in_the_query_of_get_and_delete(method: Method) -> None:
    arguments: JSONObject = {
        "id": "a/b ü",
        "q": "x&y=z",
        "tags": ["a", None, "b c", {"k": 1}],
        "deep": {"k": [1]},
        "yes": True,
        "no": False,
        "nothing": None,
        "n": 3,
        "f": 1.5,
    }
    request = filled("https://x/items/{id}?v=1", arguments, method)
    assert request.body is None
    parts = urlsplit(request.url)
    assert parts.path == "/items/a%2Fb%20%C3%BC"
    assert parse_qsl(parts.query, keep_blank_values=True) == [
        ("v", "1"), ("q", "x&y=z"), ("tags", "a"), ("tags", "b c"), ("tags", '{"k":1}'), ("deep", '{"k":[1]}'),
        ("yes", "true"), ("no", "false"), ("n", "3"), ("f", "1.5"),
    ]  # fmt: skip


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_arguments_are_the_body_of_the_others_but_for_those_in_the_url(method: Method) -> None:
    request = filled("https://x/{id}?q={q}", {"id": 7, "q": "a", "list": [1, None]}, method)
    assert request.url == "https://x/7?q=a"
    assert json.loads(body_of(request)) == {"list": [1, None]}
    assert body_of(filled("https://x", {}, method)) == b"{}"


def test_variables_are_filled_in_urls_and_headers() -> None:
    execution = HttpExecution(
        url="https://x/${env.TENANT}/a?key=${env.KEY}",
        headers=(("Authorization", "Bearer ${env.KEY}"), ("X-Json", '{"a": {b}}')),
        required=("MORE",),
    )
    assert execution.variables == ("TENANT", "KEY", "MORE")
    request = request_for(execution, {}, {"TENANT": "a b", "KEY": "k&1", "MORE": ""})
    assert request.url == "https://x/a%20b/a?key=k%261"
    assert request.headers == (("Authorization", "Bearer k&1"), ("X-Json", '{"a": {b}}'))


def test_a_header_never_holds_a_line_break() -> None:
    execution = HttpExecution(url="https://x/", headers=(("X-Key", "${env.KEY}"),))
    assert request_for(execution, {}, {"KEY": " k\n"}).headers == (("X-Key", "k"),)
    with pytest.raises(Unfillable) as caught:
        request_for(execution, {}, {"KEY": "secret\r\nHost: evil"})
    assert str(caught.value) == "The header 'X-Key' would hold a line break or another control character."


def test_a_parameter_for_which_there_is_nothing_is_left_out() -> None:
    url = "https://x/?a={a}&fixed=1&b=x{b}&c={c}"
    assert filled(url, {"a": None, "c": ""}).url == "https://x/?fixed=1&c="


@pytest.mark.parametrize(
    ("url", "value"),
    [
        ("https://x/a/{p}", ".."),
        ("https://x/a/{p}/b", "."),
        ("https://x/a/.{p}", "."),
        ("https://x/a/%2e{p}", "."),
        ("https://x/a/{p}", "../../b"),
        ("https://x/a/{p}", "b\\..\\c"),
        ("https://x/a/{p}", ""),
        ("https://x/a/{p}", None),
    ],
)
def test_a_filled_path_is_not_left(url: str, value: str | None) -> None:
    with pytest.raises(Unfillable, match="argument 'p'"):
        filled(url, {"p": value})
    if value is not None:
        with pytest.raises(Unfillable) as caught:
            filled(url.replace("{p}", "${env.p}"), {}, p=value)
        assert "variable 'p'" in str(caught.value)


def test_dots_within_a_segment_are_fine() -> None:
    assert filled("https://x/{p}", {"p": "a..b"}).url == "https://x/a..b"
    assert filled("https://x/v{p}", {"p": "..."}).url == "https://x/v..."
    assert filled("https://x/{p}", {"p": "%2e%2e"}).url == "https://x/%252e%252e"
    assert filled("https://x/a?p={p}", {"p": "../.."}).url == "https://x/a?p=..%2F.."


TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["..", ".", "/", "//evil.com", "@evil.com", "?x", "#x", "%2e%2e", "\\..", "..;/", "\r\nHost: x", "a/../b"]
)


@settings(max_examples=150, deadline=None)
@given(one=TEXT, two=TEXT, env=TEXT, more=st.dictionaries(TEXT, TEXT, max_size=3))
def test_a_filled_url_never_changes_its_origin_nor_leaves_its_path(
    one: str, two: str, env: str, more: dict[str, str]
) -> None:
    more = {name: text for name, text in more.items() if name not in ("one", "two")}
    execution = HttpExecution(
        url="https://u:p@api.example.com:8443/base/{one}/x-${env.E}?q={two}", method="GET"
    )
    try:
        request = request_for(execution, {"one": one, "two": two, **more}, {"E": env})
    except Unfillable:
        return
    assert request.url.isascii()
    parts = urlsplit(request.url)
    assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "u:p@api.example.com:8443", "")
    empty, base, first, second = parts.path.split("/")
    assert (empty, base) == ("", "base")
    assert (unquote(first), unquote(second)) == (one, f"x-{env}")
    assert not {".", ".."} & {unquote(segment) for segment in parts.path.split("/")}
    pairs = parse_qsl(parts.query, keep_blank_values=True, separator="&")
    assert pairs == [("q", two), *more.items()]


def test_the_names_of_a_schema_are_found_through_references_and_alternatives() -> None:
    schema: JSONObject = {
        "$defs": {"more": {"properties": {"c": {}}, "anyOf": [{"$ref": "#/$defs/more"}]}},
        "properties": {"a": {}},
        "oneOf": [{"properties": {"b": {}}}, {"$ref": "#/$defs/more"}, {"$ref": "#"}, {"$ref": "#"}],
    }
    assert property_names(schema) == {"a", "b", "c"}
