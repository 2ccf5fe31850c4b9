import torch

from heads import classes_of, only_head, output
from layers import mlp
from store import torch_bound


def cin(store, x0, sizes):
    """x0 [B, F, d]; out [B, sum of sizes]."""
    x, sums = x0, []
    for number, units in enumerate(sizes):
        pairs = (x[:, :, None, :] * x0[:, None, :, :]).flatten(1, 2)  # [B, n * F, d]
        bound = torch_bound(pairs.shape[1])
        weight = store.uniform(f"cin.{number}.weight", (units, pairs.shape[1]), bound)
        bias = store.uniform(f"cin.{number}.bias", (1, units), bound)
        x = weight @ pairs + bias[0][:, None]
        sums.append(x.sum(2))
    return torch.cat(sums, dim=1)


def build(store, inputs, config):
    parts = [cin(store, inputs.wide("wide"), config.get("cin").all("cin_layer_size"))]
    parts.append(mlp(store, "deep", inputs.group("deep"), config.get("deep")))
    x = mlp(store, "final", torch.cat(parts, dim=1), config.get("final"))
    return [only_head(inputs, output(store, "output", x, classes_of(inputs.model)))]
