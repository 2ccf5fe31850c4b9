import torch

from heads import classes_of, only_head, output
from layers import mlp


def build(store, inputs, config):
    wide = inputs.wide("wide").sum((1, 2))[:, None]
    deep = mlp(store, "deep", inputs.group("deep"), config.get("deep"))
    classes = classes_of(inputs.model)
    if config.has("final"):
        x = mlp(store, "final", torch.cat([wide, deep], dim=1), config.get("final"))
        return [only_head(inputs, output(store, "output", x, classes))]
    return [only_head(inputs, wide + output(store, "output", deep, classes))]
