"""The routes of a gateway are those that its modules declare."""

from contextlib import nullcontext

from toolwright.adapters.system import SystemClock
from toolwright.web.gateway import open_gateway
from toolwright.web.options import GatewayOptions
from toolwright.web.routes import calls, threads


def test_gateways_share_their_routes_so_a_first_request_makes_none() -> None:
    options = GatewayOptions(clock=SystemClock())
    first, second = [open_gateway(lambda: nullcontext(), options).routes for _ in range(2)]  # type: ignore[arg-type, return-value]  # not opened
    for route in (*calls.router.routes, *threads.router.routes):
        assert any(route is one for one in first)
        assert any(route is one for one in second)
