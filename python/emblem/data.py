"""Rows in the forms that Python has them in, as the engine reads them."""
import os
import sys

import numpy as np

from emblem import _core
from emblem._runtime import Error

# NumPy's kinds of whole numbers and their sizes that the engine reads as they are.
_AS_THEY_ARE = {np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32), np.dtype(np.int64)}


class Data:
    """Rows to train on, to evaluate or to predict. Made once, they may be used many times.

    source: a path, glob or address (s3://...) or a list of them; a DataFrame of pandas or Polars, a table of Arrow, a
    relation of DuckDB and all else with the Arrow PyCapsule interface; a dict of columns; a list or an iterator of these,
    which are read one after the other. Rows in memory are not copied where their layout is Arrow's or NumPy's.

    >>> emblem.Data({"x": [1.5, 2.5], "color": ["red", None]}).rows
    2
    """

    def __init__(self, source):
        self.core = _convert(source)
        self.is_files = self.core.rows < 0
        self._source = source

    def column(self, name):
        """The values of a column of rows in memory."""
        source = self._source._source if isinstance(self._source, Data) else self._source
        try:
            values = source[name]
        except (KeyError, TypeError, IndexError):
            raise Error(f"column {name!r} cannot be read from a {type(source).__name__}", "invalid_argument") from None
        return values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)

    @property
    def rows(self):
        """Rows in memory; None for files, which are opened when they are read."""
        return None if self.is_files else self.core.rows

    def __repr__(self):
        return "emblem.Data(files)" if self.is_files else f"emblem.Data({self.rows} rows)"


def to_core(source):
    """What the engine takes; None: no data."""
    if source is None:
        return None
    return source.core if isinstance(source, Data) else _convert(source)


def _convert(source):
    if isinstance(source, Data):
        return source.core
    if isinstance(source, (str, os.PathLike)):
        return _core.Data.files(os.fspath(source))
    if _is_pandas(source):
        return _of_pandas(source)
    if hasattr(source, "__arrow_c_stream__"):
        return _core.Data.from_stream(source.__arrow_c_stream__())
    if hasattr(source, "__arrow_c_array__"):
        return _of_arrow_batch(source)
    if isinstance(source, dict):
        return _of_columns(source)
    if isinstance(source, np.ndarray):
        return _of_array(source)
    if hasattr(source, "__iter__"):
        return _of_parts(source)
    raise Error(f"data is a {type(source).__name__}; expected a path, a DataFrame, an Arrow table, a dict of columns, or an "
                "iterator of these", "invalid_argument")


def _is_pandas(source):
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(source, pandas.DataFrame)


# The index is not a column: a Parquet file that is written with index=False holds the same.
def _of_pandas(frame):
    if not frame.columns.is_unique:
        twice = sorted({str(name) for name in frame.columns[frame.columns.duplicated()]})
        raise Error(f"the DataFrame has column {twice[0]!r} twice; rename one of them", "invalid_argument")
    try:
        import pyarrow
    except ImportError:
        return _of_columns({str(name): frame[name] for name in frame.columns})
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    return _core.Data.from_stream(table.__arrow_c_stream__())


def _of_arrow_batch(batch):
    import pyarrow
    return _core.Data.from_stream(pyarrow.table(batch).__arrow_c_stream__())


def _of_array(array):
    if array.dtype.names is not None:
        return _of_columns({name: array[name] for name in array.dtype.names})
    if array.ndim != 2:
        raise Error(f"the array has {array.ndim} dimensions; expected two (rows, columns)", "invalid_argument")
    return _of_columns({f"x{at}": array[:, at] for at in range(array.shape[1])})


def _of_parts(parts):
    if isinstance(parts, (list, tuple)) and parts and all(isinstance(part, (str, os.PathLike)) for part in parts):
        return _core.Data.files(",".join(os.fspath(part) for part in parts))
    made = [_convert(part) for part in parts]
    if not made:
        raise Error("the data have no parts; expected at least one", "invalid_argument")
    return _core.Data.join(made)


