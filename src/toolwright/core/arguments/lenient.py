"""Lenient arguments: converts the usual mistakes of models to what the schema accepts, before the validation."""

from toolwright.core.arguments.schema import Subschema, Subschemas, item_of, members_of, property_of
from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, JSONObject, has_more_values
from toolwright.core.limits import MAX_JSON_VALUES, MAX_NESTING

_ALTERNATIVES = ("anyOf", "oneOf")


def convert(subschemas: Subschemas, arguments: JSON, most: int = MAX_JSON_VALUES) -> JSON:
    """Return the arguments in the form that the schema accepts. What cannot be converted is unchanged.

    - JSON text becomes the object or the list that the schema requires.
    - The text of a number becomes the number.
    - A null for an optional property that has no null is left out, so that its default applies.

    A value that the schema accepts is unchanged: a text stays a text where texts are allowed. JSON text with more than
    `most` values, and what follows the first `MAX_JSON_VALUES` values and alternatives, are unchanged too.
    """
    return _Conversion(subschemas, most).at(arguments, (subschemas.root, "#"), 0)


class _Conversion:
    def __init__(self, subschemas: Subschemas, most: int) -> None:
        self._subschemas = subschemas
        self._most = most
        self._visits = 0

    def at(self, value: JSON, place: Subschema, depth: int) -> JSON:
        self._visits += 1
        if self._visits > MAX_JSON_VALUES or depth > MAX_NESTING:
            return value
        schema, pointer = self._subschemas.followed(place)
        if not isinstance(schema, dict) or self._subschemas.accepts(pointer, value):
            return value
        for member in members_of(schema, pointer, "allOf"):
            value = self.at(value, member, depth + 1)
        value = self._by_type(value, schema)
        if isinstance(value, dict):
            value = {
                name: self.at(item, property_of(schema, pointer, name), depth + 1)
                for name, item in value.items()
                if not (item is None and self._is_optional(schema, pointer, name))
            }
        elif isinstance(value, list):
            value = [
                self.at(item, item_of(schema, pointer, index), depth + 1) for index, item in enumerate(value)
            ]
        return self._alternative(value, schema, pointer, depth)

    def _by_type(self, value: JSON, schema: JSONObject) -> JSON:
        declared = schema.get("type")
        kinds = declared if isinstance(declared, list) else [declared]
        if not isinstance(value, str) or {"integer", "number", "object", "array"}.isdisjoint(map(str, kinds)):
            return value
        try:
            parsed = parse_json(value)
        except NotJson:
            return value
        if has_more_values(parsed, self._most):
            return value
        match parsed:
            case dict():
                fits = "object" in kinds
            case list():
                fits = "array" in kinds
            case int() | float():
                fits = not isinstance(parsed, bool) and ("integer" in kinds or "number" in kinds)
            case _:
                fits = False
        return parsed if fits else value

    def _is_optional(self, schema: JSONObject, pointer: str, name: str) -> bool:
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, dict) or name not in properties:
            return False
        if isinstance(required, list) and name in required:
            return False
        return not self._subschemas.accepts(property_of(schema, pointer, name)[1], None)

    def _alternative(self, value: JSON, schema: JSONObject, pointer: str, depth: int) -> JSON:
        """Return the value as the first alternative accepts it, or unchanged if none does."""
        for keyword in _ALTERNATIVES:
            for member in members_of(schema, pointer, keyword):
                converted = self.at(value, member, depth + 1)
                if self._subschemas.accepts(member[1], converted):
                    return converted
        return value
