"""A wheel of this build in a fresh virtual environment: it has what it needs, and tests of the Python package pass there."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

from harness import SKIPPED, SOURCE, use_test_clients

BUILD = pathlib.Path(os.environ["EMBLEM"]).parent
if not (BUILD / "python/emblem").is_dir():
    print("skipped: this build has no Python package (EMBLEM_PYTHON)")
    sys.exit(SKIPPED)
use_test_clients("numpy", "pandas", "pyarrow", "polars", "nanobind_backend", "auditwheel", "abi3audit")

LOADED = """
import pathlib, emblem
print(emblem.__file__)
print(*sorted({line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if ".so" in line}))
"""


MODULES = """
import ctypes, pathlib, emblem
folder = pathlib.Path(emblem.__file__).parent / "lib/emblem"
ctypes.CDLL(folder / "libemblem.so", ctypes.RTLD_GLOBAL)
for path in folder.glob("libemblem_*.so"):
    if path.name != "libemblem_mpi.so":  # which needs the MPI of its machine
        ctypes.CDLL(path)
        print(path.name)
"""


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory(prefix="emblem-test-")
        cls.folder = pathlib.Path(cls.kept.name)
        subprocess.run([sys.executable, SOURCE / "tools/wheel.py", BUILD, cls.folder / "dist", "--fast"], check=True)
        cls.wheel, = (cls.folder / "dist").glob("*.whl")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", cls.folder / "venv"], check=True)
        cls.python = cls.folder / "venv/bin/python"
        subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", cls.python, "install", "--quiet",
                        "--no-deps", "--no-compile", cls.wheel], check=True)
        # The dependencies are those of the test clients.
        site, = cls.folder.glob("venv/lib/python*/site-packages")
        (site / "clients.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))

    @classmethod
    def tearDownClass(cls):
        cls.kept.cleanup()

    def run_python(self, *arguments, **options):
        made = subprocess.run([self.python, *arguments], capture_output=True, text=True, timeout=300,
                              env={"PATH": "", "HOME": str(self.folder)}, **options)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        return made.stdout + made.stderr

    def test_the_tests_of_the_package(self):
        said = self.run_python("-m", "unittest", "-q", "test_package", cwd=SOURCE / "python/tests")
        self.assertGreater(int(re.search(r"Ran (\d+) tests", said)[1]), 10)

    def test_an_import_loads_the_library_alone(self):
        said = self.run_python("-c", LOADED, cwd=self.folder)
        self.assertIn(str(self.folder / "venv"), said)
        self.assertRegex(said, "libemblem.so")
        self.assertNotRegex(said, "librocksdb|librdkafka|libgrpc|libcurl|libcublas|libnccl|libcuda-|libemblem_(rocksdb|kafka|curl)")

    def test_no_library_needs_room_that_other_packages_may_have_taken(self):
        """Of thread-local variables in static TLS, of which a process has little: import torch, import emblem."""
        libraries = list(self.folder.glob("venv/lib/python*/site-packages/emblem/**/libemblem*.so"))
        self.assertTrue(libraries)
        for library in libraries:
            self.assertNotIn("STATIC_TLS", subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout)

    def test_modules_have_what_they_need(self):
        self.assertEqual(len(self.run_python("-c", MODULES, cwd=self.folder).splitlines()),
                         len([path for path in BUILD.glob("libemblem_*.so") if path.name != "libemblem_mpi.so"]))

    def test_the_program_is_inside(self):
        made = subprocess.run([self.folder / "venv/bin/emblem", "inspect", "--machine"], capture_output=True, text=True,
                              env={"PATH": ""})
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("level", made.stdout)

    def test_extras_name_what_they_need(self):
        archive = zipfile.ZipFile(self.wheel)
        name, = (one for one in archive.namelist() if one.endswith("dist-info/METADATA"))
        said = archive.read(name).decode()
        for extra, package in (("cuda", "nvidia-cublas"), ("cuda", "nvidia-nccl-cu13"), ("sklearn", "scikit-learn"),
                               ("plot", "matplotlib")):
            self.assertIn(f"Provides-Extra: {extra}\n", said)
            self.assertRegex(said, f'Requires-Dist: {package}[^;\\n]*; ?extra == "{extra}"')

    def test_every_library_has_its_license(self):
        names = zipfile.ZipFile(self.wheel).namelist()
        licenses = " ".join(name for name in names if "/licenses/" in name)
        self.assertIn("/licenses/LICENSE", licenses)
        for library, text in (("librocksdb", "librocksdb"), ("librdkafka", "librdkafka1"), ("libprotobuf", "libprotobuf"),
                              ("libarrow", "arrow-")):
            if any(f"/{library}" in name for name in names):
                self.assertIn(text, licenses)


if __name__ == "__main__":
    unittest.main()
