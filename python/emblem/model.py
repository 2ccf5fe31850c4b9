"""Trained models."""
from __future__ import annotations

import collections.abc
import html
import numbers
import os
import pathlib
import shutil
import tempfile
import warnings
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from emblem import _core, _cuda
from emblem._arrays import integers
from emblem._folder import TemporaryFolder
from emblem._metrics import OwnMetrics
from emblem._runtime import Error, require
from emblem.data import to_core
from emblem.index import Index, best_of_rows
from emblem.pipeline import Pipeline


class Evaluation(collections.abc.Mapping):
    """Metrics by name, with the number of rows that they were measured on (0 for those of the best weights, which a training
    restored at its end)."""

    def __init__(self, made: Mapping[str, Any]) -> None:
        self.metrics: dict = dict(made["metrics"])
        self.rows, self.bad_rows, self.seconds = made["rows"], made["bad_rows"], made["seconds"]

    def __getitem__(self, metric: str) -> float:
        return self.metrics[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    def __repr__(self) -> str:
        values = ", ".join(f"{name} {value:.6g}" for name, value in self.metrics.items())
        return f"Evaluation({values}{f'; {self.rows} rows' if self.rows else ''})"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{value:.6g}</td></tr>" for name, value in self.metrics.items())
        return f"<table>{rows}</table>"


class Items:
    """An index of items, with their vectors by id."""

    def __init__(self, index: Index, ids: np.ndarray, vectors: np.ndarray) -> None:
        self.index = index
        order = np.argsort(ids)
        self._ids, self._vectors = ids[order], vectors[order]

    def vectors_of(self, ids: np.ndarray) -> np.ndarray:
        places = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        unknown = ids[self._ids[places] != ids]
        if len(unknown):
            raise Error(f"item {unknown[0]} is not in the index", "not_found")
        return self._vectors[places]


class Model:
    """A trained model. Calls of several threads wait for each other."""

    def __init__(self, checkpoint: Union[str, os.PathLike], *, device: str = "cpu", threads: int = 0, precision: str = "",
                 folder: Optional[TemporaryFolder] = None, history: Any = None) -> None:
        require(str, device=device, precision=precision)
        require(numbers.Integral, threads=threads)
        self._options = {"device": device, "threads": threads, "precision": precision}
        self._folder = folder  # a temporary one, which goes with the model
        _cuda.load(device)
        self.core = _core.Model(os.fspath(checkpoint), device=device, threads=threads, precision=precision)
        self.history = history  # of the training, where emblem.train made the model
        self.items: Optional[Items] = None  # of index_items

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(self.core.pipeline)

    @property
    def checkpoint(self) -> str:
        return self.core.checkpoint

    @property
    def step(self) -> int:
        return self.core.step

    def evaluate(self, data: Any = None, metrics: Optional[Mapping[str, Callable]] = None) -> Evaluation:
        """Metrics over `data`, which have labels; by default over what the pipeline evaluates on. metrics: further ones, functions
        of labels (as numbers) and predictions."""
        return Evaluation(self.core.evaluate(to_core(data), OwnMetrics(metrics) if metrics else None))

    def predict(self, data: Any, outputs: Optional[Sequence[str]] = None) -> np.ndarray:
        """A float32 array: [rows], or [rows, columns] where the model gives several numbers, in the order of the rows. Their
        names are those of `predict_columns`. Labels may be missing. NaN where a row cannot be read."""
        return self.predict_columns(data, outputs)[1]

    def predict_columns(self, data: Any, outputs: Optional[Sequence[str]] = None) -> Tuple[List[str], np.ndarray]:
        """(names, predictions)"""
        core = to_core(data)
        if core is None:
            raise Error("no data is given; expected rows or files", "invalid_argument")
        names, values = self.core.predict(core, list(outputs or []))
        return names, values[:, 0] if len(names) == 1 else values

    def vectors(self, data: Any, tower: str) -> np.ndarray:
        """The vectors of a matching model's "user" or "item" tower, [rows, dim], or [rows, vectors, dim] for a model with
        several vectors of a user, those that it does not use all zeros. `data` have the columns of that tower."""
        self._matching()
        if tower not in ("user", "item"):
            raise Error(f"tower is {tower!r}; expected \"user\" or \"item\"", "invalid_argument")
        config = self.pipeline.model_config
        values = self.predict_columns(data, [f"{tower}_tower_emb"])[1]
        several = tower == "user" and "mind" in config
        return values.reshape((len(values), config.mind.user_tower.capsule_config.max_k, -1) if several else (len(values), -1))

    def index_items(self, items: Any, ids: Any, *, attributes: Union[Mapping[str, Any], Sequence[str]] = (), kind: str = "flat",
                    value_type: str = "fp32", lists: int = 0) -> Index:
        """Encodes items by the item tower, for `recommend` and `similar_items`. items: rows with the columns of that tower.
        ids: integers, each once, or the name of a column of a dict or frame. The rest is as in emblem.Index; attributes may
        name columns, too: ["is_new"]."""
        flags = attributes if isinstance(attributes, Mapping) else {name: items[name] for name in attributes}
        keys = integers("ids", items[ids] if isinstance(ids, str) else ids, np.int64)
        similarity = "cosine" if self._matching().similarity == "COSINE" else "inner_product"
        vectors = self.vectors(items, "item")
        if len(keys) != len(vectors):
            raise Error(f"there are {len(keys)} ids for {len(vectors)} items; expected one for each", "invalid_argument")
        index = Index(vectors, keys, attributes=flags, kind=kind, value_type=value_type, lists=lists, similarity=similarity)
        self.items = Items(index, keys, vectors)
        return index

    def recommend(self, users: Any, k: int = 10, *, exclude: Optional[Sequence[Any]] = None, filter: Sequence[str] = (),
                  allow: Optional[Sequence[Any]] = None, probes: Optional[int] = None) -> Tuple[np.ndarray, np.ndarray]:
        """(ids, scores) of the best k items of `index_items` for each user, as emblem.Index.search gives them. users: rows with
        the columns of the user tower. exclude: items that a user does not get, a list for each. allow: the only items that a
        user may get, a list for each."""
        index = self._items().index
        vectors = self.vectors(users, "user")
        for name, lists in (("exclude", exclude), ("allow", allow)):
            if lists is not None and len(lists) != len(vectors):
                raise Error(f"{name} has {len(lists)} lists for {len(vectors)} users; expected one for each", "invalid_argument")
        if vectors.ndim == 2:
            return index.search(vectors, k, exclude=exclude, filter=filter, allow=allow, probes=probes)
        rows, places = np.nonzero(np.any(vectors != 0, axis=2))
        excluded, allowed = (lists and [lists[int(row)] for row in rows] for lists in (exclude, allow))
        found = index.search(vectors[rows, places], k, exclude=excluded, filter=filter, allow=allowed, probes=probes)
        return best_of_rows(*found, rows, len(vectors), k)

    def similar_items(self, items: Any, k: int = 10, *, filter: Sequence[str] = (), allow: Optional[Sequence[Any]] = None,
                      probes: Optional[int] = None) -> Tuple[np.ndarray, np.ndarray]:
        """(ids, scores) of the k items of `index_items` that are most like each of the items with these ids, without itself.
        allow: the only items that are compared with one, a list for each."""
        known = self._items()
        ids = integers("ids", items, np.int64)
        return known.index.search(known.vectors_of(ids), k, exclude=[[one] for one in ids.tolist()], filter=filter,
                                  allow=allow, probes=probes)

    def _matching(self) -> Any:
        config = self.pipeline.model_config
        for name in ("dssm", "dssm_v2", "dat", "mind"):
            if name in config:
                return getattr(config, name)
        raise Error("this model has no towers of users and items; matching models are dssm, dssm_v2, dat and mind", "unsupported")

    def _items(self) -> Items:
        if self.items is None:
            raise Error("the model has no items yet; call index_items first", "invalid_argument")
        return self.items

    def save(self, folder: Union[str, os.PathLike]) -> str:
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

    def export(self, folder: Union[str, os.PathLike], *, format: str = "emblem", outputs: Sequence[str] = ()) -> str:
        """Writes a version of a model that `emblem serve` loads: REPOSITORY/NAME. The folder of the version.

        With format="onnx": a new folder with model.onnx, which computes `outputs` as `predict` names them (default: a
        probability, number or class probabilities of each tower)."""
        if format == "onnx":
            self.core.export_onnx(os.fspath(folder), list(outputs))
            return os.fspath(folder)
        if format != "emblem":
            raise Error(f"format is {format!r}, expected 'emblem' or 'onnx'", "invalid_argument")
        if outputs:
            raise Error("outputs are chosen with format='onnx'; a server gives out any", "invalid_argument")
        return self.core.export_to(os.fspath(folder))

    def __repr__(self) -> str:
        return f"emblem.Model({self.checkpoint!r}, step {self.step})"

    def _repr_html_(self) -> str:
        name = html.escape(os.path.basename(self.checkpoint))
        return f"<p>emblem.Model {name}, step {self.step}</p>" + (self.history._repr_html_() if self.history else "")

    # The files of the checkpoint travel with a pickle: models of estimators are small.
    def __getstate__(self) -> dict:
        root = pathlib.Path(self.checkpoint)
        files = {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
        return {"name": root.name, "files": files, "options": self._options, "history": self.history}

    def __setstate__(self, state: dict) -> None:
        folder = TemporaryFolder()
        root = pathlib.Path(folder.name) / pathlib.Path(state["name"]).name
        for name, contents in state["files"].items():
            path = (root / name).resolve()
            if root.resolve() not in path.parents:
                raise Error(f"the pickled model names {name!r}, which leads out of its folder", "corruption")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents)
        options = dict(state["options"])
        try:
            Model.__init__(self, root, folder=folder, history=state["history"], **options)
        except Error as error:
            if options["device"] == "cpu":
                raise
            options["device"] = "cpu"  # fails as well where the device was not the reason
            Model.__init__(self, root, folder=folder, history=state["history"], **options)
            warnings.warn(f"the model that was pickled on a GPU computes on CPUs here: {error}", stacklevel=2)


def load(checkpoint: Union[str, os.PathLike], *, device: str = "cpu", threads: int = 0, precision: str = "") -> Model:
    """The model of a checkpoint, or of a model directory: its latest one. Addresses of stores are fetched."""
    return Model(checkpoint, device=device, threads=threads, precision=precision)
