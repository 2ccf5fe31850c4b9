"""Training from rows in memory and from files."""
from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

import numpy as np

from emblem import _core
from emblem._folder import TemporaryFolder
from emblem._runtime import Error
from emblem.data import Data
from emblem.launching import is_one_of_many, rank_variables
from emblem.model import Evaluation, Model
from emblem.pipeline import Pipeline, init, to_pipeline
from emblem.progress import Progress

Callback = Callable[[dict], Any]


@dataclasses.dataclass
class TrainingResult:
    """How a training ended: `outcome` is "finished", "stopped early", "reached the target", "stopped by a callback" or
    "interrupted"."""
    outcome: str
    steps: int
    rows: int
    bad_rows: int
    seconds: float
    checkpoint: str
    evaluation: Evaluation
    steps_log: List[dict] = dataclasses.field(repr=False)  # a dict for each step that was reported
    evaluations: List[dict] = dataclasses.field(repr=False)  # a dict for each evaluation
    rank: int = 0
    ranks: int = 1

    def plot(self, metric: Optional[str] = None, axes: Any = None) -> Any:
        """The loss by step, and the evaluations of a metric; needs matplotlib."""
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise Error("matplotlib draws the plot and is not installed: pip install matplotlib", "unsupported") from None
        axes = axes or plt.gca()
        axes.plot([one["step"] for one in self.steps_log], [one["loss"] for one in self.steps_log], label="loss")
        names = [metric] if metric else sorted({name for one in self.evaluations for name in one["metrics"]})
        for name in names:
            points = [(one["step"], one["metrics"][name]) for one in self.evaluations if name in one["metrics"]]
            if not points:
                raise Error(f"no evaluation has the metric {name!r}", "invalid_argument")
            axes.plot(*zip(*points), marker="o", label=name)
        axes.set_xlabel("step")
        axes.legend()
        return axes

    def _repr_html_(self) -> str:
        return (f"<p>{self.outcome} after {self.steps} steps, {self.rows} rows, {self.seconds:.1f} s</p>"
                + self.evaluation._repr_html_())


