#!/usr/bin/env python3
"""Compares what the program costs to compile with a limit, module by module: compiler runs, and megabytes of sources and
headers that they read beside the precompiled ones and the compiler's own (intrinsics, which every architecture has others
of). Neither depends on how fast or busy a machine is.

    python3 tools/compile_cost.py BUILD                             fails above tools/compile_cost.json
    python3 tools/compile_cost.py BUILD --write [MODULE=REASON]...  lowers limits to what there is now, a tenth and a
                                                                    megabyte more; raises those of modules with a reason,
                                                                    which is kept beside the limit"""
import collections, json, math, pathlib, re, subprocess, sys

LIMITS = pathlib.Path(__file__).with_suffix(".json")
ROOM = 1.1  # compilers and libraries of other systems have somewhat larger headers


def costs(build):
    """{module: [compiler runs, bytes read]}, as ninja noted them at the last build."""
    text = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True).stdout
    sizes, found = {}, collections.defaultdict(lambda: [0, 0])
    for entry in text.split("\n\n"):
        target, *files = entry.strip().splitlines() or [""]
        unit = re.match(r"CMakeFiles/emblem_([a-z0-9]+)\w*\.dir/.*\.(?:cc|cxx)\.o: .*VALID", target)
        if not unit or "/cmake_pch" in target or "headers.dir" in target:
            continue
        found[unit[1]][0] += 1
        for name in map(str.strip, files):
            path = pathlib.Path(build, name)
            if name not in sizes:
                counts = path.exists() and path.suffix != ".gch" and "/lib/gcc/" not in name
                sizes[name] = path.stat().st_size if counts else 0
            found[unit[1]][1] += sizes[name]
    return found


def written(limits, found, reasons):
    """`limits` as --write sets them."""
    new = {}
    for module, (units, size) in sorted(found.items()):
        limit = {"units": math.ceil(units * ROOM), "megabytes": math.ceil(size / 1e6 * ROOM) + 1}
        old = limits.get(module, {"units": 0, "megabytes": 0})
        if module in reasons:
            new[module] = limit | {"reason": reasons[module]}
        elif module in limits:
            new[module] = old | {key: min(value, old[key]) for key, value in limit.items()}
    return new


def main():
    build = sys.argv[1]
    cache = pathlib.Path(build, "CMakeCache.txt").read_text()
    if not re.search(r"^EMBLEM_UNITY\S*=16$", cache, re.M) or not re.search(r"^EMBLEM_PCH\S*=ON$", cache, re.M):
        print("compile cost: not compared; the limits are those of EMBLEM_UNITY=16 with EMBLEM_PCH=ON")
        return
    found = costs(build)
    if not found:
        sys.exit(f"compile_cost: {build} has no record of compiled files; build it with ninja")
    if "--write" in sys.argv:
        reasons = dict(argument.split("=", 1) for argument in sys.argv[3:])
        limits = written(json.loads(LIMITS.read_text()), found, reasons)
        LIMITS.write_text("{\n" + ",\n".join(f'  "{module}": {json.dumps(limit)}' for module, limit in limits.items()) + "\n}\n")
    limits = json.loads(LIMITS.read_text())
    problems, lines = [], []
    for module, (units, size) in sorted(found.items()):
        limit = limits.get(module, {"units": 0, "megabytes": 0})
        lines.append(f"{module:12} {units:4} units {size / 1e6:8.1f} MB of {limit['units']:4} and {limit['megabytes']:5}")
        if units > limit["units"] or size / 1e6 > limit["megabytes"]:
            problems.append(module)
    total = [sum(column) for column in zip(*found.values())]
    if problems or "--write" in sys.argv:
        print("\n".join(lines))
    print(f"compile cost: {total[0]} units, {total[1] / 1e6:.0f} MB")
    if problems:
        sys.exit(f"compile_cost: above the limits of {LIMITS.name}: {', '.join(problems)}; include less, or raise the limit "
                 f"and say why (--write MODULE=REASON)")


main()
