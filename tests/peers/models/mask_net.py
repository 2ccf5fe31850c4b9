import torch

from heads import classes_of, only_head, output
from layers import layer_norm, linear, mlp


def mask_block(store, scope, h, v, config):
    ratio = config.get("reduction_ratio", 1.0)
    aggregation = int(h.shape[1] * ratio) if ratio > 0 else config.get("aggregation_dim")
    hidden = torch.relu(linear(store, scope + ".mask.0", v, aggregation))
    mask = linear(store, scope + ".mask.1", hidden, h.shape[1])
    x = linear(store, scope + ".hidden.0", h * mask, config.get("hidden_dim"))
    return torch.relu(layer_norm(store, scope + ".norm.0", x))


def mask_net(store, scope, v, config):
    block = config.get("mask_block")
    normed = layer_norm(store, scope + ".norm.0", v)
    numbers = range(config.get("n_mask_blocks"))
    if config.get("use_parallel", True):
        x = torch.cat([mask_block(store, f"{scope}.blocks.{n}", normed, v, block) for n in numbers], dim=1)
    else:
        x = normed
        for n in numbers:
            x = mask_block(store, f"{scope}.blocks.{n}", x, v, block)
    return mlp(store, scope + ".top", x, config.get("top_mlp"))


def build(store, inputs, config):
    x = mask_net(store, "mask_net", inputs.first_group(), config.get("mask_net_module"))
    return [only_head(inputs, output(store, "output", x, classes_of(inputs.model), bias=False))]
