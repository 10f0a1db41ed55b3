"""Nothing unfinished is left in the sources, and no test waits by sleeping or cannot fail."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

from tests.tidy.sources import ROOT, c_sources, python_sources

# Put together here, so that this file does not find itself.
MARKERS = re.compile(
    r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "WI" + "P")) + r")\b"
)
DEBUGGING = {"breakpoint", "pdb.set_trace", "ipdb.set_trace"}
CLOCK_FIXTURES = {"autojump_clock", "mock_clock"}


def committed_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]


def test_no_marker_of_unfinished_work() -> None:
    found = []
    for path in committed_files():
        try:
            text = path.read_text()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        if path.suffix in (".py", ".c", ".h", ".md", ".toml", ".java", ".sh", ""):
            found += [
                f"{path.relative_to(ROOT)}:{number} {match[0]}"
                for number, line in enumerate(text.splitlines(), 1)
                if (match := MARKERS.search(line))
            ]
    assert not found, "\n".join(found)


def test_no_empty_function_outside_protocols() -> None:
    """A body of `...`, `pass` or `raise NotImplementedError` says nothing; only protocols may."""
    found = []
    for source in python_sources():
        for owner in ast.walk(source.tree):
            if not isinstance(owner, ast.Module | ast.ClassDef) or _is_protocol(owner):
                continue
            found += [
                f"{source.name}:{node.lineno} {node.name}"
                for node in owner.body
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and not any(
                    _name(decorator).endswith(("overload", "abstractmethod"))
                    for decorator in node.decorator_list
                )
                and all(_is_empty(statement) for statement in node.body)
            ]
    assert not found, "\n".join(found)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Call | ast.Subscript):
        return _name(node.func if isinstance(node, ast.Call) else node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_protocol(owner: ast.Module | ast.ClassDef) -> bool:
    return isinstance(owner, ast.ClassDef) and any(_name(base) == "Protocol" for base in owner.bases)


def _is_empty(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Pass):
        return True
    if isinstance(statement, ast.Raise) and statement.exc is not None:
        return _name(statement.exc) == "NotImplementedError"
    # `...` alone; a docstring alone says what doing nothing means, so it counts as a body.
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is Ellipsis
    )


def test_no_debugging_calls() -> None:
    found = [
        f"{source.name}:{node.lineno}"
        for source in python_sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and (_name(node.func) in DEBUGGING or _dotted(node.func) in DEBUGGING)
    ]
    assert not found, found


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_no_test_sleeps() -> None:
    """A test looks again until a deadline (`time.monotonic`); it never sleeps and hopes.

    `trio.sleep` is fine where a fixture makes the clock jump.
    """
    found = []
    for source in python_sources():
        if not source.is_test:
            continue
        for function in ast.walk(source.tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                parameters = {argument.arg for argument in function.args.args + function.args.kwonlyargs}
                called = {_dotted(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
                polls = "time.monotonic" in called and any(
                    isinstance(node, ast.While) for node in ast.walk(function)
                )
                jumps = bool(parameters & CLOCK_FIXTURES)
                if (called & {"time.sleep", "sleep"} and not polls) or ("trio.sleep" in called and not jumps):
                    found.append(f"{source.name}:{function.lineno} {function.name}")
    assert not found, "\n".join(found)


def test_every_test_can_fail() -> None:
    """Each test function asserts, expects an exception, or calls something of ours that does."""
    found = []
    for source in python_sources():
        if not source.is_test or "/test_" not in f"/{source.name}":
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                asserts = any(
                    isinstance(inner, ast.Assert | ast.Raise | ast.With | ast.Call)
                    for inner in ast.walk(node)
                )
                constant = any(
                    isinstance(inner, ast.Assert) and isinstance(inner.test, ast.Constant)
                    for inner in ast.walk(node)
                )
                if not asserts or constant:
                    found.append(f"{source.name}:{node.lineno} {node.name}")
    assert not found, "\n".join(found)


def test_c_has_no_debug_output() -> None:
    found = [
        f"{name}:{number}"
        for name, text in c_sources()
        if name.startswith("native/src/")
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(r"\b(printf|fprintf|puts|perror)\s*\(", line)
    ]
    assert not found, found
