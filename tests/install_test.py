"""The library as it is installed: programs find it by CMake and by pkg-config, and the text of docs/cpp.md works."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

from harness import SOURCE

BUILD = pathlib.Path(os.environ["EMBLEM"]).parent
VERSION = re.search(r'kVersion = "([^"]+)"', (SOURCE / "include/emblem/api.h").read_text())[1]


def run(*command, **options):
    made = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **options)
    assert made.returncode == 0, f"{command}: {made.stdout} {made.stderr}"
    return made.stdout


class InstalledLibrary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory(prefix="emblem-test-")
        cls.folder = pathlib.Path(cls.kept.name)
        cls.prefix = cls.folder / "first"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        # The prefix may be moved as a whole.
        cls.prefix = cls.prefix.rename(cls.folder / "prefix")

    @classmethod
    def tearDownClass(cls):
        cls.kept.cleanup()

    def configure(self, name, source, *options):
        build = self.folder / name
        run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", *options)
        run("cmake", "--build", build)
        return build

    def check_example(self, program, name):
        self.assertIn("auc", run(program, self.folder / name))

    def test_find_package_builds_the_examples(self):
        build = self.configure("gcc", SOURCE / "examples/cpp")
        self.check_example(build / "train", "model")
        (self.folder / "rows.csv").write_text("user,price\n7,1\n49,1\n")
        predicted = [float(line) for line in run(build / "predict", self.folder / "model", self.folder / "rows.csv").split()]
        self.assertGreater(predicted[0], 0.5)
        self.assertLess(predicted[1], 0.5)
        self.check_table(build / "table")
        self.check_server(build / "serve", predicted)
        for program in ("predict", "serve"):
            made = subprocess.run([build / program, "nosuch", *["rows.csv"] * (program == "predict")], capture_output=True, text=True)
            self.assertEqual((made.returncode, made.stderr.count("\n")), (1, 1), made.stderr)

    def check_table(self, program):
        self.assertIn("1000 users", run(program, self.folder / "users.table"))
        again = subprocess.run([program, self.folder / "users.table"], capture_output=True, text=True, timeout=300)
        self.assertIn("exists already", again.stderr)

    def check_server(self, program, predicted):
        server = subprocess.Popen([program, self.folder / "model"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            inputs = [{"name": name, "shape": [2, 1], "datatype": kind, "data": data}
                      for name, kind, data in (("user", "INT64", [7, 49]), ("price", "FP32", [1, 1]))]
            request = urllib.request.Request(server.stdout.readline().strip(), json.dumps({"inputs": inputs}).encode())
            with urllib.request.urlopen(request, timeout=120) as answer:
                values = json.load(answer)["outputs"][0]["data"]
            for mine, theirs in zip(values, predicted):
                self.assertAlmostEqual(mine, theirs, places=4)
        finally:
            server.stdin.close()
        self.assertEqual(server.wait(120), 0)
        server.stdout.close()

    @unittest.skipUnless(shutil.which("clang++"), "needs clang++")
    def test_clang_builds_the_examples(self):
        self.check_example(self.configure("clang", SOURCE / "examples/cpp", "-DCMAKE_CXX_COMPILER=clang++") / "train", "clang-model")

    @unittest.skipUnless(shutil.which("pkg-config"), "needs pkg-config")
    def test_pkg_config_finds_it(self):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}
        self.assertEqual(run("pkg-config", "--modversion", "emblem", env=environment).strip(), VERSION)
        flags = run("pkg-config", "--cflags", "--libs", "emblem", env=environment).split()
        program = self.folder / "by-pkg-config"
        run("g++", "-std=c++20", SOURCE / "examples/cpp/train.cc", "-o", program, *flags)
        self.check_example(program, "pkg-model")

    def test_a_project_may_have_the_sources_in_a_folder(self):
        outer = self.folder / "outer"
        outer.mkdir()
        (outer / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.22)
project(outer LANGUAGES CXX)
add_subdirectory({SOURCE} emblem)
add_executable(train {SOURCE}/examples/cpp/train.cc)
target_link_libraries(train PRIVATE emblem::emblem)
""")
        run("cmake", "-G", "Ninja", "-S", outer, "-B", outer / "build", "-DEMBLEM_CUDA=OFF", "-DEMBLEM_NATIVE=ON")
        planned = run("ninja", "-C", outer / "build", "-t", "commands", "train")
        self.assertIn("libemblem.so", planned)
        self.assertNotIn("_test", planned)

    def test_another_version_is_refused(self):
        (self.folder / "newer").mkdir()
        (self.folder / "newer/CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(x LANGUAGES CXX)\nfind_package(emblem 99.1 REQUIRED)\n")
        made = subprocess.run(["cmake", "-S", self.folder / "newer", "-B", self.folder / "newer/build",
                               f"-DCMAKE_PREFIX_PATH={self.prefix}"], capture_output=True, text=True)
        self.assertNotEqual(made.returncode, 0)
        self.assertIn(VERSION, made.stderr)

    def test_folders_are_those_of_a_prefix(self):
        self.assertEqual(sorted(path.name for path in self.prefix.iterdir()), ["bin", "include", "lib", "share"])

    def parts(self):
        return sorted((self.prefix / "lib/emblem").glob("libemblem_*.so"))

    def symbols(self, *arguments):
        return {line.split()[-1] for line in run("nm", "-D", *arguments).splitlines() if line and not line.endswith(":")}

    def test_the_library_exports_its_interface_and_what_its_parts_need(self):
        library = self.prefix / "lib/emblem/libemblem.so"
        exported = self.symbols("--defined-only", library)
        names = run("c++filt", input="\n".join(exported)).splitlines()
        self.assertGreater(sum("emblem::api::" in name for name in names), 20)
        needed = self.symbols("--undefined-only", self.prefix / "bin/emblem", *self.parts())
        for name in run("c++filt", input="\n".join(exported - needed)).splitlines():
            self.assertRegex(name, r"emblem::api::|emblem::Error")
        given = exported | self.symbols("--defined-only", *self.parts())
        self.assertEqual([name for name in needed - given if "6emblem" in name], [])

    def test_device_code_is_a_part(self):
        sections = run("readelf", "-SW", self.prefix / "lib/emblem/libemblem.so")
        self.assertNotIn(".nv_fatbin", sections)
        for part in self.parts():
            self.assertEqual(".nv_fatbin" in run("readelf", "-SW", part), part.name == "libemblem_cuda.so", part)

    def test_parts_find_all_that_they_need(self):
        load = "import ctypes, os, sys\nfor path in sys.argv[1:]: ctypes.CDLL(path, ctypes.RTLD_GLOBAL | os.RTLD_NOW)"
        run(sys.executable, "-c", load, self.prefix / "lib/emblem/libemblem.so", *self.parts())

    def test_the_program_starts_without_what_modules_and_gpus_need(self):
        loaded = run("ldd", self.prefix / "bin/emblem")
        self.assertNotRegex(loaded, r"librocksdb|librdkafka|libgrpc|libcurl|libmpi|libcuda|libcublas|libnccl")

    def test_a_module_that_is_missing_or_broken_is_named_in_one_line(self):
        module = self.prefix / "lib/emblem/libemblem_curl.so"
        if not module.exists():
            self.skipTest("built without libcurl")
        whole = module.rename(module.with_suffix(".kept"))
        try:
            for content, message in ((None, f"no libemblem_curl.so in {module.parent}; "), (b"", f"cannot load {module}: ")):
                if content is not None:
                    module.write_bytes(content)
                made = subprocess.run([self.prefix / "bin/emblem", "inspect", "http://127.0.0.1:9/rows.csv"],
                                      capture_output=True, text=True)
                self.assertEqual((made.returncode, made.stderr.count("\n")), (1, 1), made.stderr)
                self.assertIn(message, made.stderr)
                self.assertIn("install libcurl4", made.stderr)
        finally:
            whole.rename(module)

    def test_the_blocks_of_the_document_are_programs(self):
        text = (SOURCE / "docs/cpp.md").read_text()
        folder = self.folder / "document"
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(re.search(r"```cmake\n(.*?)```", text, re.S)[1])
        blocks = re.findall(r"```cpp\n(.*?)```", text, re.S)
        expected = [r"auc \d", r"user 0: 0\.[5-9].*\n(?s:.*)READY", r"2 rows of 4 floats"]
        self.assertEqual(len(blocks), len(expected))
        for at, (block, output) in enumerate(zip(blocks, expected)):  # each uses the files of the previous one
            (folder / "program.cc").write_text(block)
            program = self.configure(f"document-build-{at}", folder) / "program"
            made = subprocess.run([program], cwd=folder, capture_output=True, text=True, timeout=300)
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertRegex(made.stdout, output)


if __name__ == "__main__":
    unittest.main()