def train(data: Any = None, pipeline: Union[str, os.PathLike, Pipeline, None] = None, *, valid: Any = None,
          label: Optional[str] = None, model_dir: Union[str, os.PathLike, None] = None, resume: bool = False,
          init_from: Union[str, os.PathLike] = "", device: str = "cpu", threads: int = 0, precision: str = "",
          epochs: Optional[int] = None, max_steps: int = 0, early_stopping: Union[int, Mapping[str, Any], bool, None] = None,
          settings: Optional[Mapping[str, Any]] = None, metrics: Optional[Mapping[str, Callable]] = None,
          tune: Union[bool, int] = False, progress: Optional[bool] = None, on_step: Optional[Callback] = None,
          on_evaluation: Optional[Callback] = None, on_checkpoint: Optional[Callable[[str], Any]] = None) -> Model:
    """Trains a model and returns it, with `model.history` as a TrainingResult.

    data: rows to train on (emblem.Data says in which forms); None: those that the pipeline names. An iterator of tables is
    read while training, a few tables at a time, once for each epoch.
    pipeline: a path, text or emblem.Pipeline; None: emblem.init(data, label) chooses one.
    valid: rows to evaluate on; None: as the pipeline says (init holds out a tenth of the rows).
    model_dir: where checkpoints are kept; None: a temporary folder, which goes with the model.
    settings: {field: value}, set in a copy of the pipeline. epochs: train_config.num_epochs.
    early_stopping: evaluations without improvement after which the training ends, or a dict of metric, patience, min_delta,
    restore_best; False: it does not.
    metrics: {name: function(labels, predictions)}, computed on `valid` at the end.
    tune: without a pipeline: training steps of a search for its settings (emblem.init); True: 100,000.
    progress: whether a bar is shown; None: in terminals and notebooks.
    on_step, on_evaluation, on_checkpoint: functions that are called with what is reported. One that returns False ends the
    training after the step, with a checkpoint; what it raises ends it at once.

    Ctrl-C ends the training after the present step, with a checkpoint where a model_dir was given.

    >>> rows = {"x": [0.1, 0.9, 0.2, 0.8, 0.7] * 80, "y": [0, 1, 0, 1, 0] * 80}
    >>> model = emblem.train(rows, label="y", epochs=3, early_stopping=False, progress=False)
    >>> model.history.outcome
    'finished'
    """
    data = data if data is None or isinstance(data, Data) else Data(data)
    valid = valid if valid is None or isinstance(valid, Data) else Data(valid)
    search = {"tune": tune, "device": device, "threads": threads, "progress": progress}
    pipeline = _pipeline_for(data, pipeline, valid, label, search)
    if epochs is not None:
        pipeline["train_config.num_epochs"] = epochs
    _set_early_stopping(pipeline, early_stopping)
    pipeline.update(settings or {})
    _check_passes(data, valid, pipeline)
    if metrics and (valid is None or not valid.is_in_memory):
        raise Error("metrics of one's own need `valid` in memory", "invalid_argument")
    if is_one_of_many() and not model_dir:
        raise Error("a training on several ranks needs a model_dir that all of them see", "invalid_argument")
    folder = None if model_dir else TemporaryFolder()
    target = os.path.join(folder.name, "model") if folder else os.fspath(model_dir or "")
    watch = _Watch(progress, on_step, on_evaluation, on_checkpoint)
    run = _core.Trainer(pipeline.core, data.core if data else None, valid.core if valid else None,
                        model_dir=target, resume=resume, init_from=os.fspath(init_from), device=device, threads=threads, precision=precision,
                        max_steps=max_steps, ranks_from=rank_variables(), on_step=watch.step,
                        on_progress=watch.bar.update if watch.bar.is_shown else None,
                        on_evaluation=watch.evaluation, on_checkpoint=watch.checkpoint)
    watch.run = run
    try:
        result = _to_the_end(run, watch)
    finally:
        watch.bar.close()
        run.abandon()
    history = TrainingResult("stopped by a callback" if watch.has_stopped else result["outcome"], result["steps"], result["rows"],
                             result["bad_rows"], result["seconds"], result["checkpoint"], Evaluation(result["evaluation"]),
                             watch.steps, watch.evaluations, result["rank"], result["ranks"])
    model = Model(result["checkpoint"] or target, device=device, threads=threads, precision=precision, folder=folder, history=history)
    if metrics:
        history.evaluation.metrics.update(own_metrics(model, metrics, valid, pipeline))
    return model


class _Watch:
    """What a run reports: kept, shown, and passed on to functions of the user's."""

    def __init__(self, progress: Optional[bool], on_step: Optional[Callback], on_evaluation: Optional[Callback],
                 on_checkpoint: Optional[Callable]) -> None:
        self.steps: List[dict] = []
        self.evaluations: List[dict] = []
        self.bar = Progress(progress)
        self.run: Optional[_core.Trainer] = None
        self.has_stopped = False
        self._on_step, self._on_evaluation, self._on_checkpoint = on_step, on_evaluation, on_checkpoint

    def step(self, event: dict) -> None:
        self.steps.append(event)
        self._call(self._on_step, event)

    def evaluation(self, event: dict) -> None:
        self.evaluations.append(event)
        self.bar.note_evaluation(event)
        self._call(self._on_evaluation, event)

    def checkpoint(self, path: str) -> None:
        self._call(self._on_checkpoint, path)

    def _call(self, function: Optional[Callable], event: Any) -> None:
        if function is not None and function(event) is False and self.run is not None:
            self.has_stopped = True
            self.run.cancel()


def _require_rereadable(data: Optional[Data], reader: str) -> None:
    if data is not None and data.is_read_once:
        raise Error(f"the data are an iterator that can be read once, but are needed again: {reader}; give a function that "
                    "returns a new iterator, an object whose __iter__ does, or a list", "invalid_argument")


