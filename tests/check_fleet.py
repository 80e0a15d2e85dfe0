#!/usr/bin/env python3
"""Two servers behind LiteLLM's router, with the settings that docs/fleet.md gives: both are used, one that dies is left out, and used again
when it is back. With --full, LiteLLM is installed into target/fleet-venv; otherwise it has to be there."""

import asyncio
import importlib.util
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import common

VENV = common.ROOT / "target/fleet-venv"


class Server:
    def __init__(self, binary, folder, port=0):
        if not port:
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                port = s.getsockname()[1]
        self.port = port
        command = [binary, "serve", "-q", "-m", str(folder), "--alias", "small", "--port", str(port), "--metrics", "--api-key", "secret"]
        self.process = subprocess.Popen([*command, "--threads", "1"])
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                return
            except (urllib.error.HTTPError, OSError):
                time.sleep(0.05)
        raise SystemExit("a server is not ready after a minute")

    def requests(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/metrics", headers={"Authorization": "Bearer secret"})
        text = urllib.request.urlopen(request, timeout=10).read().decode()
        return float(re.search(r"^onebit_requests_total\S* (\S+)$", text, re.M)[1])

    def kill(self):
        self.process.kill()
        self.process.wait()


def settings():
    """`router_settings` as docs/fleet.md has them."""
    text = (common.ROOT / "docs/fleet.md").read_text()
    block = text.split("router_settings:\n", 1)[1].split("```", 1)[0]
    found = dict(re.findall(r"^  (\w+): (\S+)$", block, re.M))
    return {name: int(value) if value.isdigit() else value for name, value in found.items()}


async def check(tally, binary, folder):
    import litellm

    litellm.suppress_debug_info = True
    one, two = Server(binary, folder), Server(binary, folder)
    entries = [
        {"model_name": "small", "litellm_params": {"model": "openai/small", "api_base": f"http://127.0.0.1:{s.port}/v1", "api_key": "secret"}}
        for s in (one, two)
    ]
    told = settings()
    tally.check("the documented settings are read", told.get("routing_strategy") == "least-busy" and told.get("cooldown_time", 0) > 0, str(told))
    router = litellm.Router(model_list=entries, **told | {"cooldown_time": 3})

    async def ask(i, **more):
        messages = [{"role": "user", "content": f"question {i}"}]
        answer = await router.acompletion(model="small", messages=messages, max_tokens=8, temperature=0, **more)
        return answer.usage.completion_tokens

    async def crowd(n):
        """How many of n requests, ten at a time, failed."""
        gate = asyncio.Semaphore(10)

        async def one_of(i):
            async with gate:
                return await ask(i)

        return [r for r in await asyncio.gather(*map(one_of, range(n)), return_exceptions=True) if isinstance(r, Exception)]

    try:
        failed = await crowd(40)
        counts = one.requests(), two.requests()
        tally.check("all are answered", not failed, str(failed[:1]))
        tally.check("both servers are used", min(counts) >= 5 and sum(counts) == 40, str(counts))
        # One dies while requests are under way.
        running = asyncio.create_task(crowd(40))
        await asyncio.sleep(0.05)
        two.kill()
        failed = await running
        tally.check("none fails while a server dies", not failed, str(failed[:1]))
        before = one.requests()
        failed = await crowd(20)
        tally.check("the dead one is left out", not failed and one.requests() - before >= 20, f"{failed[:1]} {one.requests() - before}")
        two = Server(binary, folder, two.port)
        await asyncio.sleep(4)
        failed = await crowd(40)
        tally.check("it is used again when it is back", not failed and two.requests() > 0, f"{failed[:1]} {two.requests()}")
        # The turns of a chat go to where its beginning is known.
        before = one.requests(), two.requests()
        sticky = litellm.Router(model_list=entries, **told, optional_pre_call_checks=["session_affinity"])
        for turn in range(8):
            messages = [{"role": "user", "content": "x" * (turn + 1)}]
            await sticky.acompletion(model="small", messages=messages, max_tokens=2, metadata={"session_id": "chat-7"})
        went = sorted((one.requests() - before[0], two.requests() - before[1]))
        tally.check("a session stays with its server", went == [0, 8], str(went))
        # Streams go through, too.
        chunks = [c async for c in await router.acompletion(model="small", messages=[{"role": "user", "content": "x"}], max_tokens=5, stream=True)]
        tally.check("streams pass", len(chunks) >= 2 and chunks[-1].choices[0].finish_reason in ("length", "stop"), str(chunks[-1:]))
    finally:
        one.kill()
        two.kill()


def main():
    args = common.arguments(__doc__)
    if not importlib.util.find_spec("litellm"):
        if not args.full or VENV in pathlib.Path(sys.prefix).parents or pathlib.Path(sys.prefix) == VENV:
            common.skip("the `litellm` package is not installed (--full installs it)")
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        installed = subprocess.run([VENV / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "litellm>=1.80"])
        if installed.returncode:
            common.skip("the `litellm` package cannot be installed here")
        os.execv(VENV / "bin/python", [str(VENV / "bin/python"), *sys.argv])
    tally = common.Tally()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(tally, args.binary, common.byte_model(pathlib.Path(folder))))
    tally.end()


if __name__ == "__main__":
    main()
