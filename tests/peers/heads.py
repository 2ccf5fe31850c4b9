"""What a model predicts."""

import dataclasses

import torch

from layers import linear
from losses import over_mean, task_weights


@dataclasses.dataclass
class Head:
    name: str  # "" where there is one
    logits: torch.Tensor  # [B, classes]
    losses: list
    labels: torch.Tensor = None  # [B]
    weights: torch.Tensor = None  # [B] or None: all 1
    outputs: torch.Tensor = None  # what is predicted where it is not logits: [B, domains * classes]


def output(store, scope, x, classes, bias=True):
    return linear(store, scope + ".0", x, classes, bias=bias)


def only_head(inputs, logits, name=""):
    """Of a single-task model."""
    model = inputs.pipeline.get("model_config")
    weights = inputs.first_sample_weight()
    return Head(name, logits, model.all("losses"), inputs.label(inputs.first_label()),
                None if weights is None else over_mean(weights))


def tower_head(inputs, tower, logits):
    return Head(tower.get("tower_name"), logits, tower.all("losses"), inputs.label(tower.get("label_name")),
                task_weights(tower, inputs))


def classes_of(config):
    return config.get("num_class", 1)
