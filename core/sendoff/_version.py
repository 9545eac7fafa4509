"""The version of this distribution."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("sendoff")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0"