def _of_columns(columns):
    if not columns:
        raise Error("the data have no columns; expected at least one", "invalid_argument")
    made = [_column(str(name), values) for name, values in columns.items()]
    lengths = {name: len(offsets) - 1 if offsets is not None else len(values) for name, values, _, offsets in made}
    first = next(iter(lengths))
    for name, length in lengths.items():
        if length != lengths[first]:
            raise Error(f"column {name!r} has {length} values, but column {first!r} has {lengths[first]}", "invalid_argument")
    return _core.Data.from_columns(made)


def _is_missing(value):
    return value is None or value is getattr(sys.modules.get("pandas"), "NA", None) or (
        isinstance(value, float) and value != value)


def _column(name, values):
    """(name, array or list of texts, marks of missing values or None, offsets or None)"""
    array = values if isinstance(values, np.ndarray) else np.asarray(_plain(values), dtype=_dtype(values))
    if array.ndim == 2 and array.dtype != object:  # vectors
        offsets = np.arange(0, array.size + 1, array.shape[1], dtype=np.int32) if array.shape[1] else None
        return (name, _numbers(name, array.reshape(-1)), None, offsets)
    if array.ndim != 1:
        raise Error(f"column {name!r} has {array.ndim} dimensions; expected one", "invalid_argument")
    if array.dtype.kind in "US":
        return (name, [value if isinstance(value, str) else value.decode() for value in array.tolist()], None, None)
    if array.dtype.kind == "M":
        raise Error(f"column {name!r} holds dates; give them as an Arrow table, or as text", "invalid_argument")
    return _objects(name, array.tolist()) if array.dtype == object else (name, _numbers(name, array), None, None)


# pandas' own types of columns become objects, in which missing values are what they are.
def _plain(values):
    return values.astype(object) if hasattr(values, "astype") and not isinstance(
        getattr(values, "dtype", None), np.dtype) else values


def _dtype(values):
    if isinstance(values, (list, tuple)) and any(not isinstance(value, (int, float, bool, np.number)) for value in values):
        return object
    return None


def _numbers(name, array):
    if array.dtype not in _AS_THEY_ARE:
        kind = array.dtype.kind
        if kind not in "biuf":
            raise Error(f"column {name!r} is of type {array.dtype}; expected numbers, bools or text", "invalid_argument")
        if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise Error(f"column {name!r} has uint64 values above 2^63-1; give them as an Arrow table, or as text",
                        "invalid_argument")
        array = array.astype(np.float32 if kind == "f" and array.dtype.itemsize < 4 else np.float64 if kind == "f" else np.int64)
    return np.ascontiguousarray(array)


def _objects(name, values):
    missing = np.fromiter((_is_missing(value) for value in values), dtype=np.uint8, count=len(values))
    known = [value for value, gone in zip(values, missing) if not gone]
    marks = missing if missing.any() else None
    if known and all(isinstance(value, (list, tuple, np.ndarray)) for value in known):
        return _lists(name, values, missing)
    if known and all(isinstance(value, (bool, np.bool_)) for value in known):
        return (name, np.array([0 if gone else int(value) for value, gone in zip(values, missing)], np.int64), marks, None)
    if known and all(isinstance(value, (int, np.integer)) for value in known):
        return (name, np.array([0 if gone else int(value) for value, gone in zip(values, missing)], np.int64), marks, None)
    if known and all(isinstance(value, (int, float, np.number)) for value in known):
        return (name, np.array([np.nan if gone else float(value) for value, gone in zip(values, missing)]), None, None)
    return (name, ["" if gone else str(value) for value, gone in zip(values, missing)], marks, None)


def _lists(name, values, missing):
    lengths = [0 if gone else len(value) for value, gone in zip(values, missing)]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    flat = [item for value, gone in zip(values, missing) if not gone for item in value]
    if not flat:
        return (name, np.zeros(0, np.int64), None, offsets)
    _, inner, marks, nested = _column(name, flat)
    if nested is not None:
        raise Error(f"column {name!r} holds lists of lists; give them as an Arrow table", "invalid_argument")
    return (name, inner, marks, offsets)
