"""What a caller means by the arguments of emblem.train and emblem.init."""
from __future__ import annotations

import os
from typing import Any, Tuple

from emblem._runtime import Error
from emblem.model import Model
from emblem.pipeline import Pipeline


def in_order(first: Any, second: Any) -> Tuple[Any, Any]:
    """(data, what to train: a Model, a Pipeline, its path or text), whichever of them is given first."""
    if _is_plan(first):
        if _is_plan(second):
            raise Error("both arguments are pipelines or models; expected rows and one of them", "invalid_argument")
        return second, first
    if second is not None and not _is_plan(second) and not isinstance(second, (str, os.PathLike)):
        raise Error(f"neither {_kind(first)} nor {_kind(second)} is a pipeline; expected rows and an emblem.Pipeline, its path or "
                    "text, or a Model", "invalid_argument")
    return first, second


def _is_plan(given: Any) -> bool:
    if isinstance(given, (str, os.PathLike)):
        text = os.fspath(given)
        return isinstance(text, str) and (text.endswith(".config") or "_config" in text and "{" in text)
    return isinstance(given, (Pipeline, Model))


def _kind(given: Any) -> str:
    return "the first argument (None)" if given is None else f"a {type(given).__name__}"
