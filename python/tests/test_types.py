"""Types as mypy sees them: of the package, and of a program that uses it."""
import ast
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import emblem

PACKAGE = pathlib.Path(emblem.__file__).parent

PROGRAM = '''
import numpy as np
import emblem

model: emblem.Model = emblem.train({"x": [1.0, 2.0], "y": [0, 1]}, label="y", epochs=2, progress=False)
predictions: np.ndarray = model.predict({"x": [1.0]})
auc: float = model.evaluate({"x": [1.0], "y": [1]})["auc"]
history: emblem.TrainingResult = model.history
pipeline: emblem.Pipeline = emblem.init({"x": [1.0]}, label="x").copy()
classifier: emblem.EmblemClassifier = emblem.EmblemClassifier(epochs=1).fit([[1.0], [2.0]], [0, 1])
emblem.launch("script.py", ranks=2)
with emblem.serve("models") as server:
    answer = server.client().predict("ctr", {"x": [1.0]})["probability"].mean()
found: dict[str, np.ndarray] = emblem.cv({"x": [1.0]}, label="x")
metrics, models = emblem.cv({"x": [1.0]}, label="x", return_models=True)
probabilities: np.ndarray = emblem.Predictor(models[0]).predict({"x": [1.0]})
'''


class TypesTest(unittest.TestCase):
    def mypy(self, *arguments):
        environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
        return subprocess.run([sys.executable, "-m", "mypy", "--ignore-missing-imports", "--cache-dir", os.devnull, *arguments],
                              capture_output=True, text=True, env=environment, timeout=300)

    def test_the_package_and_a_program_that_uses_it_are_typed(self):
        with tempfile.TemporaryDirectory(prefix="emblem-test-") as folder:
            path = pathlib.Path(folder) / "program.py"
            path.write_text(PROGRAM)
            made = self.mypy("--disallow-untyped-defs", "-p", "emblem")
            self.assertEqual(made.returncode, 0, made.stdout)
            made = self.mypy("--strict", "--follow-imports=silent", path)
            self.assertEqual(made.returncode, 0, made.stdout)
            path.write_text("import emblem\nemblem.train(epochs='3')\nemblem.load(3)\n")
            made = self.mypy("--follow-imports=silent", path)
            self.assertEqual(made.stdout.count("error:"), 2, made.stdout)

    def test_the_stub_of_the_module_has_all_that_the_module_has(self):
        stub = {}
        for node in ast.parse((PACKAGE / "_core.pyi").read_text()).body:
            if isinstance(node, ast.ClassDef):
                stub[node.name] = {one.name for one in node.body if isinstance(one, ast.FunctionDef)} - {"__init__"}
            elif isinstance(node, (ast.FunctionDef, ast.AnnAssign)):
                stub[node.name if isinstance(node, ast.FunctionDef) else node.target.id] = set()
        core = emblem._core
        found = {name: {one for one in vars(value) if not one.startswith("_")} if isinstance(value, type) else set()
                 for name, value in vars(core).items() if not name.startswith("_")}
        self.assertEqual(stub, found)


if __name__ == "__main__":
    unittest.main()
