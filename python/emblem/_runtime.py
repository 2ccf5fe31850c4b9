"""What the process has once: the engine, its log as Python's logging, its errors as exceptions."""
import atexit
import importlib.metadata
import logging
import pathlib
import warnings

DISTRIBUTION = "emblem-recsys"  # on PyPI, "emblem" is another project with the same import name
LOG = logging.getLogger("emblem")
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


class Error(Exception):
    """What went wrong, in one line. `code`: invalid_argument, not_found, corruption, unavailable, out_of_memory,
    unsupported, cancelled, unauthenticated, permission_denied or internal."""

    def __init__(self, message, code="internal"):
        super().__init__(message)
        self.code = code

    def __reduce__(self):
        return Error, (str(self), self.code)


def _warn_of_clash():
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


def set_log_level(level):
    """The lowest level of the log, as logging has them. The engine's lines go to the logger "emblem"."""
    LOG.setLevel(level)


def _log(level, line):
    LOG.log(_LEVELS[level], line)


if not LOG.handlers and LOG.level == logging.NOTSET:
    LOG.setLevel(logging.WARNING)
_core.set_error_type(Error)
_core.start(_log, 1, str(PROGRAM) if PROGRAM.exists() else "")
atexit.register(_core.stop)
