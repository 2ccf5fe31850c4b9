"""Columns as the tensors of a request (KServe v2 with binary data), and tensors of an answer as arrays."""
from __future__ import annotations

import datetime
import decimal
import re
import struct
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from emblem._runtime import Error
from emblem.data import Column, NeedsArrow, is_missing, to_column

_MISSING_ID = np.iinfo(np.int64).min
_TYPES = {"BOOL": "?", "INT8": "i1", "INT16": "i2", "INT32": "i4", "INT64": "i8", "UINT8": "u1", "UINT16": "u2", "UINT32": "u4",
          "UINT64": "u8", "FP16": "f2", "FP32": "f4", "FP64": "f8"}
_NAMES = {np.dtype(code): name for name, code in _TYPES.items()}


class Tensor(NamedTuple):
    name: str
    datatype: str
    shape: List[int]
    data: bytes


def columns_of(rows: Any) -> Dict[str, Any]:
    """{name: values} of a dict, a DataFrame, an Arrow table, or what has the Arrow PyCapsule interface. Structs are columns of
    their fields: "user.age"."""
    if isinstance(rows, Mapping):
        return _without_structs({str(name): values for name, values in rows.items()})
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):
        if not rows.columns.is_unique:
            raise Error("the DataFrame has a column twice; rename one of them", "invalid_argument")
        return _without_structs({str(name): rows[name] for name in rows.columns})
    if hasattr(rows, "get_columns"):  # Polars
        return _without_structs({column.name: _values_of(column, str(column.dtype)) for column in rows.get_columns()})
    if not hasattr(rows, "__arrow_c_stream__") and not hasattr(rows, "__arrow_c_array__"):
        raise Error(f"the rows are a {type(rows).__name__}; expected a dict of columns, a DataFrame or an Arrow table",
                    "invalid_argument")
    try:
        import pyarrow
    except ImportError:
        raise Error(f"a {type(rows).__name__} is read by pyarrow, which is not installed; give a dict of columns",
                    "unsupported") from None
    table = pyarrow.table(rows)
    return _without_structs({name: _values_of(column, str(column.type)) for name, column in zip(table.column_names, table.columns)})


# A column of Arrow or Polars: numbers keep their type, all else becomes Python's objects.
def _values_of(column: Any, kind: str) -> Any:
    kind = kind.lower()
    if kind.startswith(("float", "double", "half", "timestamp", "date")):
        return column.to_numpy()
    values = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    if kind.startswith("map"):
        return [one if one is None else [{"key": key, "weight": weight} for key, weight in one] for one in values]
    if re.search(r"list.*float(32|[> ]|$)", kind):
        return [one if one is None else np.asarray(one, np.float32) for one in values]
    return values


def _without_structs(columns: Dict[str, Any]) -> Dict[str, Any]:
    made: Dict[str, Any] = {}
    for name, values in columns.items():
        if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
            raise Error(f"column {name!r} is a {type(values).__name__}; expected values, one per row", "invalid_argument")
        dtype = getattr(values, "dtype", object)
        listed = values if isinstance(values, (list, tuple)) else values.tolist() if dtype == object else []
        first = next((value for value in listed if not is_missing(value)), None)
        if isinstance(first, dict):
            fields = dict.fromkeys(field for value in listed if isinstance(value, dict) for field in value)
            made.update(_without_structs({f"{name}.{field}": [value.get(field) if isinstance(value, dict) else None
                                                              for value in listed] for field in fields}))
        else:
            made[name] = values
    return made


def parts_of(described: Mapping[str, Any]) -> List[str]:
    """The columns that an input is made of, where they are several."""
    return [name for name in described.get("parameters", {}).get("columns", "").split(",") if name]


def tensors_of(columns: Mapping[str, Any], inputs: Mapping[str, dict]) -> List[Tensor]:
    """The tensors of all `columns`. inputs: the model's, by name, as its metadata describe them. An input of several columns is
    made of these."""
    made, left = [], dict(columns)
    for name, described in inputs.items():
        names = parts_of(described)
        if names and name not in columns and all(one in columns for one in names):
            dtype = np.dtype(_TYPES[described["datatype"]])
            values = np.stack([_numbers(one, left.pop(one), dtype) for one in names], axis=1)
            made.append(Tensor(name, described["datatype"], list(values.shape), values.tobytes()))
    for name, values in left.items():
        made += _tensors(name, values, inputs.get(name, {}))
    return made


# One value per row, of the type that the model asks for.
def _numbers(name: str, values: Any, dtype: np.dtype) -> np.ndarray:
    found = _array(_column(name, values))
    if found.ndim != 1 or found.dtype.kind not in ("iu" if dtype.kind == "i" else "iuf"):
        raise Error(f"column {name!r} is of type {found.dtype}; expected {'integers' if dtype.kind == 'i' else 'numbers'}",
                    "invalid_argument")
    if found.dtype == np.int64 and dtype.kind == "f":
        return np.where(found == _MISSING_ID, np.nan, found).astype(dtype)
    return found.astype(dtype)


def _tensors(name: str, values: Any, described: Mapping[str, Any]) -> List[Tensor]:
    form, datatype = described.get("parameters", {}).get("values", ""), described.get("datatype", "")
    values = [row if is_missing(row) else [_pair(item, form == "weighted") for item in row] for row in values] if _has_pairs(
        values) else values
    if form == "sequence" and (nested := _rows_of_lists(values)) is not None:
        elements = [element for row in nested for element in row]
        offsets = np.cumsum([0, *map(len, nested)])
        return [_tensor(name, _bags(_with_gaps(_column(name, elements), datatype))), _tensor(name + ".offsets", offsets)]
    column = _with_gaps(_column(name, values), datatype)
    if form == "sequence" and column.offsets is not None:
        return [_tensor(name, _array(column)), _tensor(name + ".offsets", column.offsets)]
    array = _bags(column)
    if array.ndim == 1 and len(described.get("shape", (0, 0))) == 2:
        array = array.reshape(-1, 1)
    return [_tensor(name, array.astype(np.int32) if datatype == "INT32" and array.dtype == np.int64 else array)]


