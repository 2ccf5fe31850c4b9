"""Trained models."""
import collections.abc
import os
import pathlib
import shutil
import tempfile

from emblem import _core
from emblem._runtime import Error
from emblem.data import to_core
from emblem.pipeline import Pipeline


class Evaluation(collections.abc.Mapping):
    """Metrics by name, with the number of rows that they were measured on (0 for those of the best weights, which a training
    restored at its end)."""

    def __init__(self, made):
        self.metrics = dict(made["metrics"])
        self.rows, self.bad_rows, self.seconds = made["rows"], made["bad_rows"], made["seconds"]

    def __getitem__(self, metric):
        return self.metrics[metric]

    def __iter__(self):
        return iter(self.metrics)

    def __len__(self):
        return len(self.metrics)

    def __repr__(self):
        values = ", ".join(f"{name} {value:.6g}" for name, value in self.metrics.items())
        return f"Evaluation({values}{f'; {self.rows} rows' if self.rows else ''})"

    def _repr_html_(self):
        rows = "".join(f"<tr><th>{name}</th><td>{value:.6g}</td></tr>" for name, value in self.metrics.items())
        return f"<table>{rows}</table>"


class Model:
    """A trained model. Calls of several threads wait for each other."""

    def __init__(self, checkpoint, *, device="cpu", threads=0, precision="", folder=None, history=None):
        self._options = {"device": device, "threads": threads, "precision": precision}
        self._folder = folder  # a temporary one, which goes with the model
        self.core = _core.Model(os.fspath(checkpoint), **self._options)
        self.history = history  # of the training, where emblem.train made the model

    @property
    def pipeline(self):
        return Pipeline(self.core.pipeline)

    @property
    def checkpoint(self):
        return self.core.checkpoint

    @property
    def step(self):
        return self.core.step

    def evaluate(self, data=None):
        """Metrics over `data`, which have labels; by default over what the pipeline evaluates on."""
        core = to_core(data)
        return Evaluation(self.core.evaluate() if core is None else self.core.evaluate(core))

    def predict(self, data, outputs=None):
        """A float32 array: [rows], or [rows, columns] where the model gives several numbers, in the order of the rows. Their
        names are those of `predict_columns`. Labels may be missing. NaN where a row cannot be read."""
        return self.predict_columns(data, outputs)[1]

    def predict_columns(self, data, outputs=None):
        """(names, predictions)"""
        names, values = self.core.predict(to_core(data), list(outputs or []))
        return names, values[:, 0] if len(names) == 1 else values

    def save(self, folder):
        """Copies the checkpoint to a folder that does not exist yet; emblem.load and the program read it."""
        target = pathlib.Path(folder)
        if target.exists():
            raise Error(f"{target} exists; choose another name, or remove it", "invalid_argument")
        target.parent.mkdir(parents=True, exist_ok=True)
        part = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            shutil.copytree(self.checkpoint, part, dirs_exist_ok=True)
            part.chmod(0o755)
            part.rename(target)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        return str(target)

    def export(self, folder):
        """Writes a version of a model that `emblem serve` loads: REPOSITORY/NAME. The folder of the version."""
        return self.core.export_to(os.fspath(folder))

    def __repr__(self):
        return f"emblem.Model({self.checkpoint!r}, step {self.step})"

    # The files of the checkpoint travel with a pickle: models of estimators are small.
    def __getstate__(self):
        root = pathlib.Path(self.checkpoint)
        files = {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
        return {"name": root.name, "files": files, "options": self._options, "history": self.history}

    def __setstate__(self, state):
        folder = tempfile.TemporaryDirectory(prefix="emblem-")
        root = pathlib.Path(folder.name) / pathlib.Path(state["name"]).name
        for name, contents in state["files"].items():
            path = (root / name).resolve()
            if root.resolve() not in path.parents:
                raise Error(f"the pickled model names {name!r}, which leads out of its folder", "corruption")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents)
        self.__init__(root, folder=folder, history=state["history"], **state["options"])


def load(checkpoint, *, device="cpu", threads=0, precision=""):
    """The model of a checkpoint, or of a model directory: its latest one. Addresses of stores are fetched."""
    return Model(checkpoint, device=device, threads=threads, precision=precision)
