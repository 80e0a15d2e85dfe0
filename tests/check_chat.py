#!/usr/bin/env python3
"""`1bit chat` in a terminal, as a person uses it: prompt, streaming Markdown, history, several lines, commands, and Ctrl-C, which stops an
answer and not the program. The terminal is a pseudo-terminal; the models are tiny and answer what they were made to."""

import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

import common

PIECES = ["# Title\n\n", "Some **bold", "** words and `co", "de`.\n\n", "- a li", "st\n- more\n", "```py\nx = 2 ** 8", "\n```\n", "The end."]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>78]|\x1b\][^\x07]*\x07")


class Terminal:
    """A program in a terminal. `seen` is all that it wrote."""

    def __init__(self, binary, home, *args, **env):
        self.process, self.seen = None, ""
        leader, follower = pty.openpty()
        full = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"XDG_CACHE_HOME": str(home), "TERM": "xterm-256color", "ONEBIT_OFFLINE": "1"}
        command = [sys.executable, "-c", "import os, sys, fcntl, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"]
        self.process = subprocess.Popen([*command, binary, *map(str, args)], stdin=follower, stdout=follower, stderr=follower, env=full | env)
        os.close(follower)
        self.leader = leader

    def read(self, seconds):
        """Takes what comes within this time, and answers what a terminal answers when it is asked where the cursor is."""
        ready, _, _ = select.select([self.leader], [], [], seconds)
        if not ready:
            return False
        try:
            text = os.read(self.leader, 65536).decode(errors="replace")
        except OSError:
            return False
        self.seen += text
        for _ in range(text.count("\x1b[6n")):
            os.write(self.leader, b"\x1b[1;1R")
        return True

    def until(self, words, seconds=30):
        """Waits for words, and gives what was written up to them, since the last time."""
        deadline = time.monotonic() + seconds
        while words not in self.plain():
            if time.monotonic() > deadline or self.process.poll() is not None:
                break
            self.read(0.1)
        found = words in self.plain()
        seen, self.seen = self.seen, ""
        return found, seen

    def pause(self, seconds):
        """As a person would: the terminal goes on answering."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.read(deadline - time.monotonic())

    def plain(self):
        return ESCAPE.sub("", self.seen).replace("\r", "")

    def send(self, text):
        os.write(self.leader, text.encode())

    def line(self, text):
        # The editor takes what comes in one piece with a line's end for something that was pasted.
        self.send(text)
        self.pause(0.1)
        self.send("\r")

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.leader)


def plain(text):
    return ESCAPE.sub("", text).replace("\r", "")


def in_a_terminal(tally, binary, home, script, endless):
    saved = home / "talk.json"
    talk = Terminal(binary, home, "chat", script, "--threads", "1", "--system", "Be brief.")
    try:
        found, seen = talk.until("/help")
        tally.check("it greets", found and script.name in plain(seen), seen)
        talk.line("first message")
        found, seen = talk.until("The end.\n")
        shown = plain(seen)
        tally.check("the answer is all there", found and all(w in shown for w in ("# Title\n", "Some bold words and code.\n", "• a list\n• more\n", "x = 2 ** 8\n")), repr(shown))
        tally.check("with Markdown's styles", "\x1b[0;1mbold" in seen and "\x1b[0;36mcode" in seen and "\x1b[36mx = 2 ** 8" in seen, repr(seen))
        talk.line("/stats")
        found, seen = talk.until("written")
        tally.check("/stats", found and "tokens/s" in plain(seen) and re.search(r"context: \d+ of 4096 tokens", plain(seen)), plain(seen))
        # Three lines, of which two are continued in two ways.
        talk.line('"""')
        talk.line("line one\\")
        talk.line('line two"""')
        found, _ = talk.until("The end.\n")
        tally.check("several lines are one message", found)
        talk.line("/retry")
        found, _ = talk.until("The end.\n")
        tally.check("/retry", found)
        talk.line(f"/save {saved}")
        found, seen = talk.until(f"are in {saved}")
        tally.check("/save", found, plain(seen))
        messages = json.loads(saved.read_text())["messages"]
        said = [(m["role"], m["content"]) for m in messages]
        answer = ("assistant", "".join(PIECES))
        expected = [("system", "Be brief."), ("user", "first message"), answer, ("user", "line one\\\nline two"), answer]
        tally.check("the conversation is what was said", said == expected, str(said))
        # Another model goes on with it.
        talk.line(f"/model {endless}")
        found, seen = talk.until("/help")
        tally.check("/model", found and endless.name in plain(seen), plain(seen))
        talk.line("go on")
        found, _ = talk.until("again  again")
        tally.check("an answer without an end has begun", found)
        begin = time.monotonic()
        talk.send("\x03")
        found, _ = talk.until("> ", 5)
        took = time.monotonic() - begin
        tally.check("Ctrl-C stops it at once", found and took < 2, f"{took} s")
        tally.check("and not the program", talk.process.poll() is None)
        talk.line(f"/save {home}/second.json")
        found, seen = talk.until("are in")
        last = json.loads((home / "second.json").read_text())["messages"]
        tally.check("what was said until then is kept", found and len(last) == 7 and last[-1]["content"].startswith("again again  "), str(last)[-300:])
        talk.line("/model /no/such.gguf")
        found, seen = talk.until("such.gguf")
        tally.check("a model that is not there is told, and the other one stays", found and talk.process.poll() is None, plain(seen))
        talk.line("/nonsense")
        found, seen = talk.until("there is no /nonsense")
        tally.check("unknown commands are told", found, plain(seen))
        # Ctrl-C on a line drops the line; Ctrl-D leaves.
        talk.send("half a line")
        talk.pause(0.3)
        talk.send("\x03")
        talk.pause(0.5)
        tally.check("Ctrl-C on a line ends nothing", talk.process.poll() is None)
        talk.send("\x04")
        deadline = time.monotonic() + 10
        while talk.process.poll() is None and time.monotonic() < deadline:
            talk.read(0.1)
        tally.check("Ctrl-D leaves", talk.process.poll() == 0, f"{talk.process.poll()} {talk.seen!r}")
    finally:
        talk.end()
    # A new run remembers what was typed, and goes on where it was saved.
    talk = Terminal(binary, home, "chat", script, "--threads", "1", "--load", saved)
    try:
        found, seen = talk.until("/help")
        tally.check("--load", found and "2 messages of yours" in plain(seen), plain(seen))
        talk.pause(0.3)
        for _ in range(2):
            talk.send("\x1b[A")
            talk.pause(0.2)
        found, seen = talk.until("/model /no/such.gguf", 5)
        tally.check("history outlives the program", found, repr(seen))
        talk.send("\x03")
        talk.pause(0.3)
        talk.line("/load /no/such.json")
        found, seen = talk.until("such.json")
        tally.check("a file that is not there is told", found, plain(seen))
        talk.line("/stats")
        found, seen = talk.until("no answer yet")
        tally.check("no statistics before an answer", found, plain(seen))
    finally:
        talk.end()
    # NO_COLOR has the text as the model wrote it.
    talk = Terminal(binary, home, "chat", script, "--threads", "1", NO_COLOR="1")
    try:
        talk.until("/help")
        talk.line("x")
        found, seen = talk.until("The end.\n")
        tally.check("NO_COLOR", found and "**bold** words and `code`" in plain(seen) and "\x1b[0;1m" not in seen, repr(seen))
    finally:
        talk.end()


