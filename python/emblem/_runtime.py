"""What the process has once: the engine, its log as Python's logging, its errors as exceptions."""
from __future__ import annotations

import atexit
import importlib.metadata
import logging
import numbers
import pathlib
import warnings
from typing import Any, Dict, Union

DISTRIBUTION = "emblem-recsys"  # on PyPI, "emblem" is another project with the same import name
LOG = logging.getLogger("emblem")
_KINDS: Dict[type, str] = {numbers.Integral: "a whole number", numbers.Real: "a number", str: "text"}
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


class Error(Exception):
    """What went wrong, in one line. `code`: invalid_argument, not_found, corruption, unavailable, out_of_memory,
    unsupported, cancelled, unauthenticated, permission_denied or internal."""

    def __init__(self, message: str, code: str = "internal") -> None:
        super().__init__(" ".join(str(message).split("\n")))  # values that it quotes may have several lines
        self.code = code

    def __reduce__(self) -> Any:
        return Error, (str(self), self.code)


def require(kind: type, **given: Any) -> None:
    """Throws TypeError for an argument that is not of this kind: numbers.Integral, numbers.Real, str."""
    for name, value in given.items():
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r} ({type(value).__name__}); expected {_KINDS[kind]}")


def _warn_of_clash() -> None:
    try:
        other = importlib.metadata.distribution("emblem")
    except importlib.metadata.PackageNotFoundError:
        return
    warnings.warn(f"the distribution 'emblem' {other.version}, another project, is installed as well and has the same import "
                  f"name; uninstall both, then install {DISTRIBUTION} again", stacklevel=3)


_warn_of_clash()
from emblem import _core  # noqa: E402  (after the warning: the other project has no such module)

__version__ = _core.version
PROGRAM = pathlib.Path(__file__).with_name("bin") / "emblem"


def set_log_level(level: Union[int, str]) -> None:
    """The lowest level of the log, as logging has them. The engine's lines go to the logger "emblem"."""
    LOG.setLevel(level)


def _log(level: int, line: str) -> None:
    LOG.log(_LEVELS[level], line)


if not LOG.handlers and LOG.level == logging.NOTSET:
    LOG.setLevel(logging.WARNING)
_core.set_error_type(Error)
_core.start(_log, 1, str(PROGRAM) if PROGRAM.exists() else "")
atexit.register(_core.stop)
