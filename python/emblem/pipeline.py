"""Pipelines: what is trained and how."""
import os

from emblem import _core
from emblem.data import to_core


class Pipeline:
    """Text of the format that docs/configuration.md describes, as an object whose fields can be set.

    >>> pipeline = emblem.init({"x": [1.0, 2.0, 1.5, 2.5] * 50, "y": [0, 1, 1, 0] * 50}, label="y")
    >>> pipeline["train_config.num_epochs"] = 2
    >>> "num_epochs: 2" in pipeline.text
    True
    """

    def __init__(self, source, summary="", warnings=()):
        if isinstance(source, _core.Pipeline):
            self.core = source
        elif isinstance(source, os.PathLike) or "\n" not in source and os.path.exists(source):
            self.core = _core.Pipeline.from_file(os.fspath(source))
        else:
            self.core = _core.Pipeline.from_text(source)
        self.summary = summary  # a table of the columns, where `init` made it
        self.warnings = list(warnings)

    @property
    def text(self):
        return self.core.text

    @property
    def labels(self):
        """Columns that are labels."""
        return self.core.labels

    def __setitem__(self, field, value):
        """Sets "path.to[0].field". True, numbers, texts and lists of them are written as the format has them."""
        self.core.set(field, _text_of(value))

    def update(self, settings):
        for field, value in settings.items():
            self[field] = value
        return self

    def copy(self):
        return Pipeline(self.core.copy(), self.summary, self.warnings)

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"emblem.Pipeline({len(self.text)} characters, labels {self.labels})"

    def __reduce__(self):
        return _restore, (self.text, self.summary, self.warnings)


def _restore(text, summary, warnings):
    return Pipeline(_core.Pipeline.from_text(text), summary, warnings)


def _text_of(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text_of(one) for one in value) + "]"
    return str(value)


def init(data, label=None, *, label_positive="", task="", weight="", model="", categories=(), numbers=(), skipped=(),
         valid=None, holdout=None, rows=200_000):
    """The pipeline that `emblem init` writes for these data: features, model and settings by what a sample of the rows says.

    label: the column to predict. task: "binary", "classes" or "number" (by default what the values say). valid: rows
    that evaluations read; without them `holdout`, a share of the data, 0 for none."""
    core, summary, warnings = _core.init(
        to_core(data), label or "", label_positive=str(label_positive), task=task, weight=weight, model=model,
        categories=list(categories), numbers=list(numbers), skipped=list(skipped),
        valid=to_core(valid), holdout=-1.0 if holdout is None else float(holdout), sampled_rows=rows)
    return Pipeline(core, summary, warnings)


def to_pipeline(given):
    return given if isinstance(given, Pipeline) else Pipeline(given)
