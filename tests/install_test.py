"""The library as it is installed: programs find it by CMake and by pkg-config, and the text of docs/cpp.md works."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import SOURCE

BUILD = pathlib.Path(os.environ["EMBLEM"]).parent
VERSION = re.search(r'kVersion = "([^"]+)"', (SOURCE / "include/emblem/version.h").read_text())[1]


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
        for component in ("library", "development"):
            run("cmake", "--install", BUILD, "--prefix", cls.prefix, "--component", component)
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
        made = subprocess.run([build / "predict", "nosuch", "rows.csv"], capture_output=True, text=True)
        self.assertEqual((made.returncode, made.stderr.count("\n")), (1, 1), made.stderr)

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

    def test_the_library_exports_its_interface_alone(self):
        library = self.prefix / "lib/emblem/libemblem.so"
        names = run("nm", "-D", "-C", "--defined-only", library).splitlines()
        self.assertGreater(len(names), 20)
        for name in names:
            self.assertRegex(name, r"emblem::api::|emblem::Error|run_command_line")

    def test_the_files_of_the_document_are_a_program(self):
        text = (SOURCE / "docs/cpp.md").read_text()
        folder = self.folder / "document"
        folder.mkdir()
        for language, name in (("cmake", "CMakeLists.txt"), ("cpp", "program.cc")):
            found = re.search(rf"```{language}\n(.*?)```", text, re.S)
            self.assertIsNotNone(found, language)
            (folder / name).write_text(found[1])
        program = self.configure("document-build", folder) / "program"
        made = subprocess.run([program], cwd=folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("auc", made.stdout)


if __name__ == "__main__":
    unittest.main()
