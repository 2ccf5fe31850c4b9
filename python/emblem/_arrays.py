"""Arguments as arrays of NumPy, or an Error that names them."""
from typing import Any

import numpy as np

from emblem._runtime import Error


def array(name: str, values: Any, dimensions: int) -> np.ndarray:
    try:
        made = np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise Error(f"{name} cannot be read as an array: {error}", "invalid_argument") from None
    if made.ndim != dimensions:
        raise Error(f"{name} have {made.ndim} dimensions; expected {dimensions}", "invalid_argument")
    return made


def integers(name: str, values: Any, dtype: Any) -> np.ndarray:
    made = array(name, values, 1)
    if made.size and made.dtype.kind not in "iu":
        raise Error(f"{name} are of type {made.dtype}; expected integers", "invalid_argument")
    limits = np.iinfo(dtype)
    if made.size and made.dtype.itemsize > 4 and (made.max() > limits.max or made.min() < limits.min):
        raise Error(f"{name} have a value outside of {limits.min} to {limits.max}", "invalid_argument")
    return np.ascontiguousarray(made, dtype=dtype)


def floats(name: str, values: Any, dimensions: int) -> np.ndarray:
    made = array(name, values, dimensions)
    if made.dtype.kind not in "fiu":
        raise Error(f"{name} are of type {made.dtype}; expected numbers", "invalid_argument")
    return np.ascontiguousarray(made, dtype=np.float32)
