"""Training from rows in memory and from files."""
from __future__ import annotations

import dataclasses
import numbers as kinds
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from emblem import _core, _cuda
from emblem._arguments import in_order
from emblem._folder import TemporaryFolder
from emblem._metrics import OwnMetrics
from emblem._runtime import LOG, Error, require
from emblem.data import Data
from emblem.launching import is_one_of_many, rank_variables
from emblem.model import Evaluation, Model
from emblem.pipeline import Columns, Pipeline, init, to_pipeline
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
            raise Error("matplotlib draws the plot and is not installed: pip install matplotlib, or emblem-recsys with the extra "
                        "[plot]", "unsupported") from None
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


def train(data: Any = None, pipeline: Union[str, os.PathLike, Pipeline, Model, Any] = None, *, valid: Any = None,
          label: Optional[str] = None, model: str = "", task: str = "", weight: str = "", label_positive: Any = "",
          categories: Columns = (), numbers: Columns = (), skipped: Columns = (), holdout: Optional[float] = None,
          model_dir: Union[str, os.PathLike, None] = None, resume: bool = False, init_from: Union[str, os.PathLike, Model] = "",
          device: str = "cpu", threads: int = 0, precision: str = "", epochs: Optional[int] = None,
          batch_size: Optional[int] = None, lr: Optional[float] = None, seed: Optional[int] = None, max_steps: int = 0,
          early_stopping: Union[int, Mapping[str, Any], bool, None] = None, settings: Optional[Mapping[str, Any]] = None,
          metrics: Optional[Mapping[str, Callable]] = None, tune: Union[bool, int] = False, progress: Optional[bool] = None,
          on_step: Optional[Callback] = None, on_evaluation: Optional[Callback] = None,
          on_checkpoint: Optional[Callable[[str], Any]] = None) -> Model:
    """Trains a model and returns it, with `model.history` as a TrainingResult.

    data: rows to train on (emblem.Data says in which forms); None: those that the pipeline names. An iterator of tables is
    read while training, a few tables at a time, once for each epoch.
    pipeline: a path, text or emblem.Pipeline; or a Model, whose training continues with these rows. None: emblem.init
    chooses one, with label, model, task, weight, label_positive, categories, numbers, skipped and tune as it has them. It may
    also come first, before the data.
    valid: rows to evaluate on; None: as the pipeline says. holdout: the share of the rows that are kept from the training
    for that (init: a tenth).
    model_dir: where checkpoints are kept; None: a temporary folder, which goes with the model.
    init_from: a checkpoint or a Model whose weights the training begins with.
    epochs, batch_size, seed: of the pipeline. lr: the rate of both optimizers. settings: {field: value}, set in a copy of the
    pipeline, last.
    early_stopping: evaluations without improvement after which the training ends, or a dict of metric, patience, min_delta,
    restore_best, higher_is_better; False: it does not.
    metrics: {name: function(labels, predictions)}, computed by every evaluation beside those of the pipeline. Labels are
    numbers, classes those of their order. early_stopping may watch one, with higher_is_better.
    progress: whether a bar is shown; None: in terminals and notebooks.
    on_step, on_evaluation, on_checkpoint: functions that are called with what is reported. One that returns False ends the
    training after the step, with a checkpoint; what it raises ends it at once.

    Ctrl-C ends the training after the present step, with a checkpoint, which the log names.

    >>> rows = {"x": [0.1, 0.9, 0.2, 0.8, 0.7] * 80, "y": [0, 1, 0, 1, 0] * 80}
    >>> model = emblem.train(rows, label="y", epochs=3, early_stopping=False, progress=False)
    >>> model.history.outcome
    'finished'
    """
    require(str, device=device, precision=precision)
    require(kinds.Integral, threads=threads, max_steps=max_steps)
    require(kinds.Real, holdout=0 if holdout is None else holdout, lr=0 if lr is None else lr)
    if settings is not None and not isinstance(settings, Mapping):
        raise TypeError(f"settings is a {type(settings).__name__}; expected a dict of fields and values")
    _cuda.load(device)
    data, plan = in_order(data, pipeline)
    data = data if data is None or isinstance(data, Data) else Data(data)
    valid = valid if valid is None or isinstance(valid, Data) else Data(valid)
    choices = {"label": label, "model": model, "task": task, "weight": weight, "label_positive": label_positive,
               "categories": categories, "numbers": numbers, "skipped": skipped, "tune": tune or False}
    chosen = _pipeline_for(data, plan, valid, choices, holdout, {"device": device, "threads": threads, "progress": progress,
                                                                 "seed": 1 if seed is None else seed})
    _set(chosen, {"train_config.num_epochs": epochs, "data_config.batch_size": batch_size, "train_config.seed": seed})
    _set_rates(chosen, lr)
    _set_early_stopping(chosen, early_stopping)
    chosen.update(settings or {})
    _check_passes(data, valid, chosen, bool(metrics))
    own = OwnMetrics(metrics, is_run=True) if metrics else None
    if is_one_of_many() and not model_dir:
        raise Error("a training on several ranks needs a model_dir that all of them see", "invalid_argument")
    folder = None if model_dir else TemporaryFolder()
    target = os.path.join(folder.name, "model") if folder else os.fspath(model_dir or "")
    begin = init_from or (plan if isinstance(plan, Model) else "")
    watch = _Watch(progress, on_step, on_evaluation, on_checkpoint)
    run = _core.Trainer(chosen.core, data.core if data else None, valid.core if valid else None, model_dir=target, resume=resume,
                        init_from=begin.checkpoint if isinstance(begin, Model) else os.fspath(begin), device=device,
                        threads=threads, precision=precision, max_steps=max_steps, ranks_from=rank_variables(), on_step=watch.step,
                        on_progress=watch.bar.update if watch.bar.is_shown else None,
                        on_evaluation=watch.evaluation, on_checkpoint=watch.checkpoint,
                        metric_names=own.names if own else [], own_metrics=own)
    watch.run = run
    if own:
        own.interrupted = run.cancel
    try:
        result = _to_the_end(run, watch, folder)
        outcome = "stopped by a callback" if watch.has_stopped else result["outcome"]
        watch.bar.finish(f"{outcome} after {result['steps']:,} steps", result["evaluation"]["metrics"])
    finally:
        watch.bar.close()
        run.abandon()
    history = TrainingResult(outcome, result["steps"], result["rows"], result["bad_rows"], result["seconds"], result["checkpoint"],
                             Evaluation(result["evaluation"]), watch.steps, watch.evaluations, result["rank"], result["ranks"])
    return Model(result["checkpoint"] or target, device=device, threads=threads, precision=precision, folder=folder, history=history)


