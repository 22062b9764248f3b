"""What a module needs is read before it, not around it."""

from collections.abc import Mapping

from support.source_tree import NAMES, imported


def circles(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of modules that reach each other (Tarjan's strongly connected components of more than one)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for other in arrows[name]:
            if other not in index:
                visit(other)
            if other in stack:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == index[name]:
            members = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(members) > 1:
                found.append(sorted(members))

    for name in arrows:
        if name not in index:
            visit(name)
    return found


def test_no_circle_in_what_modules_import() -> None:
    arrows = {
        name: {other for other in imported(path) if other in NAMES and other != name} for name, path in NAMES.items()
    }
    assert sum(map(len, arrows.values())) > len(NAMES), "hardly any import was read"
    assert circles(arrows) == []


def test_the_check_itself_sees_a_circle() -> None:
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert circles(arrows) == [["b", "c"]]
