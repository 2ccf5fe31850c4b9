"""Programs for all CPUs: what they are compiled for, and that code for newer CPUs stays where it is asked for."""

import json
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from harness import EMBLEM, SOURCE, run

OLDEST = {"x86_64": "x86-64", "aarch64": "armv8-a"}.get(platform.machine())
LOADER = pathlib.Path("/lib64/ld-linux-x86-64.so.2")


def configure(*options):
    """The compiler's options by source, and what would be built."""
    with tempfile.TemporaryDirectory() as build:
        done = subprocess.run(["cmake", "-G", "Ninja", "-S", SOURCE, "-B", build, "-DEMBLEM_CUDA=OFF",
                               "-DEMBLEM_TESTS=OFF", *options], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        commands = json.loads(pathlib.Path(build, "compile_commands.json").read_text())
        options = {entry["file"]: set(shlex.split(entry["command"])) for entry in commands}
        return options, pathlib.Path(build, "build.ninja").read_text()


def without_kernels(commands):
    """All but the files that are compiled for an instruction set of their own."""
    return {file: options for file, options in commands.items() if "/tile_kernel_" not in file}


@unittest.skipUnless(OLDEST and shutil.which("cmake") and shutil.which("ninja"), "needs cmake and ninja")
class Configured(unittest.TestCase):
    def levels(self, commands):
        return {option for options in commands.values() for option in options if re.match("-m(arch|cpu)=", option)}

    def test_without_options_code_is_for_the_oldest_cpu(self):
        commands, rules = configure()
        others = without_kernels(commands)
        self.assertEqual(self.levels(others), {f"-march={OLDEST}"})
        self.assertFalse([file for file, options in others.items() if "-mavx" in " ".join(options)])
        self.assertGreaterEqual(len(commands) - len(others), 9)
        for level in ("x86-64-v2", "x86-64-v3"):
            self.assertEqual(f"emblem_{level}" in rules, OLDEST == "x86-64", level)

    def test_presets_of_developers_are_for_this_machine(self):
        presets = json.loads((SOURCE / "CMakePresets.json").read_text())["configurePresets"]
        native = {preset["name"]: preset["cacheVariables"].get("EMBLEM_NATIVE") for preset in presets}
        self.assertEqual((native.pop("base"), native.pop("portable")), ("ON", "OFF"))
        self.assertEqual(set(native.values()), {None})  # inherited
        commands, rules = configure("-DEMBLEM_NATIVE=ON")
        self.assertLessEqual(self.levels(without_kernels(commands)), {"-march=native", "-mcpu=native"})
        self.assertNotIn("emblem_x86-64-v3", rules)


class Built(unittest.TestCase):
    def test_files_for_instruction_sets_define_no_functions_that_others_may_be_linked_to(self):
        build = pathlib.Path(EMBLEM).resolve().parent
        cache = build / "CMakeCache.txt"
        settings = dict(re.findall(r"^(\w+):\w+=(.*)$", cache.read_text(), re.MULTILINE)) if cache.exists() else {}
        is_optimized = settings.get("CMAKE_BUILD_TYPE") == "Release" and not settings.get("EMBLEM_SANITIZE")
        if not is_optimized or not shutil.which("nm"):
            self.skipTest("needs objects that are compiled for speed, and nm")
        objects = list((build / "CMakeFiles/emblem_kernels_cpu.dir/src/kernels/cpu").glob("tile_kernel_*.o"))
        self.assertGreaterEqual(len(objects), 9)
        for path in objects:
            listed = subprocess.run(["nm", "-C", "--defined-only", "--extern-only", path], capture_output=True,
                                    text=True, check=True)
            names = [line.split(" ", 2)[2] for line in listed.stdout.splitlines()]
            self.assertFalse([name for name in names if not re.fullmatch(r"emblem::cpu::k\w+Tiles", name)], path.name)

    def test_the_level_is_described(self):
        listed = run("inspect", "--machine")
        found = re.search(r"^level +(\S+)(?: \(this CPU: (\S+)\))?$", listed.stdout, re.MULTILINE)
        self.assertTrue(found, listed.stdout + listed.stderr)
        self.assertEqual(found[2] is not None, platform.machine() == "x86_64")
        if LOADER.exists():
            searched = subprocess.run([LOADER, "--help"], capture_output=True, text=True).stdout
            levels = re.findall(r"^ +(x86-64-v\d) \(supported, searched\)$", searched, re.MULTILINE)
            if "glibc-hwcaps" in searched:
                self.assertEqual(found[2], max(levels, default="x86-64"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
