"""Every public method says what it does once: where it is promised, or where it is written if nobody promised it."""

import ast
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence

from extensions.docstrings import ENTRY, SECTION
from support.source_tree import MODULES, ROOT, parsed

Function = ast.FunctionDef | ast.AsyncFunctionDef

Signature = tuple[str, tuple[str, ...]]
"""A method's name, and those of its parameters."""


Methods = Sequence[tuple[ast.ClassDef, Function]]
"""Methods, each with its class."""


def methods(source: str) -> Methods:
    classes = (found for found in ast.walk(parsed(source)) if isinstance(found, ast.ClassDef))
    return [(owner, each) for owner in classes for each in owner.body if isinstance(each, Function)]


def signature(method: Function) -> Signature:
    given = method.args
    # An underscore says that an implementation does not use what it is given.
    names = (each.arg.lstrip("_") for each in (*given.posonlyargs, *given.args, *given.kwonlyargs))
    return method.name, tuple(names)


def is_promise(owner: ast.ClassDef, method: Function) -> bool:
    """Whether others implement the method: it is a protocol's, or abstract."""
    protocol = any(ast.unparse(base).partition("[")[0] == "Protocol" for base in owner.bases)
    return protocol or any("abstractmethod" in ast.unparse(each) for each in method.decorator_list)


def words(method: Function) -> str:
    return " ".join((ast.get_docstring(method) or "").split())


def is_public(owner: ast.ClassDef, method: Function) -> bool:
    return not owner.name.startswith("_") and not method.name.startswith("_")


def promised(modules: Iterable[Methods]) -> dict[Signature, list[str]]:
    """What protocols and abstract classes say that methods do."""
    found: dict[Signature, list[str]] = defaultdict(list)
    for module in modules:
        for owner, method in module:
            if is_promise(owner, method) and words(method):
                found[signature(method)].append(words(method))
    return found


def silent(module: Methods, known: dict[Signature, list[str]]) -> list[str]:
    """Methods that nobody says anything of."""
    return [
        f"{owner.name}.{method.name}"
        for owner, method in module
        if is_public(owner, method) and not words(method) and not known.get(signature(method))
    ]


def copied(module: Methods, known: dict[Signature, list[str]]) -> list[str]:
    """Methods that say, word for word, what is promised of them, or how that begins."""
    return [
        f"{owner.name}.{method.name}"
        for owner, method in module
        if not is_promise(owner, method)
        and words(method)
        and any(each.startswith(words(method)) for each in known.get(signature(method), ()))
    ]


def test_each_public_method_is_documented_and_no_implementation_repeats_what_is_promised() -> None:
    modules = {str(path.relative_to(ROOT)): methods(path.read_text()) for path in MODULES}
    known = promised(modules.values())
    undocumented = {name: found for name, module in modules.items() if (found := silent(module, known))}
    repeated = {name: found for name, module in modules.items() if (found := copied(module, known))}
    assert undocumented == {}
    assert repeated == {}


def test_the_check_itself_sees_silence_and_copies() -> None:
    promise = 'class Promise(Protocol):\n    def get(self, key: str) -> str:\n        """Return it. Fast."""\n'
    known = promised([methods(promise)])
    kept = "class Kept:\n    def get(self, _key: str) -> str:\n        return ''\n"
    assert silent(methods(kept), known) == []
    assert silent(methods(kept.replace("_key", "name")), known) == ["Kept.get"]
    repeating, saying_more = (
        kept.replace("return", f'"""{said}"""\n        return') for said in ("Return it.", "Return me.")
    )
    assert copied(methods(repeating), known) == ["Kept.get"]
    assert copied(methods(saying_more), known) == []


def misplaced(source: str) -> list[str]:
    """Lines of sections of docstrings that begin as an entry does, and are none: they would be part of another's."""
    found = []
    for node in ast.walk(parsed(source)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        lines = ((ast.get_docstring(node) or "") if documented else "").split("\n")
        for number, line in enumerate(lines):
            if SECTION.match(line):
                entries = "\n".join(lines[number + 1 :]).partition("\n\n")[0]
                begin = [each for each in textwrap.dedent(entries).split("\n") if each and not each.startswith(" ")]
                found += [each for each in begin if not ENTRY.match(each)]
    return found


def test_each_entry_of_a_section_begins_with_its_names_on_one_line() -> None:
    assert {str(path): found for path in MODULES if (found := misplaced(path.read_text()))} == {}
    section = 'def f():\n    """Do.\n\n    Raises:\n        A, B: if so,\n            or not.\n        {}\n    """\n'
    assert misplaced(section.format("C: else.")) == []
    assert misplaced(section.format("two words: else.")) == ["two words: else."]
    assert misplaced(section.format("C, D,\n        E: else.")) == ["C, D,"]
