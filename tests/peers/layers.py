"""Linear layers, normalizations, activations and MLPs."""

import torch
import torch.nn.functional as F

from store import torch_bound

EPSILON = 1e-5


def linear(store, name, x, units, bias=True):
    bound = torch_bound(x.shape[-1])
    weight = store.uniform(name + ".weight", (units, x.shape[-1]), bound)
    shift = store.uniform(name + ".bias", (1, units), bound) if bias else None
    return F.linear(x, weight, None if shift is None else shift[0])


def layer_norm(store, name, x):
    scale = store.constant(name + ".weight", (1, x.shape[-1]), 1)
    shift = store.constant(name + ".bias", (1, x.shape[-1]), 0)
    return F.layer_norm(x, x.shape[-1:], scale[0], shift[0], EPSILON)


def running_norm(store, name, x, scale=None, shift=None):
    mean = store.statistic(name + ".running_mean", (1, x.shape[-1]), 0)
    variance = store.statistic(name + ".running_var", (1, x.shape[-1]), 1)
    return F.batch_norm(x, mean[0], variance[0], scale, shift, store.training, 0.1, EPSILON)


def batch_norm(store, name, x):
    scale = store.constant(name + ".weight", (1, x.shape[-1]), 1)
    shift = store.constant(name + ".bias", (1, x.shape[-1]), 0)
    return running_norm(store, name, x, scale[0], shift[0])


def prelu(store, name, x):
    slope = store.constant(name + ".weight", (1, 1), 0.25)
    return torch.where(x >= 0, x, slope * x)


def dice(store, name, x):
    alpha = store.constant(name + ".alpha", (1, x.shape[-1]), 0)
    p = torch.sigmoid(running_norm(store, name, x))
    return alpha * (1 - p) * x + p * x


PLAIN = {
    "nn.ReLU": torch.relu, "nn.Sigmoid": torch.sigmoid, "nn.Tanh": torch.tanh, "nn.GELU": F.gelu, "nn.SiLU": F.silu,
    "nn.LeakyReLU": F.leaky_relu, "nn.Identity": lambda x: x, "": lambda x: x,
}


def activate(store, name, x, activation):
    if activation == "nn.PReLU":
        return prelu(store, name + ".activation", x)
    if activation == "Dice":
        return dice(store, name + ".activation", x)
    return PLAIN[activation](x)


def needs_rows(config):
    """Whether an MLP has statistics over rows, which must not count padding."""
    return config.get("use_bn", False) or config.get("activation", "") == "Dice"


def layers_of(config):
    return 0 if config is None else len(config.all("hidden_units"))


def mlp(store, scope, x, config, outputs=None):
    """`outputs`, a list, receives the output of each layer. Without a config: x."""
    if config is None:
        return x
    for number, units in enumerate(config.all("hidden_units")):
        name = f"{scope}.{number}"
        use_bn = config.get("use_bn", False)
        x = linear(store, name, x, units, bias=config.get("bias", True) and not use_bn)
        if use_bn:
            x = batch_norm(store, name + ".norm", x)
        elif config.get("use_ln", False):
            x = layer_norm(store, name + ".norm", x)
        x = activate(store, name, x, config.get("activation", "nn.ReLU"))
        if ratios := config.all("dropout_ratio"):
            x = F.dropout(x, ratios[number % len(ratios)], store.training)
        if outputs is not None:
            outputs.append(x)
    return x