def by_pipe(tally, binary, home, script, endless):
    env = {"XDG_CACHE_HOME": str(home), "ONEBIT_OFFLINE": "1"}
    lines = 'one\n"""\ntwo\nthree\n"""\nfour\\\nfive\n/save ' + str(home / "piped.json") + "\n"
    code, out, said = common.run(binary, "chat", script, "--threads", 1, stdin=lines, env=env)
    text = "".join(PIECES)
    tally.check("piped answers are plain text", code == 0 and out.count(text + "\n") == 3, f"{code} {out!r} {said}")
    users = [m["content"] for m in json.loads((home / "piped.json").read_text())["messages"] if m["role"] == "user"]
    tally.check("piped messages may have several lines", users == ["one", "two\nthree", "four\nfive"], str(users))
    (home / "broken.json").write_text('{"messages": [{"role": "user"}]}')
    code, _, said = common.run(binary, "chat", script, "--threads", 1, "--load", home / "broken.json", env=env)
    tally.check("a broken file is named with its field", code == 2 and "broken.json: messages[0].content" in said, f"{code} {said}")
    # Ctrl-C ends a program that waits for its pipe, as it does others; an answer alone where one is being made.
    talk = subprocess.Popen([binary, "chat", endless, "--threads", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | env)
    try:
        talk.stdin.write(b"go on\n")
        talk.stdin.flush()
        begun = talk.stdout.read(100)
        talk.send_signal(signal.SIGINT)
        talk.stdin.write(b"/stats\n")
        talk.stdin.close()
        rest = talk.stdout.read()
        tally.check("Ctrl-C stops a piped answer", b"again" in begun and rest.strip().endswith(b"no answer yet") and talk.wait(10) == 0, f"{rest[-100:]} {talk.poll()}")
    finally:
        talk.kill()


def main():
    args = common.arguments(__doc__)
    tally = common.Tally()
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        script, endless = home / "scripted", home / "endless"
        for made in (script, endless):
            made.mkdir()
        common.script_model(script, PIECES)
        common.script_model(endless, ["again ", "again  "], loops=True, context=200_000)
        by_pipe(tally, args.binary, home, script, endless)
        in_a_terminal(tally, args.binary, home, script, endless)
    tally.end()


if __name__ == "__main__":
    main()
