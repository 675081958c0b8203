"""The routes of a gateway are the ones that its modules declare."""

import inspect
import re
import sys
import tokenize
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

from toolwright.adapters.system import SystemClock
from toolwright.web import routes
from toolwright.web.gateway import open_gateway
from toolwright.web.options import GatewayOptions
from toolwright.web.routes import calls, threads


def test_gateways_share_their_routes_so_a_first_request_makes_none() -> None:
    options = GatewayOptions(clock=SystemClock())
    first, second = [open_gateway(lambda: nullcontext(), options).routes for _ in range(2)]  # type: ignore[arg-type, return-value]  # not opened
    for route in (*calls.router.routes, *threads.router.routes):
        assert any(route is one for one in first)
        assert any(route is one for one in second)


COMPILER: Any = vars(re)["_compiler"]  # it has no public name


def test_a_first_request_compiles_no_patterns_of_the_tokenizer() -> None:
    """FastAPI reads the source of a route's function when it is first called; later Pythons need no patterns."""
    patterns: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name == "compile" and code.co_filename == COMPILER.__file__:
            patterns.append(str(frame.f_locals["p"]))

    re.purge()
    kept: Any = vars(tokenize).get("_compile")  # a cache of Python's own, up to 3.12
    if kept is not None:
        kept.cache_clear()
    open_gateway(lambda: nullcontext(), GatewayOptions(clock=SystemClock()))  # type: ignore[arg-type, return-value]  # not opened
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        inspect.getsourcelines(threads.get_thread)
    finally:
        sys.setprofile(before)
    assert patterns == []


def test_no_route_judges_a_caller_by_their_kind() -> None:
    """A caller's view is one property, and its permissions are in `permits`."""
    folder = Path(routes.__file__).parent
    for module in (*folder.glob("*.py"), folder.parent / "streams.py"):
        assert "caller.kind" not in module.read_text(encoding="utf-8"), module.name
