#!/usr/bin/env python3
"""Compiles what a build folder would compile, without writing objects, in a fraction of the time of a build.

    python3 tools/check_syntax.py BUILD [--jobs N] [MODULE...]       default: all modules, tests included

Sources that do not compile are named with the compiler's first error; the others are compiled all the same."""
import argparse, concurrent.futures, json, os, pathlib, re, shlex, subprocess, sys

SOURCES = re.compile(r"/(src|tests|cmake)/|/Unity/")  # not those that protoc generates


def units(build, modules):
    """{name of a unit: (folder, command)}"""
    found = {}
    for entry in json.loads(pathlib.Path(build, "compile_commands.json").read_text()):
        command = shlex.split(entry["command"])
        at = command.index("-o")
        target = re.search(r"CMakeFiles/(?:emblem_)?(\w+?)(_test)?\.dir/", command[at + 1])[1]
        wanted = not modules or any(target == each or target.startswith(each + "_") for each in modules)
        if wanted and SOURCES.search(entry["file"]):
            del command[at:at + 2]
            found[f"{target}: {os.path.relpath(entry['file'])}"] = (entry["directory"], [*command, "-fsyntax-only"])
    return found


def problem(unit):
    folder, command = unit
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    errors = re.findall(r"^.*(?:error|Error): .*$", run.stderr, re.M) or [run.stderr.strip()]
    return errors[0] if run.returncode else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("modules", nargs="*")
    options = parser.parse_intermixed_args()
    found = units(options.build, options.modules)
    if not found:
        sys.exit(f"check_syntax: {options.build} has no sources of {' '.join(options.modules) or 'any module'}")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        problems = {unit: text for unit, text in zip(found, pool.map(problem, found.values())) if text}
    print(f"syntax: {len(found) - len(problems)} of {len(found)} units compile")
    sys.exit("\n".join(f"{unit}: {text}" for unit, text in problems.items()) or 0)


if __name__ == "__main__":
    main()
