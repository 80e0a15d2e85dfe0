#!/usr/bin/env python3
"""Makes the tables in docs/architectures.md from what tests have shown.

    ONEBIT_EVIDENCE=FILE cargo nextest run -p onebit-models -p onebit-cpu
    ONEBIT_EVIDENCE=FILE python tests/check_gguf.py --full
    tools/architecture_table.py FILE [--binary target/release/1bit] [--check]

FILE has a line of JSON for each proof (`onebit_reference::evidence`). A family's row tells what was compared and the worst difference
found, rounded up, in standard deviations of the logits (or hidden states); a comparison that no test made is a dash. With --check
nothing is written: the exit code is 1 where the document claims what FILE does not show, or lacks what it shows, or names of
architectures differ from those of the program. Families whose fixtures are not there (they lie beside the repository) are not looked
at then; how many is said.
"""

import argparse
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import common  # noqa: E402

DOCUMENT = ROOT / "docs/architectures.md"
# Column, and what its proofs are: the form that was read, and who computed the expected values or wrote the file.
COLUMNS = {
    "safetensors": lambda form, against: form == "safetensors" and against in ("transformers", "own oracle"),
    "GGUF that `convert` writes": lambda form, against: form == "gguf" and against in ("transformers", "own oracle"),
    "the same in llama.cpp": lambda form, against: form == "gguf" and against == "llama.cpp",
    "GGUF by another converter": lambda form, against: form == "gguf" and against.endswith("converter"),
}
PARTS = {"checked": "families that tests check", "mapped": "names without a check of their own"}


def marks(part):
    return f"<!-- {part}: made by tools/architecture_table.py -->", f"<!-- end of {part} -->"


def fixture(family):
    """The folder of a family's fixture, or None."""
    folders = [ROOT / "crates/models/tests/data" / family]
    for name in (family, family.replace("_", "-")):
        shared = common.shared(f"fixtures/data/{name}")
        folders += [shared] if shared else []
    return next((f for f in folders if (f / "config.json").exists()), None)


def rounded_up(worst):
    """One digit, upwards: 3.1e-06 is 4e-6."""
    if worst <= 0:
        return "0"
    exponent = math.floor(math.log10(worst))
    digit = math.ceil(worst / 10**exponent - 1e-9)
    return f"1e{exponent + 1}" if digit == 10 else f"{digit}e{exponent}"


def evidence(path):
    """{family: {column: (worst, against)}}; a family's worst is that of all its proofs in the column."""
    rows = {}
    for line in path.read_text().splitlines():
        proof = json.loads(line)
        for column, belongs in COLUMNS.items():
            if belongs(proof["form"], proof["against"]):
                cell = rows.setdefault(proof["family"], {}).setdefault(column, [0.0, proof["against"]])
                cell[0] = max(cell[0], proof["worst"])
    return rows


def checked(rows, names):
    header = ["family", "`model_type`", "in GGUF", "expected values of", *COLUMNS]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for family in sorted(rows):
        folder = fixture(family)
        model_type = json.loads((folder / "config.json").read_text()).get("model_type", family) if folder else family
        # Some go by the `model_type` of others.
        own = family if any(family in n["model_type"] for n in names) else model_type
        gguf = next((n["gguf"] for n in names if own in n["model_type"]), [])
        authors = {against for _, against in rows[family].values() if against in ("transformers", "own oracle")}
        cells = [rounded_up(rows[family][c][0]) if c in rows[family] else "-" for c in COLUMNS]
        first = [family, f"`{model_type}`", " ".join(f"`{g}`" for g in gguf) or "-", ", ".join(sorted(authors)) or "-"]
        lines.append("| " + " | ".join(first + cells) + " |")
    return lines


def mapped(rows, names):
    """Names that lead to a file of an architecture, though no fixture goes by them."""
    seen = set()
    for family in rows:
        folder = fixture(family)
        seen.add(family)
        seen.add(json.loads((folder / "config.json").read_text()).get("model_type", family) if folder else family)
    lines = []
    for arch in sorted(names, key=lambda n: n["model_type"]):
        others = [name for name in arch["model_type"] if name not in seen]
        like = [name for name in arch["model_type"] if name in seen]
        if others:
            lines.append(f"- {', '.join(f'`{o}`' for o in others)}" + (f", as `{like[0]}`" if like else ""))
    return lines


def part(text, name):
    begin, end = map(re.escape, marks(name))
    found = re.search(f"{begin}\n(.*?){end}", text, re.S)
    return found or sys.exit(f"{DOCUMENT}: the marks of the part `{name}` are missing")


def claims(lines):
    """{family: [whether each column has a proof]} of a table's lines."""
    cells = [[c.strip() for c in line.strip("|\n ").split("|")] for line in lines[2:]]
    return {c[0]: [x != "-" for x in c[-len(COLUMNS):]] for c in cells}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", type=pathlib.Path)
    parser.add_argument("--binary", default=str(ROOT / "target/release/1bit"))
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    code, out, said = common.run(args.binary, "list", "--architectures", "--json")
    names = json.loads(out) if code == 0 else sys.exit(said)
    rows = evidence(args.evidence)
    made = {"checked": checked(rows, names), "mapped": mapped(rows, names)}
    text = DOCUMENT.read_text()
    if not args.check:
        for name, lines in made.items():
            begin, end = marks(name)
            found = part(text, name)
            text = text[: found.start()] + "\n".join([begin, *lines, end]) + text[found.end():]
        DOCUMENT.write_text(text)
        print(f"{DOCUMENT}: {len(rows)} families")
        return
    wrong = []
    stated, shown = claims(part(text, "checked")[1].splitlines()), claims(made["checked"])
    absent = [family for family in stated if fixture(family) is None]
    for family in sorted(set(stated) | set(shown)):
        if family not in absent and stated.get(family) != shown.get(family):
            wrong.append(f"{family}: stated {stated.get(family)}, shown {shown.get(family)} ({', '.join(COLUMNS)})")
    if not absent and part(text, "mapped")[1].splitlines() != made["mapped"]:
        wrong.append("the names without a check of their own are others")
    if absent:
        print(f"SKIPPED: {len(absent)} families, whose fixtures are not there: {' '.join(absent)}")
    print("\n".join(wrong) if wrong else f"{len(stated) - len(absent)} families are as the document says")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
