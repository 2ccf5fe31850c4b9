import torch

from heads import classes_of, output, tower_head
from layers import mlp
from models.mask_net import mask_net
from models.mmoe import mixture


def build(store, inputs, config):
    x = inputs.first_group()
    if config.has("mask_net"):
        x = mask_net(store, "mask_net", x, config.get("mask_net"))
    x = mlp(store, "bottom", x, config.get("bottom_mlp"))
    towers = config.all("task_towers")
    names = [tower.get("tower_name") for tower in towers]
    values = mixture(store, x, config, names) if config.has("expert_mlp") else [x] * len(towers)
    values = [mlp(store, f"towers.{name}", value, tower.get("mlp")) for name, value, tower in zip(names, values, towers)]
    related, heads = {}, []
    for name, value, tower in zip(names, values, towers):
        if tower.has("relation_mlp"):
            value = torch.cat([value] + [related[other] for other in tower.all("relation_tower_names")], dim=1)
            value = mlp(store, f"relations.{name}", value, tower.get("relation_mlp"))
        related[name] = value
        heads.append(tower_head(inputs, tower, output(store, f"output.{name}", value, classes_of(tower))))
    return heads
