#!/usr/bin/env python3
"""Fetches published chat templates for the tests into the folder given: those that llama.cpp's Python package carries, 77 MB, of which
700 KB are kept. Needs pip; gives 77 where they cannot be fetched.
"""

import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

PACKAGE = "llama-cpp-python==0.3.36"


def fetch(folder):
    """Takes the templates out of the source package, for whose metadata pip wants a build system."""
    with tempfile.TemporaryDirectory() as work:
        venv, env = f"{work}/venv", dict(os.environ)
        env["PATH"] = f"{venv}/bin:{env['PATH']}"
        download = ["download", "-q", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--dest", work, PACKAGE]
        pip = f"{venv}/bin/pip"
        for command in (["python3", "-m", "venv", venv], [pip, "install", "-q", "scikit-build-core", "cmake", "ninja"], [pip, *download]):
            if subprocess.run(command, env=env, timeout=600).returncode:
                return False
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(next(pathlib.Path(work).glob("*.tar.gz"))) as archive:
            for member in archive:
                path = pathlib.PurePath(member.name)
                if path.suffix == ".jinja" and path.parent.name == "templates":
                    (folder / path.name).write_bytes(archive.extractfile(member).read())
    return True


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    if not any(folder.glob("*.jinja")) and not fetch(folder):
        sys.exit(77)
    print(f"{len(list(folder.glob('*.jinja')))} templates in {folder}")
