import torch

from heads import classes_of, only_head, output
from layers import mlp


def pairs(vectors):
    """[B, dim]: ((sum v)^2 - sum v^2) / 2"""
    return 0.5 * (vectors.sum(1) ** 2 - (vectors**2).sum(1))


def build(store, inputs, config):
    wide = inputs.wide("wide").sum((1, 2))[:, None]
    fm = pairs(inputs.vectors("fm" if inputs.has("fm") else "deep"))
    deep = mlp(store, "deep", inputs.group("deep"), config.get("deep"))
    classes = classes_of(inputs.model)
    if config.has("final"):
        x = mlp(store, "final", torch.cat([wide, fm, deep], dim=1), config.get("final"))
        return [only_head(inputs, output(store, "output", x, classes))]
    return [only_head(inputs, wide + fm.sum(1, keepdim=True) + output(store, "output", deep, classes))]
