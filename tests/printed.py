"""Examples printed in S1: its tools, the call of one, and the composed schema of its example."""

from typing import Any

SENTIMENT: dict[str, Any] = {
    "type": "object",
    "description": "Analyzes text sentiment",
    "properties": {
        "_tool": {"type": "string", "const": "sentimentAnalysis"},
        "text": {"type": "string", "description": "Text to analyze"},
        "_output": {
            "type": "object",
            "properties": {"sentiment": {"type": "string"}, "confidence": {"type": "number"}},
        },
    },
}
PRINTED_CALL: dict[str, Any] = {
    "_tool": "sentimentAnalysis",
    "text": "This is the best!",
    "_output": {"sentiment": "positive", "confidence": 0.99},
}
GREET: dict[str, Any] = {
    "type": "object",
    "properties": {"userName": {"type": "string"}},
    "required": ["userName"],
}
SUMMARY: dict[str, Any] = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
}
COMPOSED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "output": {
            "type": ["object", "null"],
            "properties": {"summary": {"type": "string"}},
            "required": ["summary"],
            "additionalProperties": False,
        },
        "calls": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"_tool": {"const": "greetUser"}, "userName": {"type": "string"}},
                "required": ["_tool", "userName"],
            },
        },
    },
    "required": ["calls", "output"],
}
