"""Imports of optional dependencies."""

import pytest

from hubbub.protos.errors import HubbubError
from hubbub.service.extras import of_an_extra


def test_a_driver_that_is_not_installed_is_named_with_the_command_that_installs_it() -> None:
    says = r"^store = postgresql://… needs PostgreSQL's driver \(not installed\): pip install 'hubbub\[postgres\]'"
    with pytest.raises(HubbubError, match=says), of_an_extra():
        raise ModuleNotFoundError(name="psycopg")
