"""What the end-to-end checks share. Each check is a program: exit code 0 passed, 1 failed, 77 skipped."""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77


def arguments(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/release/1bit"), help="the program to check")
    parser.add_argument("--full", action="store_true", help="also what takes long")
    args = parser.parse_args()
    args.binary = os.path.abspath(args.binary)
    return args


def shared(name):
    """A folder of reference data beside the repository, or None."""
    folder = pathlib.Path(os.environ.get("ONEBIT_SHARED", ROOT.parent / "shared")) / name
    return folder if folder.exists() else None


def skip(why):
    print(f"SKIPPED: {why}", file=sys.stderr)
    sys.exit(SKIPPED)


def run(binary, *args, timeout=300, stdin="", env=None):
    """Runs the program; gives (exit code, stdout, stderr)."""
    full = dict(os.environ, **(env or {}))
    r = subprocess.run([binary, *map(str, args)], capture_output=True, text=True, timeout=timeout, input=stdin, env=full)
    return r.returncode, r.stdout, r.stderr


def evidence(family, form, against, worst):
    """Notes what a check has shown, as the tests in Rust do (`onebit_reference::evidence`)."""
    file = os.environ.get("ONEBIT_EVIDENCE")
    if file:
        line = {"family": family.removesuffix("_in_gguf"), "form": form, "against": against, "worst": worst, "test": pathlib.Path(sys.argv[0]).stem}
        with open(file, "a") as out:
            out.write(json.dumps(line) + "\n")


class Tally:
    """Counts checks, prints each that fails, and ends the program."""

    def __init__(self):
        self.passed, self.failed = 0, 0

    def check(self, name, ok, detail=""):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {name} {detail}", flush=True)
        return ok

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed or not self.passed else 0)


def write_gguf(path, metadata, tensors):
    """A GGUF v3 file. metadata: {key: str | int | float | bool | list of str}; tensors: {name: (shape outermost first, type id, bytes)}."""
    def text(s):
        b = s.encode()
        return struct.pack("<Q", len(b)) + b

    def value(v):
        if isinstance(v, bool):
            return struct.pack("<I?", 7, v)
        if isinstance(v, int):
            return struct.pack("<II", 4, v)
        if isinstance(v, float):
            return struct.pack("<If", 6, v)
        if isinstance(v, str):
            return struct.pack("<I", 8) + text(v)
        return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(text, v))

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(text(k) + value(v) for k, v in metadata.items())
    offset = 0
    for name, (shape, kind, raw) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", kind, offset)
        offset += -(-len(raw) // 32) * 32
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32))
        for _, _, raw in tensors.values():
            f.write(raw + b"\0" * (-len(raw) % 32))
