import torch
import torch.nn.functional as F

from heads import classes_of, only_head, output
from layers import mlp
from losses import over_mean


def weighted_mean(rows, weights):
    return (rows if weights is None else weights * rows).mean()


def similarity(light, booster, function, weights):
    if function == "COSINE":
        return -0.1 * weighted_mean(F.cosine_similarity(booster, light, dim=1, eps=1e-12), weights)
    rows = ((booster - light) ** 2).sum(1)
    return torch.sqrt((rows if weights is None else weights * rows).sum())


def build(store, inputs, config):
    z = mlp(store, "shared", inputs.first_group(), config.get("share_mlp"))
    classes = classes_of(inputs.model)
    light_layers, booster_layers = [], []
    light = output(store, "output.light", mlp(store, "light", z.detach(), config.get("light_mlp"), light_layers), classes)
    booster = output(store, "output.booster", mlp(store, "booster", z, config.get("booster_mlp"), booster_layers), classes)
    heads = [only_head(inputs, light, "light")]
    if not store.training:
        return heads
    weights = inputs.first_sample_weight()
    weights = None if weights is None else over_mean(weights)
    inputs.extra_losses.append(("hint_l2_loss", weighted_mean(((light - booster.detach()) ** 2).mean(1), weights)))
    if config.get("feature_based_distillation", False):
        for i, layer in enumerate(light_layers):
            j = next((j for j, other in enumerate(booster_layers) if other.shape[1] == layer.shape[1]), None)
            if j is not None:
                function = config.get("feature_distillation_function", "COSINE")
                inputs.extra_losses.append((f"similarity_{i}_{j}", similarity(layer, booster_layers[j].detach(), function, weights)))
    return [only_head(inputs, booster, "booster"), *heads]
