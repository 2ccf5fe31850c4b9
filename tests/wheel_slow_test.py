"""The wheel in a fresh virtual environment, with a PATH that has nothing else: it trains, serves and is imported quickly."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from harness import SOURCE

BUILD = pathlib.Path(os.environ["EMBLEM"]).parent
if not (BUILD / "python/emblem").is_dir():
    print("skipped: this build has no Python package (EMBLEM_PYTHON)")
    sys.exit(77)

TRAIN = """
import numpy as np
import pandas
import emblem

draw = np.random.default_rng(1)
rows = 100_000
frame = pandas.DataFrame({f"user_{at}": draw.integers(0, 10 ** (1 + at % 5), rows) for at in range(10)})
for at in range(5):
    frame[f"price_{at}"] = draw.lognormal(size=rows)
frame["city"] = pandas.Categorical.from_codes(draw.integers(0, 50, rows), [f"c{one}" for one in range(50)])
chance = 1 / (1 + np.exp(2 - frame["user_0"] % 3 - np.log(frame["price_0"])))
frame["click"] = (draw.random(rows) < chance).astype(int)
model = emblem.train(frame, emblem.init(frame, "click", model="deepfm"), progress=False)
print(round(model.history.evaluation["auc"], 4))
assert model.history.evaluation["auc"] > 0.7
"""


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory(prefix="emblem-test-")
        cls.folder = pathlib.Path(cls.kept.name)
        subprocess.run([sys.executable, SOURCE / "tools/wheel.py", BUILD, cls.folder / "dist"], check=True)
        cls.wheel = next((cls.folder / "dist").glob("*.whl"))
        cls.python = cls.folder / "venv/bin/python"
        subprocess.run([sys.executable, "-m", "venv", cls.folder / "venv"], check=True)
        cls.pip("pandas", "numpy", "nanobind-backend")  # the dependencies, whose download is not measured
        cls.seconds_of_install = -time.monotonic()
        cls.pip(cls.wheel)
        cls.seconds_of_install += time.monotonic()

    @classmethod
    def tearDownClass(cls):
        cls.kept.cleanup()

    @classmethod
    def pip(cls, *packages):
        for attempt in range(3):
            if subprocess.run([cls.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
                              check=attempt == 2).returncode == 0:
                return

    def run_python(self, text):
        begin = time.monotonic()
        made = subprocess.run([self.python, "-I", "-c", text], capture_output=True, text=True, timeout=600, cwd=self.folder,
                              env={"PATH": "", "HOME": str(self.folder)})
        self.assertEqual(made.returncode, 0, made.stderr)
        return made.stdout.strip(), time.monotonic() - begin

    def test_a_deepfm_is_trained_from_a_frame_within_a_minute(self):
        auc, seconds = self.run_python(TRAIN)
        print(f"\nwheel {self.wheel.stat().st_size / 1e6:.1f} MB, installed in {self.seconds_of_install:.1f} s; "
              f"100,000 rows trained in {seconds:.1f} s, auc {auc}")
        self.assertLess(self.seconds_of_install + seconds, 60)

    def test_the_import_is_quick(self):
        fastest = {}
        for name in ("numpy", "emblem") * 7:
            _, seconds = self.run_python(f"import {name}")
            fastest[name] = min(seconds, fastest.get(name, 1e9))
        print(f"\nimport numpy {fastest['numpy']:.3f} s, import emblem {fastest['emblem']:.3f} s")
        self.assertLess(fastest["emblem"] - fastest["numpy"], 0.3)

    def test_the_program_is_inside(self):
        made = subprocess.run([self.folder / "venv/bin/emblem", "--version"], capture_output=True, text=True, env={"PATH": ""})
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("emblem", made.stdout)


if __name__ == "__main__":
    unittest.main()
