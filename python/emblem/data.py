"""Rows in the forms that Python has them in, as the engine reads them."""
from __future__ import annotations

import os
import sys
from typing import Any, Callable, Iterable, Iterator, List, NamedTuple, Optional, Union

import numpy as np

from emblem import _core
from emblem._runtime import Error

# NumPy's kinds of whole numbers and their sizes that the engine reads as they are.
_AS_THEY_ARE = {np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32), np.dtype(np.int64)}
# Units of NumPy's times that are units of Arrow's, and what others become without loss.
_TIME_UNITS = {"s": "s", "ms": "ms", "us": "us", "ns": "ns", "D": "day", "h": "s", "m": "s", "W": "day", "M": "day", "Y": "day"}
_NUMPY_UNIT = {"s": "s", "ms": "ms", "us": "us", "ns": "ns", "day": "D"}


class Column(NamedTuple):
    """A column as the engine takes it."""
    name: str
    values: Any  # a contiguous array of numbers, or a list of texts
    missing: Optional[np.ndarray] = None  # marks, one per value
    offsets: Optional[np.ndarray] = None  # of lists
    time_unit: str = ""


class NeedsArrow(Exception):
    """A column that only Arrow has a type for."""


class Data:
    """Rows to train on, to evaluate or to predict. Made once, they may be used many times.

    source: a path, glob or address (s3://...) or a list of them; a DataFrame of pandas or Polars, a table of Arrow, a
    relation of DuckDB and all else with the Arrow PyCapsule interface; a dict of columns; a list or an iterator of these,
    which are read one after the other. Rows in memory are not copied where their layout is Arrow's or NumPy's.

    An iterator of tables is read while its rows are used, a few tables at a time: a function that returns one, or an object
    whose __iter__ does, may be read again and again (epochs, evaluations), a generator once.

    >>> emblem.Data({"x": [1.5, 2.5], "color": ["red", None]}).rows
    2
    """

    def __init__(self, source: Any) -> None:
        self.core = _convert(source)
        self.is_in_memory = self.core.rows >= 0
        self.is_read_once = is_read_once(source)
        self._source = source

    def column(self, name: str) -> np.ndarray:
        """The values of a column of rows in memory."""
        source = self._source._source if isinstance(self._source, Data) else self._source
        try:
            values = source[name]
        except (KeyError, TypeError, IndexError):
            raise Error(f"column {name!r} cannot be read from a {type(source).__name__}", "invalid_argument") from None
        return values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)

    @property
    def rows(self) -> Optional[int]:
        """Rows in memory; None for files and iterators, which are read when they are used."""
        return self.core.rows if self.is_in_memory else None

    def __repr__(self) -> str:
        what = f"{self.rows} rows" if self.is_in_memory else "iterator" if self.core.is_streamed else "files"
        return f"emblem.Data({what})"


def column_names(source: Any) -> Optional[List[str]]:
    """The columns of a frame, a table or an array; None where they are not known before they are read."""
    if isinstance(source, Data):
        return column_names(source._source)
    if isinstance(source, dict):
        return [str(name) for name in source]
    if isinstance(source, np.ndarray):
        names = source.dtype.names
        return list(names) if names is not None else [f"x{at}" for at in range(source.shape[1])] if source.ndim == 2 else None
    if isinstance(source, (list, tuple)) and source and not isinstance(source[0], (str, os.PathLike)):
        return column_names(source[0])
    names = getattr(source, "column_names", getattr(source, "columns", None))
    return None if names is None or callable(names) else [str(name) for name in names]


def named(source: Any, argument: str, columns: Iterable[Union[str, int]]) -> List[str]:
    """The names of columns that are given by name or by position."""
    if isinstance(columns, (str, int)):
        columns = [columns]
    names, made = column_names(source), []
    for column in columns:
        if isinstance(column, str):
            made.append(column)
            continue
        if names is None:
            raise Error(f"{argument} has the position {column}, but the columns of a {type(source).__name__} are not known before "
                        "they are read; give names", "invalid_argument")
        if not isinstance(column, (int, np.integer)) or not -len(names) <= column < len(names):
            raise Error(f"{argument} has {column!r}; expected names of columns, or positions of 0 to {len(names) - 1}",
                        "invalid_argument")
        made.append(names[column])
    return made


def is_read_once(source: Any) -> bool:
    """Whether the rows are an iterator that gives them once."""
    return source.is_read_once if isinstance(source, Data) else hasattr(source, "__next__")


def to_core(source: Any) -> Optional[_core.Data]:
    """What the engine takes; None: no data."""
    if source is None:
        return None
    return source.core if isinstance(source, Data) else _convert(source)


