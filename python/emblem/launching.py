"""A script on several ranks of this machine, or of several."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import IO, List, Mapping, Optional, Sequence, Union

from emblem._cuda import environment
from emblem._runtime import PROGRAM, Error

RANKS_FROM = "EMBLEM_RANKS_FROM"  # tells emblem.train whose variables say which rank it is


def launch(script: Union[str, os.PathLike], *arguments: str, ranks: Optional[int] = None, hosts: Union[str, Sequence[str]] = (),
           restarts: int = 0, env: Optional[Mapping[str, str]] = None, options: Sequence[str] = (),
           timeout: Optional[float] = None) -> None:
    """Starts the Python script `script` on `ranks` ranks with the command `emblem launch`, and waits for their end. Each rank runs
    all of it; `emblem.train` in it trains on all of them together, where each gives the same rows and a `model_dir` that all
    see. Ranks end together: one that fails ends the others.

    hosts: "a:4,b:4" or a list; by default all ranks are on this machine. restarts: how often the job is started again after
    a failure; the script then continues with `resume=True`. options: further ones of `emblem launch`. env: variables to add.
    timeout: seconds. Raises emblem.Error with the line of the rank that failed.

        emblem.launch("train.py", "--epochs", "3", ranks=4)
    """
    if not os.path.isfile(script):
        raise Error(f"there is no script {os.fspath(script)}", "not_found")
    if not PROGRAM.exists():
        raise Error("this installation has no program `emblem`, which starts ranks", "unsupported")
    command = [str(PROGRAM), "launch"]
    if ranks is not None:
        command += ["--ranks", str(ranks)]
    if hosts:
        command += ["--hosts", hosts if isinstance(hosts, str) else ",".join(hosts)]
    command += ["--restarts", str(restarts), *options, "--program", sys.executable, "--", os.fspath(script), *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment({**os.environ, RANKS_FROM: "torchrun", **(env or {})}))
    lines: List[str] = []
    readers = [threading.Thread(target=_pass_on, args=(process.stdout, sys.stdout, None), daemon=True),
               threading.Thread(target=_pass_on, args=(process.stderr, sys.stderr, lines), daemon=True)]
    for reader in readers:
        reader.start()
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        raise Error(f"the ranks had not ended after {timeout:g} s, and were stopped", "cancelled") from None
    except KeyboardInterrupt:
        _end(process)
        raise
    for reader in readers:
        reader.join(10)
    if status != 0:
        raise Error(_reason(lines) or f"emblem launch ended with status {status}", "internal")


# The launcher ends its ranks: first by the signal, then by force.
def _end(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# Through Python's streams, so that notebooks show it.
def _pass_on(source: Optional[IO[str]], target: IO[str], lines: Optional[List[str]]) -> None:
    assert source is not None
    for line in source:
        target.write(line)
        target.flush()
        if lines is not None and line.strip():
            lines.append(line.strip())
            del lines[:-50]
    source.close()


# The launcher's last line says which rank failed, the last one before it of a rank says why.
def _reason(lines: List[str]) -> str:
    if not lines:
        return ""
    said = [line for line in lines if not line.startswith("emblem: ")]
    return lines[-1].removeprefix("emblem: ") + (f": {said[-1]}" if said and said[-1] != lines[-1] else "")


def rank_variables() -> str:
    """What emblem.train is to read: "none" for a process alone."""
    return os.environ.get(RANKS_FROM, "none")


def is_one_of_many() -> bool:
    return rank_variables() != "none" and int(os.environ.get("WORLD_SIZE", "1") or 1) > 1
