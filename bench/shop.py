"""Ten typical tools of a shop: nested arguments, results of about 300 characters, the default timeout."""

from typing import Literal

from typing_extensions import TypedDict

import toolwright as tw

SYSTEM = (
    "You are the assistant of a shop for outdoor equipment. Answer in the customer's language, briefly and kindly. "
    "Look products up before you speak of them, name prices with their currency, and never promise a delivery date "
    "that no tool has told you. If a customer wants their money back, look at the order first."
)

NESTED = (
    '{"query":"waterproof hiking boots","filter":{"brands":["Lowa","Meindl"],"price":{"least":80.0,"most":249.5},'
    '"in_stock":true},"sort":"price","limit":10}'
)
"""Arguments of `find_products`: 151 characters, a list and an object in an object, floats."""

PRODUCTS: dict[str, object] = {
    "products": [
        {"id": "p-1841", "name": "Lowa Renegade GTX Mid", "price": 229.0, "stock": 14, "tags": ["boots"]},
        {"id": "p-2207", "name": "Meindl Borneo 2 MFS", "price": 249.5, "stock": 3, "tags": ["leather"]},
    ],
    "total": 2,
    "page": {"number": 1, "size": 10, "more": False},
    "currency": "EUR",
    "search": "waterproof hiking boots",
    "note": None,
}
"""The result of `find_products`: 304 characters of JSON."""


class Price(TypedDict, total=False):
    """Bounds in the shop's currency."""

    least: float
    most: float


class Filter(TypedDict, total=False):
    """A filter of products."""

    brands: list[str]
    price: Price
    in_stock: bool


@tw.tool
async def find_products(
    query: str, filter: Filter, sort: Literal["price", "name"] = "name", limit: int = 20
) -> dict[str, object]:
    """Find products by words and a filter."""
    return PRODUCTS


@tw.tool
async def search(query: str, limit: int = 10) -> str:
    """Search the answers to common questions."""
    return query


def _tool(name: str, description: str) -> tw.Tool:
    @tw.tool(name=name, description=description)
    async def work(id: str, options: Filter, notes: list[str], amount: float = 1.0) -> dict[str, object]:
        return {"id": id, "options": {**options}, "notes": [*notes], "amount": amount}

    return work


TOOLS = [
    find_products,
    search,
    _tool("get_product", "One product with all that is known of it."),
    _tool("compare_products", "What sets products apart."),
    _tool("get_order", "An order, its items and where it is."),
    _tool("find_orders", "The orders of a customer."),
    _tool("change_order", "Change an order that is not on its way yet."),
    _tool("refund", "Give money back for items of an order."),
    _tool("add_to_basket", "Put products into the customer's basket."),
    _tool("estimate_delivery", "When products could arrive."),
]
