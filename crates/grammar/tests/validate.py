#!/usr/bin/env python3
"""Reads lines of {"schema", "text"} and says with `jsonschema` which texts are not what their schema allows; fails if any is."""

import json
import sys

from jsonschema import Draft202012Validator, FormatChecker

wrong = 0
for line in sys.stdin:
    case = json.loads(line)
    errors = list(Draft202012Validator(case["schema"], format_checker=FormatChecker()).iter_errors(json.loads(case["text"])))
    if errors:
        print(case["text"], "of", case["schema"], errors[0].message)
        wrong += 1
sys.exit(wrong != 0)
