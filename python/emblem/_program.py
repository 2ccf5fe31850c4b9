"""The program `emblem`, which comes with the package."""
import os
import sys


def main() -> None:
    from emblem._cuda import environment
    from emblem._runtime import PROGRAM
    if not PROGRAM.exists():
        sys.exit("emblem: this installation has no program; it has the Python package alone")
    os.execve(PROGRAM, ["emblem", *sys.argv[1:]], environment())
