"""Makes a pandas data frame of an Arrow table; this module needs pandas, so it is loaded late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hubbub.accountant.errors import needs_extra

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame


def frame_of(table: Any) -> DataFrame:
    """Return a data frame of an Arrow table (`pyarrow.Table`).

    Raises:
        ModuleNotFoundError: if pandas is not installed; the message names the extra.
    """
    try:
        import pandas  # noqa: F401 - pyarrow's own error names no extra
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(needs_extra("to_pandas", "pandas", "pandas"), name="pandas") from error
    frame: DataFrame = table.to_pandas()
    return frame