# The smallest INT64 is missing where ids are asked for; else integers with missing values are numbers with NaN, or text.
def _with_gaps(column: Column, datatype: str) -> Column:
    if column.missing is None and column.offsets is None or column.time_unit or isinstance(
            column.values, list) or column.values.dtype.kind != "i":
        return column
    if datatype.startswith("FP"):
        return column._replace(values=column.values.astype(np.float64))
    return column._replace(values=[str(one) for one in column.values.tolist()]) if datatype == "BYTES" else column


# Weighted values: "key:weight", or the keys alone.
def _pair(item: Any, is_weighted: bool) -> Any:
    return f"{item['key']}:{item['weight']}" if is_weighted else item["key"]


def _has_pairs(values: Any) -> bool:
    first = _first_item(values)
    return isinstance(first, dict) and set(first) == {"key", "weight"}


def _first_item(values: Any) -> Any:
    rows = () if getattr(values, "dtype", object) != object else values
    return next((item for row in rows if isinstance(row, (list, tuple, np.ndarray)) for item in row), None)


# The rows of lists of lists.
def _rows_of_lists(values: Any) -> Optional[List[Any]]:
    if getattr(values, "ndim", 1) == 3 or isinstance(_first_item(values), (list, tuple, np.ndarray)):
        return [[] if is_missing(row) else row for row in values]
    return None


def _column(name: str, values: Any) -> Column:
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype.kind in "OUS":
        values = list(values)
    try:
        return to_column(name, values)
    except NeedsArrow as problem:
        listed = values.tolist() if hasattr(values, "tolist") else values
        if getattr(values, "dtype", None) == np.uint64:
            return Column(name, np.ascontiguousarray(values))
        read = _reader(next((value for value in listed if not is_missing(value)), None))
        if read is None:
            raise Error(f"{problem}, which requests have no form for; give numbers or text", "invalid_argument") from None
        return to_column(name, [None if is_missing(value) else read(value) for value in listed])


# What makes a value of the kind of `one` a number or a text.
def _reader(one: Any) -> Optional[Callable[[Any], Any]]:
    if isinstance(one, int):
        return str  # of more than 64 bits, or above 2^63-1
    if isinstance(one, decimal.Decimal):
        return int if one.as_tuple().exponent == 0 else float
    if isinstance(one, datetime.datetime):
        return lambda value: (value.astimezone(datetime.timezone.utc).replace(tzinfo=None) if value.tzinfo else value).isoformat()
    if isinstance(one, (datetime.date, datetime.time)):
        return lambda value: value.isoformat()
    return None


# Values in which missing ones are as a server reads them: NaN, the smallest INT64, empty text.
def _array(column: Column) -> np.ndarray:
    if isinstance(column.values, list) or not len(column.values):  # no value has no type but text, which all inputs take
        values: np.ndarray = np.array([*column.values, None], object)[:-1]
    elif column.time_unit:
        ticks = column.values.astype(np.int64).view(f"M8[{'D' if column.time_unit == 'day' else column.time_unit}]")
        values = np.datetime_as_string(ticks).astype(object)
    else:
        values = column.values
    if column.missing is None:
        return values
    missing, dtype = _missing_in(values)
    return np.where(column.missing.astype(bool), missing, values.astype(dtype))


# (a missing value, the type of values that can have it)
def _missing_in(values: np.ndarray) -> Tuple[Any, Any]:
    if values.dtype == object:
        return "", object
    return (np.nan, values.dtype) if values.dtype.kind == "f" else (_MISSING_ID, np.int64)


# Rows of lists as a matrix, shorter ones padded with missing values.
def _bags(column: Column) -> np.ndarray:
    values = _array(column)
    if column.offsets is None:
        return values
    lengths = np.diff(column.offsets)
    width = int(lengths.max(initial=1))
    if len(lengths) and (lengths == width).all():
        return values.reshape(len(lengths), width)
    padded = np.full((len(lengths), width), *_missing_in(values))
    padded[np.arange(width) < lengths[:, None]] = values
    return padded


def _tensor(name: str, values: np.ndarray) -> Tensor:
    if values.dtype != object:
        return Tensor(name, _NAMES[values.dtype], list(values.shape), values.tobytes())
    try:
        texts = [text.encode() for text in values.reshape(-1)]
    except UnicodeEncodeError:
        raise Error(f"column {name!r} has text that is not Unicode", "invalid_argument") from None
    return Tensor(name, "BYTES", list(values.shape), b"".join(struct.pack("<I", len(text)) + text for text in texts))


def array_of(output: Mapping[str, Any], data: Optional[bytes]) -> np.ndarray:
    """An output of an answer, of its own type: BYTES are text. data: its bytes; None: its JSON has the values."""
    datatype, shape = output["datatype"], output["shape"]
    if data is None:
        return np.array(output["data"], _TYPES.get(datatype, object)).reshape(shape)
    if datatype == "BYTES":
        texts, at = [], 0
        while at < len(data):
            size, = struct.unpack_from("<I", data, at)
            texts.append(data[at + 4:at + 4 + size].decode(errors="replace"))
            at += 4 + size
        return np.array(texts, object).reshape(shape)
    if datatype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.frombuffer(data, _TYPES[datatype]).reshape(shape).copy()
