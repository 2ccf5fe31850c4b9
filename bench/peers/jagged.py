"""DIN's attention over elements of all rows one after the other, without padding: sequence [E, D], owner [E] the row of an
element; elements of row B, one beyond the last, do not count."""

import torch
import torch.nn.functional as F

from layers import layers_of, linear, mlp


def din(store, scope, query, sequence, owner, attn_mlp):
    rows = query.shape[0]
    q = F.pad(query, (0, sequence.shape[1] - query.shape[1], 0, 1))[owner]
    x = torch.cat([q, sequence, q - sequence, q * sequence], dim=1)
    scores = linear(store, f"{scope}.{layers_of(attn_mlp)}", mlp(store, scope, x, attn_mlp), 1).float()[:, 0]
    # Scores are small numbers here; without the largest of a row, one pass over elements is saved.
    weights = torch.exp(scores.clamp(max=60.0))
    total = torch.zeros(rows + 1, dtype=torch.float32, device=scores.device).index_add(0, owner, weights)
    share = weights / total[owner]
    out = torch.zeros(rows + 1, sequence.shape[1], dtype=torch.float32, device=scores.device)
    return out.index_add(0, owner, share[:, None] * sequence.float())[:rows]


def din_encoder(store, scope, query, sequence, owner, config):
    return din(store, scope, query, sequence, owner, config.get("attn_mlp"))
