#!/usr/bin/env python3
"""Makes schemas.json: schemas, with values that they allow and values that they do not, as the `jsonschema` package judges them. Keys are
in the schema's order, as they are in answers. Usage: make_schemas.py > schemas.json
"""

import json
import sys

from jsonschema import Draft202012Validator, FormatChecker


def obj(properties, required=None, **more):
    required = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False, **more}


INT, TEXT = {"type": "integer"}, {"type": "string"}
TREE = {
    "$defs": {"node": obj({"value": INT, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}})},
    "$ref": "#/$defs/node",
}
SCHEMAS = [
    ({"type": "null"}, [None, 0, "null"]),
    ({"type": "boolean"}, [True, False, 1, "true"]),
    (INT, [0, -7, 123456, 1.5, "1", True]),
    ({"type": "number"}, [0, -1.25, 1e20, "1", None]),
    (TEXT, ["", "a\"b\\c\n\u00e9\U0001f980", 1, None, ["a"]]),
    ({"type": ["string", "null"]}, ["a", None, 1, []]),
    ({"enum": ["red", "green", 3, None, {"a": [1]}]}, ["red", 3, None, {"a": [1]}, "blue", 4, {"a": [2]}]),
    ({"const": {"x": 1}}, [{"x": 1}, {"x": 2}, 1]),
    ({"type": "integer", "minimum": 3, "maximum": 120}, [3, 120, 57, 2, 121, -50]),
    ({"type": "integer", "exclusiveMinimum": -5, "exclusiveMaximum": 5}, [-4, 4, 0, -5, 5]),
    ({"type": "number", "minimum": 0.5, "maximum": 2.25}, [0.5, 1, 2.25, 1.7, 0.4, 2.3, -1]),
    ({"type": "integer", "multipleOf": 7}, [0, 7, 49, 700, 1, 50]),
    ({"type": "string", "minLength": 2, "maxLength": 4}, ["ab", "abcd", "\u00e9\u00e9", "a", "abcde"]),
    ({"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"}, ["AB-1", "ZZ-007", "ab-1", "AB-", "AB-1x"]),
    ({"type": "string", "pattern": "b+"}, ["abc", "b", "ac", ""]),
    ({"type": "string", "format": "date"}, ["2024-02-29", "1999-12-31", "2024-13-01", "hello"]),
    ({"type": "string", "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000", "123e4567"]),
    ({"type": "string", "format": "ipv4"}, ["127.0.0.1", "255.255.255.255", "256.1.1.1", "1.2.3"]),
    ({"type": "array", "items": INT}, [[], [1], [1, 2, 3], ["a"], [1, "a"], {}]),
    ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 3}, [["a"], ["a", "b", "a"], [], ["a"] * 4, ["c"]]),
    ({"type": "array", "prefixItems": [TEXT, INT], "items": False, "minItems": 2}, [["a", 1], ["a"], ["a", 1, 2], [1, "a"]]),
    ({"type": "array", "prefixItems": [TEXT], "items": INT}, [["a"], ["a", 1, 2], [], ["a", "b"]]),
    (obj({"a": INT, "b": TEXT}), [{"a": 1, "b": "x"}, {"a": 1}, {"a": 1, "b": "x", "c": 1}, {"a": "1", "b": "x"}, []]),
    (obj({"a": INT, "b": TEXT, "c": {"type": "boolean"}}, ["b"]), [{"b": "x"}, {"a": 1, "b": "x"}, {"b": "x", "c": True}, {"a": 1, "c": True}, {}]),
    ({"type": "object", "additionalProperties": INT}, [{}, {"x": 1, "y z": 2}, {"x": "1"}]),
    ({"type": "object", "properties": {"a": INT}, "additionalProperties": TEXT}, [{"a": 1, "b": "x"}, {"b": "x"}, {"a": "x"}, {"b": 1}]),
    ({"type": "object", "patternProperties": {"^n_": INT}, "additionalProperties": False}, [{"n_a": 1}, {}, {"n_a": "x"}, {"m": 1}]),
    (obj({"in": obj({"deep": {"type": "array", "items": obj({"x": INT})}})}), [{"in": {"deep": [{"x": 1}, {"x": 2}]}}, {"in": {"deep": []}}, {"in": {}}, {"in": {"deep": [{}]}}]),
    ({"anyOf": [INT, obj({"k": TEXT})]}, [5, {"k": "v"}, "5", {"k": 1}]),
    ({"oneOf": [obj({"kind": {"const": "cat"}, "lives": INT}), obj({"kind": {"const": "dog"}, "name": TEXT})]}, [{"kind": "cat", "lives": 9}, {"kind": "dog", "name": "Rex"}, {"kind": "cat", "name": "Rex"}, {"kind": "cow"}]),
    ({"allOf": [{"type": "object", "properties": {"a": INT}, "required": ["a"]}, {"type": "object", "properties": {"b": TEXT}, "required": ["b"]}], "unevaluatedProperties": True} if False else {"allOf": [{"type": "integer", "minimum": 2}, {"maximum": 9}]}, [2, 9, 1, 10]),
    (TREE, [{"value": 1, "children": []}, {"value": 1, "children": [{"value": 2, "children": [{"value": 3, "children": []}]}]}, {"value": 1}, {"value": 1, "children": [1]}]),
    ({"$ref": "#/$defs/p", "$defs": {"p": {"type": "array", "items": {"anyOf": [TEXT, {"$ref": "#/$defs/p"}]}}}}, [[], ["a", ["b", []]], [1], ["a", [1]]]),
    (obj({"name": TEXT, "age": {"type": "integer", "minimum": 0}, "tags": {"type": "array", "items": TEXT, "maxItems": 2}, "mail": {"anyOf": [TEXT, {"type": "null"}]}}), [{"name": "Ann", "age": 5, "tags": ["x"], "mail": None}, {"name": "Ann", "age": -5, "tags": [], "mail": None}]),
    (True, [1, "x", [], {"a": None}]),
]


def main():
    out = []
    for schema, values in SCHEMAS:
        Draft202012Validator.check_schema(schema)
        judge = Draft202012Validator(schema, format_checker=FormatChecker())
        valid = [value for value in values if judge.is_valid(value)]
        out.append({"schema": schema, "valid": valid, "invalid": [value for value in values if value not in valid or not judge.is_valid(value)]})
        # 1 and True are equal in Python.
        assert sum(map(len, (out[-1]["valid"], out[-1]["invalid"]))) == len(values), schema
    json.dump(out, sys.stdout, ensure_ascii=False, indent=0)


main()
