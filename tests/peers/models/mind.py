"""MIND: several vectors of a user, routed from the history."""

import math

import torch

from encoders import mask_of
from layers import linear, mlp
from models.matching import heads_of, similar, vectors_of
from pbtxt import Message

WORD = (1 << 64) - 1
CAPSULES, GOLDEN = 0x63617073756C6573, 0x9E3779B97F4A7C15


def mixed(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return x ^ x >> 31


def normal_number(seed, index):
    """A normal number by its index alone."""
    bits = mixed((mixed(mixed(seed + GOLDEN & WORD)) + index * GOLDEN) & WORD)
    u, v = ((bits >> 40) + 1) / 2**24, (bits >> 8 & 0xFFFFFF) / 2**24
    return math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)


def first_logits(longest, capsules, config, dtype):
    """[longest, capsules]"""
    if config.get("routing_init_method", "normal") == "zeros":
        return torch.zeros(longest, capsules, dtype=dtype)
    rows = [[normal_number(CAPSULES, t * 64 + k) for k in range(capsules)] for t in range(longest)]
    return config.get("routing_logits_stddev", 1.0) * torch.tensor(rows, dtype=dtype)


def count_of(length, config):
    """Capsules of a history."""
    if config.get("const_caps_num", False):
        return config.get("max_k", 5)
    return sum(k == 0 or 2**k < length for k in range(config.get("max_k", 5)))


def squash(v, power):
    n = v.norm(dim=-1, keepdim=True).clamp(min=1e-7)
    return (n**2 / (1 + n**2)) ** power * v / n


def route(c, lengths, config):
    """c [B, T, high_dim]; out the capsules [B, K, high_dim] and which there are [B, K]."""
    capsules, scale = config.get("max_k", 5), config.get("routing_logits_scale", 20.0)
    most = config.get("max_seq_len", 0)
    is_read = mask_of(c, lengths.clamp(max=most) if most > 0 else lengths)
    counts = torch.tensor([count_of(int(length), config) for length in lengths])
    is_there = torch.arange(capsules)[None, :] < counts[:, None]
    fixed = c.detach()
    shares = first_logits(c.shape[1], capsules, config, c.dtype)[None].repeat(len(c), 1, 1)
    for iteration in range(config.get("num_iters", 3)):
        if iteration > 0:
            v = torch.einsum("btk,btd->bkd", shares * is_read[:, :, None], fixed)
            shares = shares + torch.einsum("bkd,btd->btk", v, fixed) / fixed.norm(dim=2, keepdim=True).clamp(min=1e-12)
        shares = torch.softmax((scale * shares).masked_fill(~is_there[:, None, :], -torch.inf), dim=2)
    v = torch.einsum("btk,btd->bkd", shares * is_read[:, :, None], c)
    return squash(v, config.get("squash_pow", 1.0)), is_there


def without_last(config):
    """All layers of an MLP but the last."""
    out = Message()
    out.fields = config.fields | {"hidden_units": config.all("hidden_units")[:-1]}
    return out


def ending_linear(store, scope, x, config, bias):
    """An MLP whose last layer has no activation."""
    layers = without_last(config)
    if not bias:
        layers.fields["bias"] = [False]
    return linear(store, f"{scope}.output.0", mlp(store, scope, x, layers), config.all("hidden_units")[-1], bias=bias)


def interests_of(store, inputs, config):
    """[B, K, output_dim], zeros for those that a user does not have, and which there are [B, K]."""
    tower = config.get("user_tower")
    capsule = tower.get("capsule_config")
    user = ending_linear(store, "user_tower.user", inputs.group(tower.get("input")), tower.get("user_mlp"), True)
    _, history, lengths = inputs.sequence(tower.get("history_input"))
    if tower.has("hist_seq_mlp"):
        history = ending_linear(store, "user_tower.history", history, tower.get("hist_seq_mlp"), False)
    c = linear(store, "user_tower.capsules.0", history, capsule.get("high_dim"), bias=False)
    high, is_there = route(c, lengths, capsule)
    rows, capsules = is_there.shape
    mask = is_there.reshape(-1, 1)
    x = torch.cat([user.repeat_interleave(capsules, 0), high.flatten(0, 1)], dim=1) * mask
    x = mlp(store, "user_tower.interests", x, tower.get("concat_mlp")) * mask
    if config.get("output_dim", 0) > 0:
        x = linear(store, "user_tower.output.0", x, config.get("output_dim"), bias=False)
    return similar(x, config, "COSINE").view(rows, capsules, -1), is_there


def build(store, inputs, config):
    interests, is_there = interests_of(store, inputs, config)
    item = config.get("item_tower")
    items = vectors_of(store, "item_tower", inputs.items.group(item.get("input")), config, item, "COSINE")
    scores = (interests * items[:len(interests), None]).sum(2) * config.get("simi_pow", 10.0)
    weights = torch.softmax(scores.masked_fill(~is_there, -torch.inf), dim=1)
    users = (weights[:, :, None] * interests).sum(1)
    return heads_of(store, inputs, users, items, config, interests.flatten(1))
