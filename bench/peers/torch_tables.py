"""A DeepFM of PyTorch for bench/peers/tables.py: numbers standardized, an embedding per category, early stopping."""
import copy

import numpy as np
import torch
from torch import nn

DIM, HIDDEN, PATIENCE, MOST_EPOCHS = 16, (256, 128), 5, 100


class DeepFM(nn.Module):
    """Numbers have an embedding, too: their value times a vector, as in the paper."""

    def __init__(self, numbers, sizes):
        super().__init__()
        self.sizes = sizes
        self.number_vectors = nn.Parameter(torch.randn(numbers, DIM) * 0.01)
        self.number_weights = nn.Parameter(torch.zeros(numbers))
        self.vectors = nn.ModuleList(nn.Embedding(size, DIM) for size in sizes)
        self.weights = nn.ModuleList(nn.Embedding(size, 1) for size in sizes)
        for table in self.vectors:
            nn.init.normal_(table.weight, std=0.01)
        for table in self.weights:
            nn.init.zeros_(table.weight)
        widths = [DIM * (numbers + len(sizes)), *HIDDEN]
        layers = [layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.ReLU())]
        self.deep = nn.Sequential(*layers, nn.Linear(HIDDEN[-1], 1))

    def forward(self, x, ids):
        vectors = [x[:, :, None] * self.number_vectors] if x.shape[1] else []
        vectors += [table(ids[:, i])[:, None] for i, table in enumerate(self.vectors)]
        v = torch.cat(vectors, dim=1)
        wide = x @ self.number_weights
        for i, table in enumerate(self.weights):
            wide = wide + table(ids[:, i])[:, 0]
        pairs = (v.sum(1).square() - v.square().sum(1)).sum(1) / 2
        return wide + pairs + self.deep(v.flatten(1))[:, 0]


def inputs(frames, texts):
    """(numbers, ids) of each frame, scaled by the first; missing numbers are the mean, missing categories a row of their own."""
    names = [name for name in frames[0] if name not in texts]
    first = frames[0][names].to_numpy(np.float32)
    mean, deviation = np.nanmean(first, axis=0), np.nanstd(first, axis=0)
    for frame in frames:
        x = (frame[names].to_numpy(np.float32) - mean) / np.where(deviation > 0, deviation, 1)
        ids = [frame[name].cat.codes.to_numpy(np.int64) + 1 for name in texts]
        yield torch.tensor(np.nan_to_num(x)), torch.tensor(np.stack(ids, 1) if ids else np.zeros((len(frame), 0), np.int64))


def predict(task, train, labels, texts, parts, seed, threads):
    """Predictions for each of the parts."""
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    (x, ids), *others = inputs([train, *parts], texts)
    y = torch.tensor(labels, dtype=torch.float32)
    mean, deviation = (y.mean(), y.std()) if task == "number" else (0.0, 1.0)
    y = (y - mean) / deviation
    order = torch.randperm(len(y))
    kept, held = order[len(y) // 10:], order[:len(y) // 10]
    model = DeepFM(x.shape[1], [len(train[name].cat.categories) + 1 for name in texts])
    loss = nn.MSELoss() if task == "number" else nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batch = int(np.clip(2 ** int(np.log2(max(len(y) / 200, 1))), 32, 1024))
    best, best_state, waited = np.inf, None, 0
    for _ in range(MOST_EPOCHS):
        model.train()
        for part in kept[torch.randperm(len(kept))].split(batch):
            optimizer.zero_grad()
            loss(model(x[part], ids[part]), y[part]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            value = loss(model(x[held], ids[held]), y[held]).item()
        if value < best:
            best, best_state, waited = value, copy.deepcopy(model.state_dict()), 0
        else:
            waited += 1
            if waited == PATIENCE:
                break
    model.load_state_dict(best_state)
    with torch.no_grad():
        return [(model(z, z_ids) * deviation + mean).numpy() for z, z_ids in others]
