"""Items that are searched by their vectors."""
from __future__ import annotations

import os
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from emblem import _core, _cuda
from emblem._arrays import array, floats, integers
from emblem._runtime import Error


class Index:
    """Items that are searched by their vectors, [items, dim]. Results depend on items and options alone; equal scores are in
    the order of the ids.

    ids: integers, each once; None: 0, 1, 2, ... attributes: arrays of bools by name, that searches filter by (at most 64).
    similarity: "inner_product" or "cosine". value_type: of vectors in memory, "fp32", "fp16", "bf16" or "int8". kind: "flat"
    (exact), or "ivf_flat": searches look at the items of `probes` lists with the nearest centroids. lists: their number; 0:
    twice the root of the number of items. seed: of the lists. device: "cpu" or "cuda". threads: 0: one per CPU.

    Threads may call at once; calls wait for each other, and other threads of Python run meanwhile.

    >>> import numpy as np
    >>> index = emblem.Index(np.eye(3), ids=[10, 20, 30], similarity="cosine")
    >>> ids, scores = index.search([[1.0, 0.5, 0.0]], k=2)
    >>> ids.tolist()
    [[10, 20]]
    >>> index.add([[1.0, 0.5, 0.0]], ids=[40])
    >>> index.search([[1.0, 0.5, 0.0]], k=2, exclude=[[10]])[0].tolist()
    [[40, 20]]
    """

    def __init__(self, vectors: Any, ids: Any = None, *, attributes: Optional[Mapping[str, Any]] = None,
                 similarity: str = "inner_product", value_type: str = "fp32", kind: str = "flat", lists: int = 0, seed: int = 1,
                 device: str = "cpu", threads: int = 0) -> None:
        made = floats("vectors", vectors, 2)
        names = list(attributes or {})
        _cuda.load(device)
        self.core = _core.Index(made.shape[1], similarity=similarity, value_type=value_type, kind=kind, lists=lists, seed=seed,
                                attributes=names, device=device, threads=threads)
        self.add(made, np.arange(len(made)) if ids is None else ids, attributes=attributes)
        if kind != "flat":
            self.core.rebuild()

    @classmethod
    def load(cls, folder: Union[str, os.PathLike], *, device: str = "cpu", threads: int = 0) -> Index:
        """The folder of `save`, or the folder "index" in a version that `emblem index` has written."""
        index = cls.__new__(cls)
        _cuda.load(device)
        index.core = _core.Index.load(os.fspath(folder), device, threads)
        return index

    def search(self, vectors: Any, k: int = 10, *, exclude: Optional[Sequence[Any]] = None, filter: Sequence[str] = (),
               allow: Optional[Sequence[Any]] = None, probes: Optional[int] = None) -> Tuple[np.ndarray, np.ndarray]:
        """(ids, scores) of the best k items for each row of `vectors`, best first: int64 and float32 [rows, k], with fewer
        columns where there are fewer items. A row of which fewer are found ends with ids of -1 and scores of NaN.

        exclude: ids that are not found, a list for each row. filter: attributes that items must have, all of them. allow: the
        only ids that may be found, a list for each row; they are scored exactly, and ids that are not there passed over.
        probes: lists of an ivf_flat that are looked at; None: those that it was written with, 16 unless `emblem index` was told
        others."""
        queries = floats("vectors", vectors, 2)
        excluded, allowed = _lists_of("excluded ids", exclude, len(queries)), _lists_of("allowed ids", allow, len(queries))
        if isinstance(filter, str):
            raise Error(f"filter is the text {filter!r}; expected a list of attributes, as [{filter!r}]", "invalid_argument")
        return self.core.search(queries, k, probes, excluded, list(filter), allowed)

    def add(self, vectors: Any, ids: Any, *, attributes: Optional[Mapping[str, Any]] = None, replace: bool = False) -> None:
        """Adds items; those of an ivf_flat are searched exactly until `rebuild`. An id that is there is an error, or with
        `replace` gets the new vector and attributes. Errors change nothing."""
        keys = integers("ids", ids, np.int64)
        self.core.add(keys, floats("vectors", vectors, 2), _bits(attributes, self.attributes, len(keys)), replace)

    def remove(self, ids: Any) -> None:
        """Removes items; an error, and nothing is removed, where one is not there."""
        self.core.remove(integers("ids", ids, np.int64))

    def rebuild(self) -> None:
        """Makes searches fast again after many changes, and new lists of an ivf_flat."""
        self.core.rebuild()

    def save(self, folder: Union[str, os.PathLike]) -> None:
        """Writes a new folder; it appears whole or not at all."""
        self.core.save(os.fspath(folder))

    @property
    def dim(self) -> int:
        return self.core.dim

    @property
    def probes(self) -> int:
        """Lists of an ivf_flat that a search looks at unless it is told how many."""
        return self.core.probes

    @property
    def attributes(self) -> List[str]:
        return self.core.attributes

    @property
    def bytes(self) -> int:
        """Memory held by the items."""
        return self.core.bytes

    def __len__(self) -> int:
        return self.core.size

    def __repr__(self) -> str:
        core = self.core
        return f"emblem.Index({len(self)} items of {core.dim} elements, {core.kind}, {core.value_type}, {core.similarity})"


# Ids of each row; none at all for None.
def _lists_of(what: str, lists: Optional[Sequence[Any]], rows: int) -> List[List[int]]:
    if lists is None:
        return []
    if len(lists) != rows:
        raise Error(f"there are {len(lists)} lists of {what} for {rows} rows; expected one for each row", "invalid_argument")
    return [integers(what, ids, np.int64).tolist() for ids in lists]


# The attributes of items, a bit for each name of the index.
def _bits(attributes: Optional[Mapping[str, Any]], names: Sequence[str], items: int) -> Optional[np.ndarray]:
    if not attributes:
        return None
    bits = np.zeros(items, np.uint64)
    for name, values in attributes.items():
        if name not in names:
            raise Error(f"unknown attribute {name!r}; the index has {', '.join(names) or 'none'}", "invalid_argument")
        flags = array(f"values of attribute {name!r}", values, 1)
        if len(flags) != items or flags.dtype.kind not in "biu" or not np.isin(flags, (0, 1)).all():
            raise Error(f"values of attribute {name!r} are not {items} bools, one for each item", "invalid_argument")
        bits |= flags.astype(np.uint64) << np.uint64(list(names).index(name))
    return bits


def best_of_rows(ids: np.ndarray, scores: np.ndarray, rows: np.ndarray, count: int, k: int) -> Tuple[np.ndarray, np.ndarray]:
    """What several vectors of a row have found, ids and scores [vectors, n] of the rows `rows`, as the best k of each of the
    `count` rows: an item counts with its best score."""
    width = min(k, ids.shape[1] * max(np.bincount(rows, minlength=1).max(), 1)) if len(rows) else 0
    best_ids, best_scores = np.full((count, width), -1, np.int64), np.full((count, width), np.nan, np.float32)
    for row in range(count):
        found, worth = ids[rows == row].ravel(), scores[rows == row].ravel()
        order = np.lexsort((found, -worth))
        order = order[found[order] >= 0] if len(found) else order
        _, first = np.unique(found[order], return_index=True)
        chosen = order[np.sort(first)][:width]
        best_ids[row, :len(chosen)], best_scores[row, :len(chosen)] = found[chosen], worth[chosen]
    return best_ids, best_scores
