import torch

from heads import classes_of, output, tower_head
from layers import layers_of, linear, mlp


def mixed(gate, experts):
    """gate [B, K], experts K times [B, n]: [B, n]."""
    return torch.einsum("bk,bkn->bn", gate, torch.stack(experts, dim=1))


def gate_of(store, scope, x, experts, gate_mlp=None):
    return torch.softmax(linear(store, f"{scope}.{layers_of(gate_mlp)}", mlp(store, scope, x, gate_mlp), experts), dim=1)


def mixture(store, x, config, tasks):
    """An input for each task."""
    count = config.get("num_expert", 3)
    experts = [mlp(store, f"experts.{k}", x, config.get("expert_mlp")) for k in range(count)]
    return [mixed(gate_of(store, f"gates.{task}", x, count, config.get("gate_mlp")), experts) for task in tasks]


def towers(store, inputs, config, values):
    heads = []
    for tower, x in zip(config.all("task_towers"), values):
        name = tower.get("tower_name")
        x = mlp(store, f"towers.{name}", x, tower.get("mlp"))
        heads.append(tower_head(inputs, tower, output(store, f"output.{name}", x, classes_of(tower))))
    return heads


def build(store, inputs, config):
    tasks = [tower.get("tower_name") for tower in config.all("task_towers")]
    return towers(store, inputs, config, mixture(store, inputs.first_group(), config, tasks))
