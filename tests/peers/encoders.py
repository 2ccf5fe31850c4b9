"""Sequence encoders: a query [B, Dq], a sequence [B, T, Ds], zero beyond each row's length [B]; out [B, ...]."""

import torch
import torch.nn.functional as F

from layers import layers_of, linear, mlp, needs_rows, prelu

FAR = -2.0**31 + 1


def mask_of(sequence, lengths):
    return torch.arange(sequence.shape[1], device=lengths.device)[None, :] < lengths[:, None]  # [B, T]


def cut(sequence, lengths, limit):
    return (sequence[:, :limit], lengths.clamp(max=limit)) if limit > 0 else (sequence, lengths)


def widened(query, sequence):
    return F.pad(query, (0, sequence.shape[2] - query.shape[1]))[:, None, :].expand_as(sequence)


def element_mlp(store, scope, x, mask, config):
    """An MLP of each element. Statistics over rows are those of real elements."""
    if not needs_rows(config):
        return mlp(store, scope, x, config)
    values = mlp(store, scope, x[mask], config)
    return torch.zeros(*x.shape[:2], values.shape[-1], dtype=x.dtype, device=x.device).masked_scatter(mask[:, :, None], values)


def attend(scores, sequence, mask):
    weights = torch.softmax(scores.masked_fill(~mask, FAR), dim=1)
    return (weights[:, :, None] * sequence).sum(1)


def din(store, scope, query, sequence, lengths, attn_mlp):
    mask, q = mask_of(sequence, lengths), widened(query, sequence)
    x = torch.cat([q, sequence, q - sequence, q * sequence], dim=2)
    hidden = element_mlp(store, scope, x, mask, attn_mlp)
    return attend(linear(store, f"{scope}.{layers_of(attn_mlp)}", hidden, 1)[:, :, 0], sequence, mask)


def din_encoder(store, scope, query, sequence, lengths, config):
    sequence, lengths = cut(sequence, lengths, config.get("max_seq_length", 0))
    return din(store, scope, query, sequence, lengths, config.get("attn_mlp"))


def simple_attention(store, scope, query, sequence, lengths, config):
    sequence, lengths = cut(sequence, lengths, config.get("max_seq_length", 0))
    scores = (sequence * query[:, None, :]).sum(2)
    return attend(scores, sequence, mask_of(sequence, lengths))


def pooling_encoder(store, scope, query, sequence, lengths, config):
    sequence, lengths = cut(sequence, lengths, config.get("max_seq_length", 0))
    total = sequence.sum(1)
    if config.get("pooling_type", "mean") == "sum":
        return total
    return total / lengths.clamp(min=1)[:, None]


def self_attention_encoder(store, scope, query, sequence, lengths, config):
    sequence, lengths = cut(sequence, lengths, config.get("max_seq_length", 0))
    width, heads = config.get("multihead_attn_dim", 512), config.get("num_heads", 8)
    projected = []
    for name in ("query", "key", "value"):
        first = linear(store, f"{scope}.{name}.0", sequence, width)
        second = linear(store, f"{scope}.{name}.1", first, width)
        projected.append(second.unflatten(2, (heads, width // heads)).transpose(1, 2))  # [B, heads, T, n]
    q, k, v = projected
    mask = mask_of(sequence, lengths)
    scores = (q @ k.transpose(2, 3) / (width // heads) ** 0.5).masked_fill(~mask[:, None, None, :], FAR)
    mixed = (torch.softmax(scores, dim=3) @ v).transpose(1, 2).flatten(2)
    out = linear(store, f"{scope}.output.0", mixed, width) * mask[:, :, None]
    return out.sum(1) / lengths.clamp(min=1)[:, None]


def multi_window_din_encoder(store, scope, query, sequence, lengths, config):
    mask, q = mask_of(sequence, lengths), widened(query, sequence)
    x = torch.cat([sequence, q * sequence, q], dim=2)
    hidden = element_mlp(store, scope, x, mask, config.get("attn_mlp"))
    layers = layers_of(config.get("attn_mlp"))
    scores = prelu(store, f"{scope}.{layers + 1}", linear(store, f"{scope}.{layers}", hidden, 1))
    values = scores * sequence * mask[:, :, None]
    out, start = [], 0
    for length in config.all("windows_len"):
        inside = (lengths - start).clamp(max=length).clamp(min=1)
        out.append(values[:, start:start + length].sum(1) / inside[:, None])
        start += length
    return torch.cat([*out, F.pad(query, (0, sequence.shape[2] - query.shape[1]))], dim=1)


ENCODERS = {
    "din_encoder": din_encoder, "simple_attention": simple_attention, "pooling_encoder": pooling_encoder,
    "self_attention_encoder": self_attention_encoder, "multi_window_din_encoder": multi_window_din_encoder,
}
