"""An error inside a search is never turned into another one: what is caught is told, or says "not enough" itself."""

import ast

from support.source_tree import MODULES, ROOT

SEARCHES = ("planning", "accountant/calibration", "accountant/longitudinal")
"""Where numbers are searched for."""

NOT_ENOUGH = {"UnmetTarget", "UnmetTask", "TakesNoNoise", "TakesNoNoiseTask"}
"""The errors after which a search goes on."""

WIDE = {"AccountingError", "TaskError", "HubbubError", "ValueError", "Exception"}
"""Errors that may be any other one too."""


def swallowed(source: str) -> list[int]:
    """The lines that catch an error which may be any, and do not tell it."""
    tree = ast.parse(source)
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    silent = [each.lineno for each in handlers if each.type is None or (names_of(each.type) & WIDE and not told(each))]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and names_of(node.func) & {"suppress"}]
    suppressed = [each.lineno for each in calls if not set().union(*map(names_of, each.args)) <= NOT_ENOUGH]
    return sorted(silent + suppressed)


def names_of(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} | {
        each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)
    }


def told(handler: ast.ExceptHandler) -> bool:
    """Whether it is raised again, or its name is used for more than the cause of another."""
    body = [node for part in handler.body for node in ast.walk(part)]
    causes = {node.cause for node in body if isinstance(node, ast.Raise)}
    used = [node for node in body if isinstance(node, ast.Name) and node.id == handler.name and node not in causes]
    return bool(used) or any(isinstance(node, ast.Raise) and node.exc is None for node in body)


def test_a_search_swallows_no_error() -> None:
    searched = [path for path in MODULES if str(path.relative_to(ROOT)).startswith(SEARCHES)]
    assert len(searched) > 20
    assert {str(path.relative_to(ROOT)): lines for path in searched if (lines := swallowed(path.read_text()))} == {}


def test_the_check_itself_finds_what_is_swallowed() -> None:
    tried = "try:\n    f()\nexcept {}:\n    {}\n"
    assert swallowed(tried.format("TaskError", "return False")) == [3]
    assert swallowed(tried.format("(KeyError, AccountingError) as error", "raise TaskError('no') from error")) == [3]
    assert swallowed(tried.format("TaskError as error", "raise TaskError(f'{error}') from error")) == []
    assert swallowed(tried.format("TaskError", "raise")) == []
    assert swallowed(tried.format("UnmetTask", "return False")) == []
    assert swallowed("with suppress(AccountingError):\n    f()\n") == [1]
    assert swallowed("with contextlib.suppress(UnmetTarget, TakesNoNoise):\n    f()\n") == []
