"""Training from rows in memory and from files."""
import dataclasses
import os
import tempfile

import numpy as np

from emblem import _core
from emblem._runtime import Error
from emblem.data import Data
from emblem.model import Evaluation, Model
from emblem.pipeline import Pipeline, init, to_pipeline
from emblem.progress import Progress


@dataclasses.dataclass
class TrainingResult:
    """How a training ended: `outcome` is "finished", "stopped early", "reached the target" or "interrupted"."""
    outcome: str
    steps: int
    rows: int
    bad_rows: int
    seconds: float
    checkpoint: str
    evaluation: Evaluation
    steps_log: list  # a dict for each step that was reported
    evaluations: list  # a dict for each evaluation

    def plot(self, metric=None, axes=None):
        """The loss by step, and the evaluations of a metric; needs matplotlib."""
        import matplotlib.pyplot as plt
        axes = axes or plt.gca()
        axes.plot([one["step"] for one in self.steps_log], [one["loss"] for one in self.steps_log], label="loss")
        names = [metric] if metric else sorted({name for one in self.evaluations for name in one["metrics"]})
        for name in names:
            axes.plot([one["step"] for one in self.evaluations], [one["metrics"][name] for one in self.evaluations],
                      marker="o", label=name)
        axes.set_xlabel("step")
        axes.legend()
        return axes

    def _repr_html_(self):
        return (f"<p>{self.outcome} after {self.steps} steps, {self.rows} rows, {self.seconds:.1f} s</p>"
                + self.evaluation._repr_html_())


def train(data=None, pipeline=None, *, valid=None, label=None, model_dir=None, resume=False, init_from="", device="cpu",
          threads=0, precision="", epochs=None, max_steps=0, settings=None, metrics=None, progress=None, on_step=None,
          on_evaluation=None, on_checkpoint=None):
    """Trains a model and returns it, with `model.history` as a TrainingResult.

    data: rows to train on (emblem.Data says in which forms); None: those that the pipeline names.
    pipeline: a path, text or emblem.Pipeline; None: emblem.init(data, label) chooses one.
    valid: rows to evaluate on; None: as the pipeline says (init holds out a tenth of the rows).
    model_dir: where checkpoints are kept; None: a temporary folder, which goes with the model.
    settings: {field: value}, set in a copy of the pipeline. epochs: train_config.num_epochs.
    metrics: {name: function(labels, predictions)}, computed on `valid` at the end.
    on_step, on_evaluation, on_checkpoint: functions that are called with what is reported.

    Ctrl-C ends the training after the present step, with a checkpoint where a model_dir was given.
    """
    data = data if data is None or isinstance(data, Data) else Data(data)
    valid = valid if valid is None or isinstance(valid, Data) else Data(valid)
    pipeline = _pipeline_for(data, pipeline, valid, label)
    if epochs is not None:
        pipeline["train_config.num_epochs"] = epochs
    pipeline.update(settings or {})
    folder = None if model_dir else tempfile.TemporaryDirectory(prefix="emblem-")
    steps, evaluations, bar = [], [], Progress(progress)

    def note_step(event):
        steps.append(event)
        bar.update(event)
        if on_step:
            on_step(event)

    def note_evaluation(event):
        evaluations.append(event)
        if on_evaluation:
            on_evaluation(event)

    run = _core.Trainer(pipeline.core, data.core if data else None, valid.core if valid else None,
                        model_dir=os.fspath(model_dir) if model_dir else os.path.join(folder.name, "model"), resume=resume,
                        init_from=os.fspath(init_from), device=device, threads=threads, precision=precision,
                        max_steps=max_steps, on_step=note_step, on_evaluation=note_evaluation, on_checkpoint=on_checkpoint)
    try:
        result = _to_the_end(run)
    finally:
        bar.close()
        run.abandon()
    history = TrainingResult(result["outcome"], result["steps"], result["rows"], result["bad_rows"], result["seconds"],
                             result["checkpoint"], Evaluation(result["evaluation"]), steps, evaluations)
    model = Model(result["checkpoint"], device=device, threads=threads, precision=precision, folder=folder, history=history)
    if metrics:
        _add_metrics(model, metrics, valid, pipeline)
    return model


def _pipeline_for(data, pipeline, valid, label):
    if pipeline is not None:
        if label is not None:
            raise Error("label is given with a pipeline, which names its labels; omit one of them", "invalid_argument")
        return to_pipeline(pipeline).copy()
    if data is None:
        raise Error("neither data nor a pipeline is given; expected one of them", "invalid_argument")
    return init(data, label, valid=valid)


# Ctrl-C ends the run after the present step, or within a long evaluation; what was learned is saved.
def _to_the_end(run):
    try:
        while run.step():
            pass
    except KeyboardInterrupt:
        run.cancel()
        run.step()
    result = run.close()
    if run.is_cancelled:
        raise KeyboardInterrupt
    return result


def _add_metrics(model, metrics, valid, pipeline):
    if valid is None or valid.is_files:
        raise Error("metrics of one's own need `valid` in memory", "invalid_argument")
    labels = label_values(valid, pipeline)
    predictions = model.predict(valid)
    for name, function in metrics.items():
        model.history.evaluation.metrics[name] = float(function(labels, predictions))


def label_values(data, pipeline):
    """The labels of rows in memory, as numbers: float64 [rows], or [rows, labels]."""
    values = [np.asarray(data.column(name), dtype=np.float64) for name in pipeline.labels]
    return values[0] if len(values) == 1 else np.stack(values, axis=1)


def cv(data, pipeline=None, *, label=None, folds=5, seed=1, **options):
    """Cross-validation: trains `folds` models, each without one part of the rows, and evaluates it on that part.

    data: a DataFrame of pandas, a dict of columns, or an Arrow table. Returns {metric: array of a value per fold}."""
    rows, take = _rows_of(data)
    if not 2 <= folds <= rows:
        raise Error(f"folds is {folds}; expected 2 to {rows}, the number of rows", "invalid_argument")
    part = np.random.default_rng(seed).permutation(rows) % folds
    found = {}
    for fold in range(folds):
        model = train(take(np.flatnonzero(part != fold)), pipeline, valid=take(np.flatnonzero(part == fold)),
                      label=label, **options)
        for name, value in model.history.evaluation.items():
            found.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in found.items()}


def _rows_of(data):
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
