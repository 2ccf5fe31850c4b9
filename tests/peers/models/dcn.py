import math

import torch

from heads import classes_of, only_head, output
from layers import linear, mlp


def cross_v1(store, x0, config):
    x, width = x0, x0.shape[1]
    for layer in range(config.get("cross_num")):
        w = store.uniform(f"cross.{layer}.weight", (1, width), math.sqrt(6 / (width + 1)))
        b = store.constant(f"cross.{layer}.bias", (1, width), 0)
        x = x0 * (x * w).sum(1, keepdim=True) + b + x
    return x


def cross_v2(store, x0, config):
    x = x0
    for layer in range(config.get("cross_num")):
        inner = linear(store, f"cross.{layer}.v", x, config.get("low_rank"), bias=False)
        x = x0 * linear(store, f"cross.{layer}.u", inner, x0.shape[1]) + x
    return x


def build_v1(store, inputs, config):
    x = inputs.first_group()
    joined = torch.cat([cross_v1(store, x, config.get("cross")), mlp(store, "deep", x, config.get("deep"))], dim=1)
    return finish(store, inputs, config, joined)


def build_v2(store, inputs, config):
    x = inputs.first_group()
    joined = cross_v2(store, mlp(store, "backbone", x, config.get("backbone")), config.get("cross"))
    if config.has("deep"):
        joined = torch.cat([joined, mlp(store, "deep", x, config.get("deep"))], dim=1)
    return finish(store, inputs, config, joined)


def finish(store, inputs, config, x):
    x = mlp(store, "final", x, config.get("final"))
    return [only_head(inputs, output(store, "output", x, classes_of(inputs.model), bias=False))]
