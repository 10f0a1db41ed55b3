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

import pytest

from tests.tidy.sources import Source, python_sources

FOREIGN: Final = {
    *("_asdict", "_make", "_replace", "_exit", "_epoll", "_actions"),
    *("_gateway", "_get_j_spark_session_class", "_jdf", "_jsc", "_jsparkSession", "_jvm"),
    "_compositor",
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


# ---- files of ours are replaced in one way ----------------------------------------------------------------

REPLACES: Final = {"journalfs/door.py", "journalfs/caller_files.py"}
"""Where the two functions are: of a store's files, and of files of whoever called a command."""

_MAKES: Final = {"create": 0, "write": 0, "write_durably": 0, "copy": 1, "copy_beginning": 1}
"""Functions that make a new file, and which argument is its name."""

IN_PLACE: Final = {
    "journalfs/cli/put.py": "files of the mount",
    "journalfs/exchange/targets.py": "files of the mount",
    "journalfs/pipeline/folders.py": "staged names, which a rename publishes",
    "journalfs/records/tables/owning.py": "copies of rows, made anew at each start",
    "journalfs/records/tables/following.py": "copies of rows, made anew at each start",
    "journalfs/engine/logged.py": "journal files, which hold nothing yet",
    "journalfs/engine/disk.py": "journal files, which hold nothing yet",
    "journalfs/spark/left.py": "a note of what a job put aside: half of it is taken for none",
    "journalfs/python/own.py": "staged names of a draft, which its commit publishes",
    "mount/start/lifecycle.py": "a setting of the kernel",
}
"""Who writes over a file by its name, which a kill may leave half written, and why that loses nothing."""

MADE_BESIDE: Final = {
    "journalfs/convert/carrying.py _copy": "a new store's bodies, under a name that a second try takes again",
    "journalfs/engine/links.py move": "the same, between file systems",
}
"""Who makes a file beside its place and renames it there by itself, and why."""


def called(node: ast.AST) -> tuple[str, list[str]]:
    """The last name of what a call calls, and the text of its arguments."""
    if not isinstance(node, ast.Call):
        return "", []
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name, [ast.unparse(one) for one in node.args]


def replaces_by_hand(function: ast.AST) -> bool:
    """Whether a function makes a file under a name that it removed, or renames what it made."""
    calls = [(*called(node), getattr(node, "lineno", 0)) for node in ast.walk(function)]
    made = {
        given[_MAKES[name]]: at for name, given, at in calls if name in _MAKES and len(given) > _MAKES[name]
    }
    gone = {given[0]: at for name, given, at in calls if name.startswith("remove") and given}
    named = {given[0] for name, given, _ in calls if name in {"rename", "replace"} and len(given) > 1}
    return any(name in named or gone.get(name, at) < at for name, at in made.items())


def writes_in_place(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        name, given = called(node)
        if name in {"write_bytes", "write_text", "create_instead"}:
            return True
        modes = given[:1] if isinstance(getattr(node, "func", None), ast.Attribute) else given[1:2]
        if name == "open" and modes and modes[0].strip("'") in {"w", "wb", "w+b", "wt"}:
            of = given[0] if modes[0] != given[0] else ""
            if not of.startswith(("door.create", "made", "child")) and of not in {"made", "reader"}:
                return True
    return False


@pytest.mark.rule("S-353")
def test_files_of_ours_are_replaced_by_one_function() -> None:
    found, in_place = set(), set()
    for source in python_sources():
        if not source.is_product or source.name in REPLACES:
            continue
        if writes_in_place(source.tree):
            in_place.add(source.name)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and replaces_by_hand(node):
                found.add(f"{source.name} {node.name}")
    assert found == set(MADE_BESIDE)
    assert in_place == set(IN_PLACE)


@pytest.mark.parametrize(
    ("code", "by_hand"),
    [
        ("door.remove_if_there(path)\nwrite_durably(path, content)", True),
        ("made = door.create(new)\ndoor.rename(new, path)", True),
        ("door.write(self.new, content)\nos.rename(self.new, path)", True),
        ("door.copy(a, b)\ndoor.rename(b, c)", True),
        ("door.replace(path, content)", False),
        ("door.remove(old)\ndoor.write(new, content)", False),
    ],
)
def test_the_measure_of_replacing_by_hand(code: str, *, by_hand: bool) -> None:
    assert replaces_by_hand(ast.parse(code)) is by_hand
