"""MultiTower, and with din_towers MultiTowerDIN."""

import torch

from encoders import din
from heads import classes_of, only_head, output
from layers import mlp


def build(store, inputs, config):
    parts = []
    for tower in config.all("towers"):
        name = tower.get("input")
        parts.append(mlp(store, f"towers.{name}", inputs.group(name), tower.get("mlp")))
    for tower in config.all("din_towers"):
        name = tower.get("input")
        query, sequence, lengths = inputs.sequence(name)
        parts.append(din(store, f"din_towers.{name}", query, sequence, lengths, tower.get("attn_mlp")))
    x = mlp(store, "final", torch.cat(parts, dim=1), config.get("final"))
    return [only_head(inputs, output(store, "output", x, classes_of(inputs.model)))]