class _Watch:
    """What a run reports: kept, shown, and passed on to functions of the user's."""

    def __init__(self, progress: Optional[bool], on_step: Optional[Callback], on_evaluation: Optional[Callback],
                 on_checkpoint: Optional[Callable]) -> None:
        for name, function in (("on_step", on_step), ("on_evaluation", on_evaluation), ("on_checkpoint", on_checkpoint)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} is a {type(function).__name__}; expected a function")
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
def _check_passes(data: Optional[Data], valid: Optional[Data], pipeline: Pipeline, has_metrics: bool) -> None:
    if pipeline.train_config.num_epochs > 1:
        _require_rereadable(data, f"train_config.num_epochs is {pipeline.train_config.num_epochs}")
    if valid is None and pipeline.data_config.holdout_ratio > 0:
        _require_rereadable(data, "data_config.holdout_ratio holds out rows of them to evaluate on; give valid")
    if pipeline.train_config.eval_epochs or pipeline.train_config.eval_steps:
        _require_rereadable(valid, "valid is read by every evaluation")
    if has_metrics:
        _require_rereadable(valid, "metrics are tried on a few rows of valid first")


def _set(pipeline: Pipeline, fields: Mapping[str, Any]) -> None:
    pipeline.update({field: value for field, value in fields.items() if value is not None})


def _set_rates(pipeline: Pipeline, lr: Optional[float]) -> None:
    if lr is None:
        return
    for place in ("train_config.sparse_optimizer", "train_config.dense_optimizer"):
        for field in pipeline.core.fields(place):
            if field["is_set"] and field["name"].endswith("_optimizer"):
                pipeline[f"{place}.{field['name']}.lr"] = lr


def _set_early_stopping(pipeline: Pipeline, given: Union[int, Mapping[str, Any], bool, None]) -> None:
    if given is None:
        return
    if given is False:
        del pipeline["train_config.early_stopping"]
        return
    if not isinstance(given, Mapping):
        require(kinds.Integral, early_stopping=int(given) if given is True else given)
    settings = given if isinstance(given, Mapping) else {} if given is True else {"patience": int(given)}
    for name, value in {"patience": pipeline.train_config.early_stopping.patience, **settings}.items():
        pipeline[f"train_config.early_stopping.{name}"] = value


# choices: of emblem.init, which has nothing to choose where a pipeline is given.
def _pipeline_for(data: Optional[Data], plan: Any, valid: Optional[Data], choices: Dict[str, Any], holdout: Optional[float],
                  search: Mapping[str, Any]) -> Pipeline:
    if plan is None:
        if data is None:
            raise Error("neither data nor a pipeline is given; expected one of them", "invalid_argument")
        return init(data, valid=valid, holdout=holdout, **choices, **search)
    given = [name for name, value in choices.items() if value is not None and value is not False and (
        not hasattr(value, "__len__") or len(value) > 0)]
    if given:
        raise Error(f"{given[0]} is given with a pipeline, but chooses what a pipeline says; omit one of them", "invalid_argument")
    pipeline = _to_continue(plan) if isinstance(plan, Model) else to_pipeline(plan).copy()
    _set(pipeline, {"data_config.holdout_ratio": holdout})
    return pipeline


# Rows in memory that the model was trained with are not there any more.
def _to_continue(model: Model) -> Pipeline:
    pipeline = model.pipeline
    for field in ("train_input_path", "eval_input_path"):
        if pipeline[field].startswith("memory://"):
            del pipeline[field]
    return pipeline


# Ctrl-C ends the run after the present step, or within a long evaluation; what was learned is saved, and stays.
def _to_the_end(run: _core.Trainer, watch: _Watch, folder: Optional[TemporaryFolder]) -> Dict[str, Any]:
    try:
        while run.step():
            pass
    except KeyboardInterrupt:
        run.cancel()
        run.step()
        watch.has_stopped = False
    result = run.close()
    if not run.is_cancelled or watch.has_stopped:
        return result
    if not result["checkpoint"]:
        raise KeyboardInterrupt
    if folder is not None:
        folder.keep()
    said = f"interrupted after {result['steps']} steps; what was learned is in {result['checkpoint']}"
    LOG.warning("%s", said)
    raise KeyboardInterrupt(said)
