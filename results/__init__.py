"""Reads, checks, compares and draws the published results of a task: `import hubbub.results`.

    saved = hubbub.results.open_saved("results/", keys="trust/")
    table = saved.read()
    table.to_pandas()

`connect` reads from an analyzer instead, with the folder of a reader (`hubbub init`, `hubbub certificate reader`). Both
verify by default what they return: who signed, every number of each certificate, that counts are those of the
certificate, and that estimates follow from them. `ResultsTable.trust` says what was checked, and what was not.

A table has a row (`PublishedRow`) for each published number, and one for each withheld query, with the reason. Times
are in UTC.
"""

from hubbub.results.checked import NotVerified, Trust
from hubbub.results.differences import Difference
from hubbub.results.published_row import PublishedRow
from hubbub.results.saved import SavedResults, open_saved
from hubbub.results.service_reader import ServiceReader, connect
from hubbub.results.table import ResultsTable
from hubbub.verification.pins import keys_in

__all__ = [
    "Difference",
    "NotVerified",
    "PublishedRow",
    "ResultsTable",
    "SavedResults",
    "ServiceReader",
    "Trust",
    "connect",
    "keys_in",
    "open_saved",
]
