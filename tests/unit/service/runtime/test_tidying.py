"""An error while tidying up never takes the place of the first one, and every step is taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hubbub.service.runtime.tidying import noted_on, tidied, tidied_async


def failing(taken: list[str], name: str) -> Callable[[], None]:
    def step() -> None:
        taken.append(name)
        raise OSError(28, f"{name}: no space")

    return step


def test_the_first_error_is_raised_with_the_others_as_notes() -> None:
    taken: list[str] = []
    with pytest.raises(ValueError, match="first") as caught, tidied(failing(taken, "one"), failing(taken, "two")):
        raise ValueError("first")
    assert taken == ["one", "two"]
    assert [note.partition(": OSError: ")[0] for note in caught.value.__notes__] == ["tidying up failed too"] * 2


def test_without_an_error_of_the_block_the_first_failed_step_is_told_after_all() -> None:
    taken: list[str] = []
    with pytest.raises(OSError, match="one"), tidied(failing(taken, "one"), failing(taken, "two")):
        pass
    assert taken == ["one", "two"]
    with pytest.raises(OSError, match="alone"), noted_on(None):
        failing(taken, "alone")()


async def test_steps_that_wait_do_the_same() -> None:
    taken: list[str] = []

    def later(name: str) -> Callable[[], object]:
        async def step() -> None:
            failing(taken, name)()

        return step

    with pytest.raises(ValueError, match="first"):
        async with tidied_async(later("one"), later("two")):  # type: ignore[arg-type]
            raise ValueError("first")
    with pytest.raises(OSError, match="three"):
        async with tidied_async(later("three"), later("four")):  # type: ignore[arg-type]
            pass
    assert taken == ["one", "two", "three", "four"]
