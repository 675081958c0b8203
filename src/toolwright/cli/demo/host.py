"""The demo's second agent: it lives in a space, and none of its tools is a function."""

import toolwright as tw

SYSTEM = "You book hotels. Look before you offer, ask before you book."
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
HOTEL = {"type": "object", "properties": {"hotel": {"type": "string"}}, "required": ["hotel"]}


def host(weather_url: str) -> tw.Agent:
    """The agent, whose weather comes from there."""
    weather = {
        "name": "current_weather",
        "description": "The weather in a city.",
        "inputSchema": CITY,
        "executionType": "gateway",
        "visible": False,
        "readOnly": True,
        "execution": {"url": weather_url, "method": "GET"},
    }
    hotels = {
        "name": "find_hotels",
        "description": "Hotels in a city.",
        "inputSchema": CITY,
        "executionType": "external",
        "visible": False,
        "readOnly": True,
    }
    confirm = {
        "name": "confirm_booking",
        "description": "Ask whether to book a hotel.",
        "inputSchema": HOTEL,
        "executionType": "space",
        "isAsync": True,
    }
    tools = [tw.Tool.from_config(each) for each in (weather, hotels, confirm)]
    return tw.Agent("host", tw.Prompt("host", SYSTEM, tools=tools), toolkits=["spaces"])
