#!/usr/bin/env python3
"""The README's first command, with an empty cache: fetches SmolLM2 and answers with Paris."""

import re
import tempfile

import common


def main():
    args = common.arguments(__doc__)
    tally = common.Tally()
    readme = (common.ROOT / "README.md").read_text()
    command = re.search(r'cargo run --release -- run (\S+) "([^"]+)"', readme)
    if not tally.check("the README has the command", command is not None):
        tally.end()
    model, prompt = command.groups()
    with tempfile.TemporaryDirectory() as cache:
        env = {"XDG_CACHE_HOME": cache}
        code, out, said = common.run(args.binary, "run", model, prompt, timeout=900, env=env)
        print(out, said, sep="\n")
        if code and re.search(r"could not be fetched", said):
            common.skip("no source of the model can be reached from here")
        tally.check("it answers", code == 0 and "Paris" in out, f"exit code {code}")
        tally.check("it tells tokens per second on stderr", "tokens/s" in said and "tokens/s" not in out)
        code, again, _ = common.run(args.binary, "run", model, prompt, env={**env, "ONEBIT_OFFLINE": "1"})
        tally.check("the second time without the network, with the same answer", code == 0 and again == out)
        code, listed, _ = common.run(args.binary, "list", "--cached", env=env)
        tally.check("`list` shows it", code == 0 and model in listed, listed)
    tally.end()


if __name__ == "__main__":
    main()
