#!/usr/bin/env python3
"""What the package `tokenizers` makes of two texts with the small vocabularies of this folder: make_pairs.py > pairs.json

For each that puts something between two texts: its name, the texts, the ids, and the index of the second text's first.
"""
import json, pathlib
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).parent
PAIRS = [("the cat", "a dog!"), ("", "in"), ("don't", "")]
found = []
for file in ("tokenizers.json", "tokenizers_more.json"):
    for entry in json.loads((HERE / file).read_text()):
        tokenizer = Tokenizer.from_str(json.dumps(entry["tokenizer"]))
        rows = []
        for first, second in PAIRS:
            pair = tokenizer.encode(first, second)
            alone = [len(tokenizer.encode(text, add_special_tokens=False).ids) for text in (first, second)]
            if second and alone[1]:
                start = next(i for i, of in enumerate(pair.sequence_ids) if of == 1)
            else:
                start = None
            rows.append({"first": first, "second": second, "ids": pair.ids, "start": start, "special": len(pair.ids) - sum(alone)})
        if all(row["special"] for row in rows):
            found.append({"name": entry["name"], "rows": rows})
print(json.dumps(found))
