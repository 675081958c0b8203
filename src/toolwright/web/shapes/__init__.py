"""The forms of answers in the OpenAPI document."""
