"""The code blocks of the documents: what each says about how it is tested, and running them as a reader would.

A comment in the document says it, for the block after it or, below the title, for all of the document:

  <!-- run -->                     make test runs it, after the blocks before it that run
  <!-- run: slow -->               make soak does
  <!-- tested: tests/NAME.py -->   another test does
  <!-- not run: why -->            no test runs it

Blocks with a picture, with output or with the text of a message are not code, and need no comment."""

import dataclasses
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

from harness import EMBLEM, SOURCE

DOCUMENTS = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").glob("*.md"))]
STATUS = re.compile(r"<!-- (run|run: slow|tested: \S+|not run: .+?) -->$")
# The first words of code without a fence.
FIRST = {"sh": r"(emblem|make|curl|cmake|mpirun|srun|sbatch|kubectl|podman|export|alias|cat|pip|python3|sudo|EMBLEM=\S+|RANK=\S+) |\(?echo ",
         "python": r"(import|from|def|with|try:|for|\w+(, \w+)* = |>>> )",
         "cpp": r"(const auto|#include|index->)", "config": r"\w+ *(\{|: \")"}


@dataclasses.dataclass
class Block:
    document: pathlib.Path
    line: int
    language: str  # sh, python, cpp, cmake, json, config; "" where it is not code
    code: str
    status: str

    def __str__(self):
        return f"{self.document.name}:{self.line}"


def language_of(code):
    return next((name for name, first in FIRST.items() if re.match(first, code)), "")


def blocks(document):
    """The blocks of a document in their order, fenced or indented."""
    lines, found, place = document.read_text().splitlines(), [], 0
    everywhere = next((STATUS.match(line)[1] for line in lines[1:4] if STATUS.match(line)), "")
    status = ""
    while place < len(lines):
        line, start = lines[place], place
        fenced = re.match(r"```(\w*)$", line)
        indented = line.startswith("    ") and not lines[place - 1].strip() and line.strip()
        place += 1
        if fenced:
            while lines[place] != "```":
                place += 1
            code, language = "\n".join(lines[start + 1:place]) + "\n", fenced[1]
            place += 1
        elif indented:
            while place < len(lines) and (lines[place].startswith("    ") or not lines[place].strip()):
                place += 1
            code = "\n".join(one[4:] for one in lines[start:place]).rstrip() + "\n"
            language = language_of(code)
        else:
            marked = STATUS.match(line)
            if marked and start > 3:
                status = marked[1]
            elif line.strip():
                status = ""
            continue
        found.append(Block(document, start + 1, "" if language == "text" else language, code, status or everywhere))
        status = ""
    return found


def all_blocks():
    return [block for document in DOCUMENTS for block in blocks(document)]


def commands(block):
    """The commands of a shell block that start emblem: lists of words, as far as they are written out."""
    text = re.sub(r"\\\n\s*", " ", block.code)
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", text)
    for line in text.splitlines():
        line = re.sub(r"(^| )#.*", "", line)
        for part in re.split(r"[|;&()]+|(?:^|\s)--(?:\s|$)", line):
            words = part.split()
            if "emblem" in words:
                yield words[words.index("emblem") + 1:]


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [made.getsockname()[1] for made in sockets]
    for made in sockets:
        made.close()
    return ports


def shell(code, ports):
    """A script of shell blocks; a server that would keep the shell goes to the background and is ready when it continues."""
    code = re.sub(r"^(emblem serve +[^&\n]*)$", rf"kill $(jobs -p) 2> /dev/null && wait || true\n\1 --http-port {ports['8000']} --grpc-port {ports['8001']} "
                  rf"--metrics-port {ports['8002']} > serve.log 2>&1 &\nuntil curl -fs localhost:{ports['8000']}/v2/health/ready; "
                  "do kill -0 $! || { cat serve.log; exit 1; }; sleep 0.1; done", code, flags=re.M)
    return re.sub(r"\b800[012]\b", lambda found: ports[found[0]], code)


def run(selected, folder, timeout):
    """Runs blocks in their order in this folder: those of a language that follow each other are one program."""
    ports = dict(zip(("8000", "8001", "8002"), map(str, free_ports(3))))
    binaries = folder / ".bin"
    binaries.mkdir()
    (binaries / "emblem").symlink_to(pathlib.Path(EMBLEM).resolve())
    (binaries / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (binaries / "python3").chmod(0o755)
    (folder / "configs").symlink_to(SOURCE / "configs")
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}",
                   "PYTHONPATH": str(pathlib.Path(EMBLEM).resolve().parent / "python")}
    script = ["set -euo pipefail", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT"]
    for number, block in enumerate(selected):
        if block.language == "sh":
            script.append(shell(re.sub(r"^alias emblem=.*\n", "", block.code, flags=re.M), ports))
            continue
        if number and selected[number - 1].language == "python":
            continue
        program = ""
        for one in selected[number:]:
            if one.language != "python":
                break
            program += one.code + "\nif True:  # a block of its own\n    pass\n"
        path = folder / f"block{number}.py"
        path.write_text(re.sub(r"\b800[012]\b", lambda found: ports[found[0]], program))
        script.append(f"python3 {path.name}")
    return subprocess.run(["bash", "-c", "\n".join(script)], cwd=folder, env=environment, capture_output=True, text=True,
                          timeout=timeout)


def run_document(case, name, slow):
    """Runs the blocks of a document that make test runs, and with `slow` those of make soak as well; returns what they print."""
    wanted = ("run", "run: slow") if slow else ("run",)
    selected = [block for block in blocks(SOURCE / name) if block.status in wanted]
    case.assertTrue(selected, name)
    with tempfile.TemporaryDirectory(prefix="emblem-docs-") as folder:
        done = run(selected, pathlib.Path(folder), 1500 if slow else 500)
    case.assertEqual(done.returncode, 0, f"{name}: {done.stdout}{done.stderr}")
    return done.stdout
