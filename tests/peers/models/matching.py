"""DSSM, DSSMv2 and DAT: a tower of users and one of items; and the ranks of candidates, which MIND shares."""

import torch
import torch.nn.functional as F

from heads import Head, output
from layers import mlp
from losses import over_mean

EQUAL = 1e-9  # scores of equal items, whatever their order of summation


def similar(vectors, config, default="INNER_PRODUCT"):
    return F.normalize(vectors, dim=1, eps=1e-12) if config.get("similarity", default) == "COSINE" else vectors


def vectors_of(store, scope, x, config, tower, default="INNER_PRODUCT"):
    x = mlp(store, scope, x, tower.get("mlp"))
    if config.get("output_dim", 0) > 0:
        x = output(store, scope + ".output", x, config.get("output_dim"))
    return similar(x, config, default)


def ranks_of(scores, labels):
    """What is predicted: -log of the softmax of the row's item, how many items are above it, how many are equal to it."""
    above = scores - scores.gather(1, labels[:, None])
    return torch.stack([torch.logsumexp(above, dim=1), (above > EQUAL).sum(1), (above.abs() <= EQUAL).sum(1)], dim=1)


def ranks_head(store, inputs, users, items, config):
    """Scores of all that the row's item competes with, and its own."""
    rows = len(users)
    scores = users @ items.T / config.get("temperature", 1.0)
    labels = torch.arange(rows, device=scores.device)
    if not config.get("in_batch_negative", False):
        scores = torch.cat([scores[:, :rows].diagonal()[:, None], scores[:, rows:]], dim=1)
        labels = torch.zeros_like(labels)
    weights = inputs.first_sample_weight()
    return Head("", scores, inputs.model.all("losses"), labels, None if weights is None else over_mean(weights),
                None if store.training else ranks_of(scores, labels))


def heads_of(store, inputs, users, items, config, user_vectors=None):
    """`user_vectors`: what is predicted where it is not what is compared."""
    return [ranks_head(store, inputs, users, items, config),
            Head("user_tower", users if user_vectors is None else user_vectors, []), Head("item_tower", items, [])]


def build_dssm(store, inputs, config):
    user, item = config.get("user_tower"), config.get("item_tower")
    users = vectors_of(store, "user_tower", inputs.group(user.get("input")), config, user)
    items = vectors_of(store, "item_tower", inputs.items.group(item.get("input")), config, item)
    return heads_of(store, inputs, users, items, config)


def add_mimicry(inputs, name, augmented, vectors, weight):
    """Squared distances to what the other tower says, which does not learn from them."""
    rows = ((F.normalize(augmented, dim=1, eps=1e-12) - vectors.detach()) ** 2).sum(1)
    weights = inputs.first_sample_weight()
    inputs.extra_losses.append((name, weight * (rows.sum() if weights is None else (over_mean(weights) * rows).mean())))


def build_dat(store, inputs, config):
    user, item = config.get("user_tower"), config.get("item_tower")
    of_users, of_items = inputs.group(user.get("augment_input")), inputs.items.group(item.get("augment_input"))
    users = vectors_of(store, "user_tower", torch.cat([inputs.group(user.get("input")), of_users], 1), config, user)
    items = vectors_of(store, "item_tower", torch.cat([inputs.items.group(item.get("input")), of_items], 1), config, item)
    add_mimicry(inputs, "amm_loss_u", of_users, items[:len(users)], config.get("amm_u_weight", 0.5))
    add_mimicry(inputs, "amm_loss_i", of_items[:len(users)], users, config.get("amm_i_weight", 0.5))
    return heads_of(store, inputs, users, items, config)