# What would fail after an epoch is said before the first.
def _check_passes(data: Optional[Data], valid: Optional[Data], pipeline: Pipeline) -> None:
    if pipeline.train_config.num_epochs > 1:
        _require_rereadable(data, f"train_config.num_epochs is {pipeline.train_config.num_epochs}")
    if valid is None and pipeline.data_config.holdout_ratio > 0:
        _require_rereadable(data, "data_config.holdout_ratio holds out rows of them to evaluate on; give valid")
    if pipeline.train_config.eval_epochs or pipeline.train_config.eval_steps:
        _require_rereadable(valid, "valid is read by every evaluation")


def _set_early_stopping(pipeline: Pipeline, given: Union[int, Mapping[str, Any], bool, None]) -> None:
    if given is None:
        return
    if given is False:
        del pipeline["train_config.early_stopping"]
        return
    settings = given if isinstance(given, Mapping) else {} if given is True else {"patience": int(given)}
    for name, value in {"patience": pipeline.train_config.early_stopping.patience, **settings}.items():
        pipeline[f"train_config.early_stopping.{name}"] = value


def _pipeline_for(data: Optional[Data], pipeline: Any, valid: Optional[Data], label: Optional[str],
                  search: Mapping[str, Any]) -> Pipeline:
    if pipeline is not None:
        if search["tune"]:
            raise Error("tune chooses settings of a pipeline that is not given; omit one of them", "invalid_argument")
        if label is not None:
            raise Error("label is given with a pipeline, which names its labels; omit one of them", "invalid_argument")
        return to_pipeline(pipeline).copy()
    if data is None:
        raise Error("neither data nor a pipeline is given; expected one of them", "invalid_argument")
    return init(data, label, valid=valid, **search)


# Ctrl-C ends the run after the present step, or within a long evaluation; what was learned is saved.
def _to_the_end(run: _core.Trainer, watch: _Watch) -> Dict[str, Any]:
    try:
        while run.step():
            pass
    except KeyboardInterrupt:
        run.cancel()
        run.step()
        watch.has_stopped = False
    result = run.close()
    if run.is_cancelled and not watch.has_stopped:
        raise KeyboardInterrupt
    return result


def own_metrics(model: Model, metrics: Mapping[str, Callable], data: Data, pipeline: Pipeline) -> Dict[str, float]:
    labels, predictions = label_values(data, pipeline), model.predict(data)
    return {name: float(function(labels, predictions)) for name, function in metrics.items()}


def label_values(data: Data, pipeline: Pipeline) -> np.ndarray:
    """The labels of rows in memory, as numbers: float64 [rows], or [rows, labels]."""
    values = [np.asarray(data.column(name), dtype=np.float64) for name in pipeline.labels]
    return values[0] if len(values) == 1 else np.stack(values, axis=1)


def cv(data: Any, pipeline: Union[str, os.PathLike, Pipeline, None] = None, *, label: Optional[str] = None, folds: int = 5,
       seed: int = 1, **options: Any) -> Dict[str, np.ndarray]:
    """Cross-validation: trains `folds` models, each without one part of the rows, and evaluates it on that part.

    data: a DataFrame of pandas, a dict of columns, or an Arrow table. Returns {metric: array of a value per fold}."""
    rows, take = _rows_of(data)
    if not 2 <= folds <= rows:
        raise Error(f"folds is {folds}; expected 2 to {rows}, the number of rows", "invalid_argument")
    part = np.random.default_rng(seed).permutation(rows) % folds
    found: Dict[str, list] = {}
    for fold in range(folds):
        model = train(take(np.flatnonzero(part != fold)), pipeline, valid=take(np.flatnonzero(part == fold)),
                      label=label, **options)
        for name, value in model.history.evaluation.items():
            found.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in found.items()}


def _rows_of(data: Any) -> tuple:
    if isinstance(data, dict):
        columns = {name: np.asarray(values) for name, values in data.items()}
        return len(next(iter(columns.values()))), lambda at: {name: values[at] for name, values in columns.items()}
    if hasattr(data, "iloc"):
        return len(data), lambda at: data.iloc[at]
    if hasattr(data, "take") and hasattr(data, "num_rows"):
        return data.num_rows, data.take
    if hasattr(data, "height"):  # Polars
        return data.height, lambda at: data[at]
    raise Error(f"data is a {type(data).__name__}; expected a DataFrame, an Arrow table or a dict of columns",
                "invalid_argument")
