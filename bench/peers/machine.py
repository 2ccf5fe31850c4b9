"""The machine of a result, as in src/bench/result/result.h."""

import os
import platform
import subprocess


def cpu_name():
    """The CPU name as emblem reports it. On Arm, /proc/cpuinfo has none; lscpu derives it from the part number."""
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    listing = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    for line in listing.splitlines():
        if line.startswith("Model name:"):
            return "Arm " + line.partition(":")[2].strip().replace("-", " ")
    return platform.machine()


def machine():
    return {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "compiler": platform.python_compiler(),
    }
