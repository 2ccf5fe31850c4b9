"""The package beside others: PyPI's `emblem`, which has the same import name, and libraries of CUDA that pip installed."""
import pathlib
import shutil
import subprocess
import sys
import unittest

import emblem
from folder import Folder

PACKAGE = pathlib.Path(emblem.__file__).parent


class InstallationTest(Folder):
    """`self.folder` takes the place of site-packages."""

    def run_python(self, text, **variables):
        others = [path for path in sys.path if pathlib.Path(path) != PACKAGE.parent]
        made = subprocess.run([sys.executable, "-c", f"import sys\nsys.path[:] = [{str(self.folder)!r}, *{others!r}]\n" + text],
                              capture_output=True, text=True, timeout=120, env={"PATH": "", "HOME": str(self.folder), **variables})
        return made.stdout, made.stderr

    def install_own(self):
        folder = self.folder / "emblem"
        folder.mkdir(exist_ok=True)
        for path in PACKAGE.iterdir():
            (folder / path.name).unlink(missing_ok=True)
            (folder / path.name).symlink_to(path)
        self.write("emblem_recsys-0.2.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: emblem-recsys\nVersion: 0.2.0\n")

    def install_other(self):
        (self.folder / "emblem").mkdir(exist_ok=True)
        self.write("emblem/__init__.py", "name = 'the other'\n")
        self.write("emblem-1.4.dist-info/METADATA", "Metadata-Version: 2.1\nName: emblem\nVersion: 1.4\n")

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)


class ClashTest(InstallationTest):
    SAID = "the distribution 'emblem' 1.4, another project, is installed as well and has the same import name; uninstall both, then"
    SCRIPT = "sys.argv = ['emblem', '--version']\nfrom emblem._program import main\nmain()"

    def test_alone_nothing_is_said(self):
        self.install_own()
        self.assertEqual(self.run_python("import emblem; print(emblem.__version__)"), (f"{emblem.__version__}\n", ""))
        out, errors = self.run_python(self.SCRIPT)
        self.assertIn(emblem.__version__, out)
        self.assertEqual(errors, "")

    def test_an_import_after_the_other_was_installed_first(self):
        self.install_other()
        self.install_own()
        out, errors = self.run_python("import emblem; print(emblem.__version__, emblem.train.__name__)")
        self.assertEqual(out, f"{emblem.__version__} train\n")
        self.assertIn(self.SAID, errors)

    def test_the_other_was_installed_over_it(self):
        self.install_own()
        self.install_other()
        self.assertEqual(self.run_python("import emblem; print(emblem.name)")[0], "the other\n")
        for module in ("emblem.training", "emblem.sklearn", "emblem.serving"):
            self.assertIn(self.SAID, self.run_python(f"import {module}")[1], module)

    def test_the_program_runs_in_either_order(self):
        for first, second in ((self.install_other, self.install_own), (self.install_own, self.install_other)):
            first()
            second()
            out, errors = self.run_python(self.SCRIPT)
            self.assertIn(emblem.__version__, out)
            self.assertIn(self.SAID, errors)


SOURCE = """
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) {
  int file = open(getenv("RECORD"), O_CREAT | O_WRONLY | O_APPEND, 0600);
  if (file < 0 || write(file, NAME, sizeof(NAME) - 1) < 0) abort();
}
"""
FOLDERS = {"libcublasLt.so.13": "nvidia/cu13/lib", "libnccl.so.2": "nvidia/nccl/lib"}


class CudaTest(InstallationTest):
    def setUp(self):
        super().setUp()
        self.install_own()

    def put_libraries(self):
        for name, place in FOLDERS.items():
            (self.folder / place).mkdir(parents=True)
            if shutil.which("cc") is None:
                self.skipTest("needs a C compiler")
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", self.folder / place / name, f'-DNAME="{name}\\n"'],
                           input=SOURCE, text=True, check=True)

    def record(self, text):
        file = self.folder / "record"
        file.unlink(missing_ok=True)
        self.run_python("import numpy as np, emblem\ntry:\n    " + text + "\nexcept emblem.Error as error:\n    print(error)",
                        RECORD=str(file))
        return file.read_text().split() if file.exists() else []

    def test_libraries_of_pip_are_loaded_once_before_the_first_use_of_a_gpu(self):
        self.put_libraries()
        rows = "{'x': [1., 2.] * 50, 'y': [0, 1] * 50}"
        for call in ("emblem.Index(np.eye(4), device='cuda')", "emblem.Table(4, device='cuda')", "emblem.load('m', device='cuda')",
                     f"emblem.train({rows}, label='y', device='cuda')", "emblem.Index.load('m', device='cuda')"):
            self.assertEqual(self.record(call), list(FOLDERS), call)
        self.assertEqual(self.record(f"emblem._cuda.load('cuda'); {call}"), list(FOLDERS))
        self.assertEqual(self.record("emblem.Index(np.eye(4), device='cpu')"), [])

    def test_without_them_nothing_is_loaded(self):
        self.assertEqual(self.record("emblem.Index(np.eye(4), device='cuda')"), [])

    def test_a_library_that_cannot_be_loaded_is_named(self):
        self.write("nvidia/x", "")
        (self.folder / "nvidia/cu13/lib").mkdir(parents=True)
        self.write("nvidia/cu13/lib/libcublasLt.so.13", "no library")
        self.assertRegex(self.run_python("import emblem; emblem._cuda.load('cuda')")[1], "libcublasLt.so.13 cannot be loaded: ")

    def test_programs_find_them_after_the_folders_that_are_named(self):
        self.put_libraries()
        self.write("show", "#!/bin/sh\necho \"$LD_LIBRARY_PATH\" >&2\nexit 1\n")
        (self.folder / "show").chmod(0o755)
        self.write("job.py", "")
        expected = ":".join(["/first", "/second", *(str(self.folder / place) for place in FOLDERS.values())])
        for text in ("emblem.serve('models', program=show)",
                     "emblem.launching.PROGRAM = show\nemblem.launch(folder + '/job.py', ranks=1)",
                     "emblem._runtime.PROGRAM = show\nimport emblem._program\nemblem._program.main()"):
            _, errors = self.run_python(f"import emblem, pathlib\nfolder = {str(self.folder)!r}\nshow = pathlib.Path(folder, 'show')\n"
                                        + text, LD_LIBRARY_PATH="/first:/second")
            self.assertIn(expected, errors.replace("\n", " "), text)


class VersionsTest(unittest.TestCase):
    def test_versions_are_shown(self):
        made = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; import emblem; emblem.show_versions()"],
                              capture_output=True, text=True, timeout=120)
        for part in (f"emblem {emblem.__version__} in ", "Python 3.", "numpy ", "nvidia-nccl-cu13", "level"):
            self.assertIn(part, made.stdout, made.stderr)


if __name__ == "__main__":
    unittest.main()