def _convert(source: Any) -> _core.Data:
    if isinstance(source, Data):
        return source.core
    if isinstance(source, (str, os.PathLike)):
        return _core.Data.files(os.fspath(source))
    if _is_pandas(source):
        return _of_pandas(source)
    if hasattr(source, "__next__"):
        return _of_iterator(source)
    if hasattr(source, "__arrow_c_stream__"):
        return _core.Data.from_stream(source.__arrow_c_stream__())
    if hasattr(source, "__arrow_c_array__"):
        return _of_arrow_batch(source)
    if isinstance(source, dict):
        return _of_columns(source)
    if isinstance(source, np.ndarray):
        return _of_array(source)
    if isinstance(source, (list, tuple)):
        return _of_parts(source)
    if hasattr(source, "__iter__") and not isinstance(source, (bytes, type)):
        return _of_passes(lambda: iter(source))
    if callable(source) and not isinstance(source, type):
        return _of_passes(lambda: iter(source()))
    raise Error(f"data is a {type(source).__name__}; expected a path, a DataFrame, an Arrow table, a dict of columns, or an "
                "iterator of these", "invalid_argument")


def _is_pandas(source: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(source, pandas.DataFrame)


# The index is not a column: a Parquet file that is written with index=False holds the same.
def _of_pandas(frame: Any) -> _core.Data:
    if not frame.columns.is_unique:
        twice = sorted({str(name) for name in frame.columns[frame.columns.duplicated()]})
        raise Error(f"the DataFrame has column {twice[0]!r} twice; rename one of them", "invalid_argument")
    try:
        import pyarrow
    except ImportError:
        return _of_columns({str(name): frame[name] for name in frame.columns})
    try:
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    except pyarrow.ArrowException as error:
        raise Error(f"the DataFrame cannot be read: {_in_one_line(error)}", "invalid_argument") from None
    return _core.Data.from_stream(table.__arrow_c_stream__())


def _of_arrow_batch(batch: Any) -> _core.Data:
    import pyarrow
    return _core.Data.from_stream(pyarrow.table(batch).__arrow_c_stream__())


def _of_array(array: np.ndarray) -> _core.Data:
    if array.dtype.names is not None:
        return _of_columns({name: array[name] for name in array.dtype.names})
    if array.ndim != 2:
        raise Error(f"the array has {array.ndim} dimensions; expected two (rows, columns)", "invalid_argument")
    return _of_columns({f"x{at}": array[:, at] for at in range(array.shape[1])})


# Tables of an iterator one by one, each pass from the begin.
def _of_passes(begin: Callable[[], Iterator[Any]]) -> _core.Data:
    def begin_pass() -> Callable[[], Optional[_core.Data]]:
        tables = begin()

        def next_table() -> Optional[_core.Data]:
            for table in tables:
                made = _convert(table)
                if made.rows < 0:
                    raise Error(f"the iterator gives a {type(table).__name__}; expected tables in memory", "invalid_argument")
                return made
            return None
        return next_table
    return _core.Data.from_passes(begin_pass)


def _of_iterator(tables: Iterator[Any]) -> _core.Data:
    left = [tables]

    def begin() -> Iterator[Any]:
        if not left:
            raise Error(f"the data are a {type(tables).__name__}, which can be read once, and were read before; give a function "
                        "that returns a new one, or a list", "invalid_argument")
        return left.pop()
    return _of_passes(begin)


def _of_parts(parts: Any) -> _core.Data:
    if parts and all(isinstance(part, (str, os.PathLike)) for part in parts):
        return _core.Data.files(",".join(os.fspath(part) for part in parts))
    made = [_convert(part) for part in parts]
    if not made:
        raise Error("the data have no parts; expected at least one", "invalid_argument")
    return _core.Data.join(made)


def _of_columns(columns: Any) -> _core.Data:
    if not columns:
        raise Error("the data have no columns; expected at least one", "invalid_argument")
    try:
        made = [to_column(str(name), values) for name, values in columns.items()]
    except NeedsArrow as problem:
        return _through_arrow(columns, str(problem))
    lengths = [len(column.offsets) - 1 if column.offsets is not None else len(column.values) for column in made]
    for column, length in zip(made, lengths):
        if length != lengths[0]:
            raise Error(f"column {column.name!r} has {length} values, but column {made[0].name!r} has {lengths[0]}",
                        "invalid_argument")
    return _core.Data.from_columns([tuple(column) for column in made])


# Structs, lists of lists, decimals and the like, where pyarrow is installed.
def _through_arrow(columns: Any, problem: str) -> _core.Data:
    try:
        import pyarrow
    except ImportError:
        raise Error(f"{problem}; install pyarrow, or give an Arrow table", "invalid_argument") from None
    made = {}
    for name, values in columns.items():
        try:
            made[str(name)] = pyarrow.array(values, from_pandas=True)
        except (pyarrow.ArrowException, ValueError, TypeError) as error:
            raise Error(f"column {str(name)!r} cannot be read: {_in_one_line(error)}", "invalid_argument") from None
    lengths = {name: len(values) for name, values in made.items()}
    first = next(iter(lengths))
    for name, length in lengths.items():
        if length != lengths[first]:
            raise Error(f"column {name!r} has {length} values, but column {first!r} has {lengths[first]}", "invalid_argument")
    return _core.Data.from_stream(pyarrow.table(made).__arrow_c_stream__())


def _in_one_line(error: BaseException) -> str:
    return " ".join(str(part) for part in error.args).replace("\n", " ").strip() or type(error).__name__


def is_missing(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return value is None or (pandas is not None and (value is pandas.NA or value is pandas.NaT)) or (
        isinstance(value, float) and value != value)


def to_column(name: str, values: Any) -> Column:
    array = values if isinstance(values, np.ndarray) else _as_array(_plain(values))
    if array.ndim == 2 and array.dtype != object:  # vectors
        offsets = np.arange(0, array.size + 1, array.shape[1], dtype=np.int32) if array.shape[1] else None
        return Column(name, _numbers(name, array.reshape(-1)), None, offsets)
    if array.ndim != 1:
        raise Error(f"column {name!r} has {array.ndim} dimensions; expected one", "invalid_argument")
    if array.dtype.kind in "US":
        return Column(name, [value if isinstance(value, str) else value.decode() for value in array.tolist()])
    if array.dtype.kind == "M":
        return _times(name, array)
    return _objects(name, array.tolist()) if array.dtype == object else Column(name, _numbers(name, array))


# Types of columns of pandas' own become arrays of NumPy's, or objects, in which missing values are what they are.
def _plain(values: Any) -> Any:
    dtype: Any = getattr(values, "dtype", None)
    if not hasattr(values, "astype") or isinstance(dtype, np.dtype):
        return values
    if getattr(dtype, "kind", "") == "M" and hasattr(dtype, "unit"):  # with a time zone
        return values.to_numpy(dtype=f"M8[{dtype.unit}]")
    return values.astype(object)


# Lists of other than numbers stay objects: lists of lists of one length are no matrix.
def _as_array(values: Any) -> np.ndarray:
    if isinstance(values, (list, tuple)) and any(not isinstance(value, (int, float, bool, np.number)) for value in values):
        return np.fromiter(values, object, len(values))
    return np.asarray(values)


def _numbers(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype not in _AS_THEY_ARE:
        kind = array.dtype.kind
        if kind == "m":
            raise NeedsArrow(f"column {name!r} holds durations")
        if kind not in "biuf":
            raise Error(f"column {name!r} is of type {array.dtype}; expected numbers, bools or text", "invalid_argument")
        if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise NeedsArrow(f"column {name!r} has uint64 values above 2^63-1")
        array = array.astype(np.float32 if kind == "f" and array.dtype.itemsize < 4 else np.float64 if kind == "f" else np.int64)
    return np.ascontiguousarray(array)


def _times(name: str, array: np.ndarray) -> Column:
    unit = _TIME_UNITS.get(np.datetime_data(array.dtype)[0])
    if unit is None:
        raise NeedsArrow(f"column {name!r} is of type {array.dtype}")
    ticks = array.astype(f"M8[{_NUMPY_UNIT[unit]}]")
    missing = np.isnat(ticks)
    values = ticks.view(np.int64)
    if unit == "day":
        values = np.where(missing, 0, values).astype(np.int32)
    return Column(name, np.ascontiguousarray(values), missing.astype(np.uint8) if missing.any() else None, None, unit)


def _objects(name: str, values: list) -> Column:
    missing = np.fromiter((is_missing(value) for value in values), dtype=np.uint8, count=len(values))
    known = [value for value, gone in zip(values, missing) if not gone]
    marks = missing if missing.any() else None

    def are(*types: type) -> bool:
        return bool(known) and all(isinstance(value, types) for value in known)

    if are(list, tuple, np.ndarray):
        return _lists(name, values, missing)
    if are(bool, np.bool_) or are(int, np.integer) and not any(isinstance(value, bool) for value in known):
        try:
            return Column(name, np.array([0 if gone else int(value) for value, gone in zip(values, missing)], np.int64), marks)
        except OverflowError:
            raise NeedsArrow(f"column {name!r} has whole numbers of more than 64 bits, or above 2^63-1") from None
    if are(int, float, np.number):
        return Column(name, np.array([np.nan if gone else float(value) for value, gone in zip(values, missing)]))
    if known and not are(str, bytes, int, float, bool, np.number, np.bool_, np.str_):
        odd = next(value for value in known if not isinstance(value, str))
        raise NeedsArrow(f"column {name!r} holds values of type {type(odd).__name__}")
    return Column(name, ["" if gone else value.decode() if isinstance(value, bytes) else str(value)
                          for value, gone in zip(values, missing)], marks)


def _lists(name: str, values: list, missing: np.ndarray) -> Column:
    lengths = [0 if gone else len(value) for value, gone in zip(values, missing)]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    flat = [item for value, gone in zip(values, missing) if not gone for item in value]
    if not flat:
        return Column(name, np.zeros(0, np.int64), None, offsets)
    inner = to_column(name, flat)
    if inner.offsets is not None:
        raise NeedsArrow(f"column {name!r} holds lists of lists")
    return inner._replace(offsets=offsets)
