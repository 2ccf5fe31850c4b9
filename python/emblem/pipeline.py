"""Pipelines: what is trained and how."""
from __future__ import annotations

import html
import numbers as kinds
import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Union

import numpy as np

from emblem import _core, _cuda
from emblem._runtime import LOG, Error, require
from emblem.data import is_read_once, named, to_core
from emblem.progress import Progress


class Section:
    """A message of a pipeline: its fields are attributes, with the types and the defaults of docs/configuration.md.

    >>> pipeline = emblem.Pipeline("train_config {}")
    >>> pipeline.train_config.num_epochs = 3
    >>> pipeline.train_config.num_epochs, pipeline.train_config.seed
    (3, 1)
    >>> pipeline.train_config.num_epoch
    Traceback (most recent call last):
    AttributeError: train_config has no field 'num_epoch'; did you mean 'num_epochs'?
    """

    __slots__ = ("_pipeline", "_path")
    _pipeline: "Pipeline"
    _path: str

    def __init__(self, pipeline: "Pipeline", path: str) -> None:
        object.__setattr__(self, "_pipeline", pipeline)
        object.__setattr__(self, "_path", path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _value(self._pipeline, self._path, _field(self._pipeline, self._path, name))

    def __setattr__(self, name: str, value: Any) -> None:
        _field(self._pipeline, self._path, name)
        self._pipeline[_join(self._path, name)] = value

    def __delattr__(self, name: str) -> None:
        """Removes what was set."""
        _field(self._pipeline, self._path, name)
        self._pipeline.core.remove(_join(self._path, name))

    def __dir__(self) -> List[str]:
        return [field["name"] for field in self._pipeline.core.fields(self._path)]

    def __contains__(self, name: str) -> bool:
        """Whether a field is set."""
        return any(field["name"] == name and field["is_set"] for field in self._pipeline.core.fields(self._path))

    def to_dict(self) -> dict:
        """The fields that are set, with those of the messages in it."""
        made = {}
        for field in self._pipeline.core.fields(self._path):
            if field["is_set"]:
                value = _value(self._pipeline, self._path, field)
                made[field["name"]] = value.to_dict() if isinstance(value, Section) else value.to_list() if isinstance(
                    value, Sections) else value
        return made

    def __repr__(self) -> str:
        return f"<{self._path}: {self.to_dict()}>"


class Sections(Sequence):
    """The elements of a repeated message, as `pipeline.feature_configs`."""

    def __init__(self, pipeline: "Pipeline", path: str) -> None:
        self._pipeline, self._path = pipeline, path

    def __len__(self) -> int:
        parent, _, name = self._path.rpartition(".")
        return int(_field(self._pipeline, parent, name)["count"])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        return Section(self._pipeline, f"{self._path}[{self._place(index)}]")

    def __delitem__(self, index: int) -> None:
        self._pipeline.core.remove(f"{self._path}[{self._place(index)}]")

    def append(self, value: Mapping[str, Any]) -> None:
        """Adds an element: a dict of its fields."""
        self._pipeline[self._path + "[+]"] = value

    def to_list(self) -> list:
        return [one.to_dict() for one in self]

    def _place(self, index: int) -> int:
        count = len(self)
        place = index + count if index < 0 else index
        if not 0 <= place < count:
            raise IndexError(f"{self._path}[{index}] does not exist: there are {count}")
        return place

    def __repr__(self) -> str:
        return f"<{self._path}: {len(self)} elements>"


class Pipeline:
    """Text of the format that docs/configuration.md describes, as an object whose fields are attributes.

    >>> pipeline = emblem.init({"x": [1.0, 2.0, 1.5, 2.5] * 50, "y": [0, 1, 1, 0] * 50}, label="y")
    >>> pipeline["train_config.num_epochs"] = 2
    >>> pipeline.train_config.num_epochs
    2
    >>> [feature.to_dict() != {} for feature in pipeline.feature_configs]
    [True]
    >>> "num_epochs: 2" in pipeline.text
    True
    """

    _OWN = ("core", "summary", "warnings")

    def __init__(self, source: Union[str, os.PathLike, _core.Pipeline], summary: str = "",
                 warnings: Iterable[str] = ()) -> None:
        if isinstance(source, _core.Pipeline):
            self.core = source
        elif isinstance(source, os.PathLike) or isinstance(source, str) and _is_path(source):
            if not os.path.exists(source):
                raise Error(f"there is no pipeline {os.fspath(source)}", "not_found")
            self.core = _core.Pipeline.from_file(os.fspath(source))
        elif not isinstance(source, str):
            raise TypeError(f"a pipeline is a {type(source).__name__}; expected an emblem.Pipeline, its path or its text")
        else:
            self.core = _core.Pipeline.from_text(source)
        self.summary = summary  # a table of the columns, where `init` made it
        self.warnings = list(warnings)

    @property
    def text(self) -> str:
        return self.core.text

    @property
    def labels(self) -> List[str]:
        """Columns that are labels."""
        return self.core.labels

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self._OWN:
            raise AttributeError(name)
        return _value(self, "", _field(self, "", name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._OWN:
            object.__setattr__(self, name, value)
        else:
            _field(self, "", name)
            self[name] = value

    def __delattr__(self, name: str) -> None:
        _field(self, "", name)
        self.core.remove(name)

    def __dir__(self) -> List[str]:
        return sorted([*object.__dir__(self), *(field["name"] for field in self.core.fields())])

    def __getitem__(self, field: str) -> Any:
        """The value of "path.to[0].field"."""
        path, _, name = field.rpartition(".")
        name, bracket, index = name.partition("[")
        value = _value(self, path, _find(self, path, name))
        if not bracket:
            return value
        try:
            return value[int(index.rstrip("]"))]
        except (ValueError, TypeError, IndexError):
            raise Error(f"{field} does not exist", "invalid_argument") from None

    def __setitem__(self, field: str, value: Any) -> None:
        """Sets "path.to[0].field". True, numbers, texts, lists of them, and dicts of the fields of a message."""
        _assign(self, field, value)

    def __delitem__(self, field: str) -> None:
        """Removes a field, or an element of a list."""
        self.core.remove(field)

    def update(self, settings: Mapping[str, Any]) -> "Pipeline":
        for field, value in settings.items():
            self[field] = value
        return self

    def copy(self) -> "Pipeline":
        return Pipeline(self.core.copy(), self.summary, self.warnings)

    def save(self, path: Union[str, os.PathLike]) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"emblem.Pipeline({len(self.text)} characters, labels {self.labels})"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.summary or self.text)}</pre>"

    def __reduce__(self) -> Any:
        return _restore, (self.text, self.summary, self.warnings)


# Text of a pipeline has fields, "name: value" or "name { ... }".
def _is_path(text: str) -> bool:
    return "\n" not in text and (os.path.exists(text) or text.endswith(".config") or bool(text.strip()) and not set(text) & set(":{"))


def _restore(text: str, summary: str, warnings: List[str]) -> Pipeline:
    return Pipeline(_core.Pipeline.from_text(text), summary, warnings)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _find(pipeline: Pipeline, path: str, name: str) -> dict:
    fields = pipeline.core.fields(path)
    found = next((field for field in fields if field["name"] == name), None)
    if found is None:
        import difflib
        owner = f"{path} has" if path else "a pipeline has"
        near = difflib.get_close_matches(name, [field["name"] for field in fields], 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise Error(f"{owner} no field {name!r}{hint}", "invalid_argument")
    return found


def _field(pipeline: Pipeline, path: str, name: str) -> dict:
    try:
        return _find(pipeline, path, name)
    except Error as error:
        raise AttributeError(str(error)) from None


_READERS: Dict[str, Callable[[str], Any]] = {"int": int, "float": float, "text": str, "choice": str, "bool": lambda text: text == "true"}


def _value(pipeline: Pipeline, path: str, field: dict) -> Any:
    place = _join(path, field["name"])
    if field["type"] == "message":
        return Sections(pipeline, place) if field["is_repeated"] else Section(pipeline, place)
    values = [_READERS[field["type"]](text) for text in field["values"]]
    return values if field["is_repeated"] else values[0]


# Sets a field. Dicts are messages, lists replace all of a repeated field.
def _assign(pipeline: Pipeline, place: str, value: Any) -> None:
    if isinstance(value, Section):
        value = value.to_dict()
    elif isinstance(value, Sections):
        value = value.to_list()
    if isinstance(value, Mapping):
        pipeline.core.set(place, "{}")
        at = f"{place[:-3]}[{len(pipeline[place[:-3]]) - 1}]" if place.endswith("[+]") else place
        for name, one in value.items():
            _assign(pipeline, _join(at, name), one)
    elif isinstance(value, (list, tuple)) and any(isinstance(one, (Mapping, Section)) for one in value):
        pipeline.core.remove(place)
        for one in value:
            _assign(pipeline, place + "[+]", one)
    elif isinstance(value, (list, tuple)):
        pipeline.core.set(place, "[]")
        for one in value:
            pipeline.core.set(place + "[+]", _text_of(one))
    else:
        pipeline.core.set(place, _text_of(value))


def _text_of(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    # Text that has quotes or spaces at its ends would lose them.
    if isinstance(value, str) and value != value.strip(" \t\n'\""):
        return value if value[:1] in "'\"" and value[:1] == value[-1:] else '"' + value.replace("\\", "\\\\").replace(
            '"', '\\"').replace("\n", "\\n") + '"'
    return str(value)


_TUNING_STEPS = 100_000

Columns = Iterable[Union[str, int]]  # by name or by position


def init(data: Any, label: Optional[str] = None, *, label_positive: Any = "", task: str = "", weight: str = "", model: str = "",
         categories: Columns = (), numbers: Columns = (), skipped: Columns = (), valid: Any = None,
         holdout: Optional[float] = None, rows: int = 200_000, tune: Union[bool, int] = False, seed: int = 1, device: str = "cpu",
         threads: int = 0, progress: Optional[bool] = None) -> Pipeline:
    """The pipeline that `emblem init` writes for these data: features, model and settings by what a sample of the rows says.

    label: the column to predict. task: "binary", "classes" or "number" (by default what the values say). categories, numbers,
    skipped: columns, by name or position, that are read as such, or not at all. valid: rows that evaluations read; without
    them `holdout`, a share of the data, 0 for none.
    tune: training steps to spend on a search for width, rates, regularization and the like, which compares by rows that it
    keeps from `data`, never by `valid`; True: 100,000. `seed` decides which rows and what its trainings draw. What was tried
    is in the summary. Ctrl-C ends the search by KeyboardInterrupt."""
    for name, source in (("data", data), ("valid", valid)):
        if is_read_once(source):
            raise Error(f"{name} is an iterator that can be read once, and a training would begin after the rows that init has "
                        "read; give a function that returns a new iterator, an object whose __iter__ does, or a list",
                        "invalid_argument")
    given = to_core(data)
    if given is None:
        raise Error("no data is given; expected rows or files", "invalid_argument")
    require(str, label=label or "", task=task, weight=weight, model=model, device=device)
    require(kinds.Integral, rows=rows, tune=int(tune) if isinstance(tune, bool) else tune, seed=seed, threads=threads)
    require(kinds.Real, holdout=0 if holdout is None else holdout)
    chosen = {"categories": categories, "numbers": numbers, "skipped": skipped}
    columns = {name: named(data, name, given) for name, given in chosen.items()}
    _cuda.load(device)
    steps = _TUNING_STEPS if tune is True else int(tune)
    bar = Progress(progress if steps else False)
    try:
        core, summary, warnings = _core.init(
            given, label or "", label_positive=str(label_positive), task=task, weight=weight, model=model,
            valid=to_core(valid), holdout=-1.0 if holdout is None else float(holdout), sampled_rows=rows,
            tune=steps, seed=seed, device=device, threads=threads, **columns,
            on_tuning=(lambda done, trial: bar.update_tuning(done, steps, trial)) if bar.is_shown else None)
    finally:
        bar.close()
    for warning in warnings:
        LOG.warning("%s", warning)
    return Pipeline(core, summary, warnings)


def to_pipeline(given: Union[str, os.PathLike, Pipeline]) -> Pipeline:
    return given if isinstance(given, Pipeline) else Pipeline(given)
