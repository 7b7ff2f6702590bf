"""Values of calls as data: JSON text that comes back exactly as it was and never runs code.

Text from a file of unknown origin is read only as numbers, texts, lists, tuples, dictionaries,
arrays, tables and the classes that this package names by `storable`. Independent of what is
computed.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import sys
from enum import Enum
from typing import Any

import numpy as np

_DTYPES = {np.dtype(code).str for code in "?bhiqBHIQefdFD"}
_TEXTS = ("object", "str")  # types of columns that are not numbers
_STORABLE: dict[str, type] = {}


def storable(*kinds: type) -> None:
    """Let values of these dataclasses and enumerations be written and read."""
    for kind in kinds:
        if not (dataclasses.is_dataclass(kind) or issubclass(kind, Enum)):
            raise TypeError(f"kind must be a dataclass or an enumeration, got {kind.__name__}")
        if _STORABLE.setdefault(kind.__name__, kind) is not kind:
            raise TypeError(f"kind must have a name of its own, got {kind.__name__} again")


def encode(value: Any) -> str:
    """Return a value as JSON text.

    Raises
    ------
    TypeError
        If a part of it cannot be written as data.
    """
    return json.dumps(_written(value), allow_nan=False, separators=(",", ":"))


def decode(text: str) -> Any:
    """Return the value that `encode` wrote.

    Raises
    ------
    ValueError
        If `encode` did not write the text.
    """
    try:
        return _read(json.loads(text))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def _written(value: Any) -> Any:
    """Return what JSON can hold: objects always say what kind of value they are."""
    kind = type(value)
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind is float:
        return {"kind": "float", "value": repr(value)}
    if kind is list:
        return [_written(item) for item in value]
    if kind is tuple:
        return {"kind": "tuple", "items": [_written(item) for item in value]}
    if kind is dict:
        return {"kind": "dict", "items": [[_written(k), _written(v)] for k, v in value.items()]}
    if isinstance(value, np.ndarray | np.generic):
        return _written_array(value)
    if "pandas" in sys.modules and kind is sys.modules["pandas"].DataFrame:
        return _written_frame(value)
    if _STORABLE.get(kind.__name__) is not kind:
        raise TypeError(f"a value of type {kind.__name__} cannot be kept as data")
    if isinstance(value, Enum):
        return {"kind": kind.__name__, "value": value.value}
    if hasattr(value, "to_data"):
        given = value.to_data()
    else:
        given = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    own = {name: _written(item) for name, item in given.items()}
    return {"kind": kind.__name__, "fields": own}


def _written_array(value: Any) -> dict[str, Any]:
    array = np.ascontiguousarray(value)
    if array.dtype.str not in _DTYPES:
        raise TypeError(f"an array of dtype {array.dtype} cannot be kept as data")
    return {
        "kind": "array" if isinstance(value, np.ndarray) else "scalar",
        "dtype": array.dtype.str,
        "shape": list(value.shape),
        "bytes": base64.b64encode(array.tobytes()).decode("ascii"),
    }


def _written_frame(value: Any) -> dict[str, Any]:
    columns = [[_written(name), _written_column(value[name])] for name in value.columns]
    return {"kind": "frame", "columns": columns, "index": _written_column(value.index)}


def _written_column(column: Any) -> dict[str, Any]:
    name = str(column.dtype)
    if name in _TEXTS:
        return {"kind": name, "items": [_written(item) for item in column.tolist()]}
    return _written_array(column.to_numpy())


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return [_read(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value["kind"]
    if kind == "float":
        return float(value["value"])
    if kind == "tuple":
        return tuple(_read(item) for item in value["items"])
    if kind == "dict":
        return {_read(key): _read(item) for key, item in value["items"]}
    if kind in ("array", "scalar"):
        return _read_array(value)
    if kind == "frame":
        return _read_frame(value)
    return _read_storable(value)


def _read_array(value: dict[str, Any]) -> Any:
    dtype, shape = value["dtype"], tuple(value["shape"])
    data = base64.b64decode(value["bytes"], validate=True)
    if dtype not in _DTYPES or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("no array of numbers")
    if math.prod(shape) * np.dtype(dtype).itemsize != len(data):
        raise ValueError("an array that is cut short or too long")
    array = np.frombuffer(data, dtype).reshape(shape).copy()
    return array if value["kind"] == "array" else array[()]


def _read_frame(value: dict[str, Any]) -> Any:
    import pandas as pd

    columns = {_read(name): _read_column(column) for name, column in value["columns"]}
    index = _read_column(value["index"])
    if any(len(column) != len(index) for column in columns.values()):
        raise ValueError("a table whose columns differ in length")
    frame = pd.DataFrame(columns)
    frame.index = pd.Index(index)
    return frame


def _read_column(value: dict[str, Any]) -> Any:
    if value["kind"] not in _TEXTS:
        return np.atleast_1d(_read_array(value))
    import pandas as pd

    return pd.array([_read(item) for item in value["items"]], dtype=value["kind"])


def _read_storable(value: dict[str, Any]) -> Any:
    """Return a value of a class that the package has named; the text cannot name another."""
    kind: Any = _STORABLE[value["kind"]]
    if issubclass(kind, Enum):
        return kind(value["value"])
    own = {name: _read(item) for name, item in value["fields"].items()}
    if hasattr(kind, "from_data"):
        return kind.from_data(**own)
    if set(own) != {field.name for field in dataclasses.fields(kind)}:
        raise ValueError(f"no {kind.__name__}")
    return kind(**own)
