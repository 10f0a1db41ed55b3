"""What holds the structure. Each law has the breaks that it had when it was written: none may be added, and
those that are mended leave the list.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Final

from tests.tidy.sources import Source, python_sources

FOREIGN: Final = {
    *("_asdict", "_make", "_replace", "_exit", "_epoll", "_actions"),
    *("_gateway", "_get_j_spark_session_class", "_jdf", "_jsc", "_jsparkSession", "_jvm"),
    *("_AMQ_ORIG_MESSAGE_ID", "_AMQ_ORIG_QUEUE", "_limit_clause"),
}
"""Of other projects, of named tuples, or columns."""


def module_of(source: Source) -> str:
    name = source.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name.replace("mount", "journalfs_mount", 1) if name.startswith("mount") else name


@cache
def product() -> dict[str, Source]:
    return {module_of(source): source for source in python_sources() if source.is_product}


def imported(tree: ast.Module) -> Iterator[str]:
    """Modules of the product, those that are named for their types alone among them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in product())
        elif isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                whole = f"{node.module}.{one.name}"
                yield whole if whole in product() else node.module


def in_circles() -> set[str]:
    graph = {
        module: {one for one in imported(source.tree) if one in product() and one != module}
        for module, source in product().items()
    }
    found: set[str] = set()
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = set(error.args[1])
            found |= circle
            # Taken for one module from here on.
            one = min(circle)
            graph = {
                module: {one if other in circle else other for other in others} - {module}
                for module, others in graph.items()
                if module not in circle
            } | {one: {other for part in circle for other in graph.get(part, ())} - circle}
        else:
            return found


def test_no_import_circle() -> None:
    assert not in_circles()


@cache
def functions() -> frozenset[str]:
    """Names that stand for functions and methods of the product, and for nothing else."""
    nodes = [node for source in product().values() for node in ast.walk(source.tree)]
    made = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    shown = {node.name for node in nodes if isinstance(node, ast.FunctionDef) and is_property(node)}
    stored = {
        node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    stored |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    stored |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return frozenset(made - shown - stored)


def is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(one) for one in node.decorator_list)


def is_function(value: ast.expr) -> bool:
    match value:
        case ast.Lambda():
            return True
        case ast.Call(func=ast.Name(id="partial")):
            return True
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in functions()
    return False


@cache
def callables() -> frozenset[str]:
    """Attributes that are declared to be functions, and nothing else anywhere."""
    declared: dict[str, set[bool]] = {}
    for source in product().values():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute | ast.Name):
                name = node.target.attr if isinstance(node.target, ast.Attribute) else node.target.id
                declared.setdefault(name, set()).add(ast.unparse(node.annotation).startswith("Callable["))
    return frozenset(name for name, kinds in declared.items() if kinds == {True})


def assigned_functions() -> Iterator[str]:
    for source in product().values():
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Assign):
                continue
            for target in (one for whole in node.targets for one in ast.walk(whole)):
                if not isinstance(target, ast.Attribute) or not isinstance(target.ctx, ast.Store):
                    continue
                given = is_function(node.value) or target.attr in callables()
                if given and ast.unparse(target.value) not in {"self", "cls"}:
                    yield f"{source.name}: {ast.unparse(target)}"


def test_no_function_is_given_to_an_object_that_is_made() -> None:
    assert Counter(assigned_functions()) == Counter(ASSIGNED)


def test_kinds_of_runs_are_told_apart_where_they_are_defined() -> None:
    found: Counter[str] = Counter()
    for module, source in product().items():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                found[module] += "Run" in ast.unparse(node.args[1])
    asking = {module: count for module, count in found.items() if count and module not in LIVE}
    assert not asking


def owned(tree: ast.AST) -> set[str]:
    """Names that the class or module gives its own things."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return found


def foreign_privates(source: Source) -> Iterator[str]:
    """Private attributes that are taken from what no class of the file has."""
    own = owned(source.tree) | FOREIGN
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            is_own = ast.unparse(node.value) in {"self", "cls", "super()"}
            if not is_own and node.attr not in own:
                yield node.attr


def test_private_attributes_are_used_by_their_own_class_only() -> None:
    found = {source.name: sum(1 for _ in foreign_privates(source)) for source in python_sources()}
    assert {name: count for name, count in found.items() if count} == USING_PRIVATES


LIVE: Final = {
    *(f"journalfs.live.{name}" for name in ("content", "runs", "stored_runs")),
    *(f"journalfs.views.{name}" for name in ("filters", "views")),
}
"""The runs, and the views of them."""

ASSIGNED: Final = [
    "journalfs/exchange/xml_in.py: parser.CharacterDataHandler",
    "journalfs/exchange/xml_in.py: parser.StartDoctypeDeclHandler",
    "journalfs/store_owner.py: builtins.__import__",
]
"""Of libraries that are told what to call in no other way: expat, and Python's import."""

USING_PRIVATES: Final = {"native/build_backend.py": 1}
"""setuptools takes `cffi_modules` by no public way."""
