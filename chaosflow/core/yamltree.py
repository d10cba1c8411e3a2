"""YAML text -> plain data that remembers where each key and value stands; YAML 1.1's traps are refused."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from chaosflow.core.errors import Problem
from chaosflow.core.yamlnodes import TaggedLoader, written_tag

Path = tuple[str | int, ...]
"""Where a value sits in the data: ``("faults", 0, "params", "delay_ms")``."""

_MAX_NODES = 20_000
_MAX_DEPTH = 64
_MAX_DIGITS = 100  # beyond any number that can be meant; a float ends at 308
_YAML11_BOOL = frozenset({"yes", "no", "on", "off", "y", "n"})
_SEXAGESIMAL = re.compile(r"^[-+]?\d[\d_]*(:[0-5]?\d)+(\.\d*)?$")
_OCTAL = re.compile(r"^[-+]?0[0-9_]+$")
_EXPONENT = re.compile(r"^[-+]?(\d[\d_]*)(\.\d*)?[eE][-+]?\d+$")
_SURROGATE = re.compile("[\ud800-\udfff]")
_HALF_CHARACTER = ("holds half a character (a surrogate)", "write the character itself")
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Place:
    """A file with line and column (from 1; 0 = not known), or the ``--set`` option a value came from."""

    file: str
    line: int = 0
    column: int = 0

    def problem(self, message: str, remedy: str = "") -> Problem:
        return Problem(self.file, self.line, self.column, message, remedy)


@dataclass(slots=True)
class Document:
    """Plain data (dict, list, str, int, float, bool, None), and where each part of it stands."""

    file: str
    data: Any = None
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    reported: dict[Path, Problem | None] = field(default_factory=dict)
    """Paths that already have a problem: nothing more is said about them."""

    def report(self, path: Path, message: str, remedy: str = "", *, at_key: bool = False) -> None:
        """Note a problem at ``path``; a second one at the same path is dropped."""
        if path in self.reported:
            return
        problem = self.place(path, at_key=at_key).problem(message, remedy)
        self.reported[path] = problem
        self.problems.append(problem)

    def place(self, path: Path, *, at_key: bool = False) -> Place:
        """The nearest known place: of the value (or its key), else of what holds it."""
        for end in range(len(path), -1, -1):
            first, second = (
                (self.keys, self.values) if at_key or end < len(path) else (self.values, self.keys)
            )
            found = first.get(path[:end]) or second.get(path[:end])
            if found:
                return found
        return Place(self.file)

    def get(self, path: Path) -> Any:
        """The value at ``path``; KeyError, IndexError or TypeError where there is none."""
        value = self.data
        for step in path:
            value = value[step]
        return value


def parse_yaml(text: str, file: str) -> Document:
    """The one document in ``text``. Never raises: what is wrong stands in ``problems``."""
    document = Document(file)
    try:
        node = _only_node(text, document)
        if node is not None:
            document.data = _Converter(document).convert(node, (), frozenset())
    except yaml.MarkedYAMLError as e:
        document.problems.append(_syntax_problem(e, file, text))
    except yaml.reader.ReaderError as e:
        before = text[: e.position]
        column = len(before) - before.rfind("\n")
        place = Place(file, before.count("\n") + 1, column)
        document.problems.append(
            place.problem(f"the character {e.character!r} is not allowed in YAML", "remove it")
        )
    except RecursionError:
        document.problems.append(Place(file).problem("nested too deeply to be a scenario"))
    return document


def parse_inline(text: str, file: str) -> Document:
    """The value of a ``--set`` option; its places name the option instead of a line."""
    document = parse_yaml(text, file)
    document.keys = dict.fromkeys(document.keys, Place(file))
    document.values = dict.fromkeys(document.values, Place(file))
    document.problems = [Place(file).problem(p.message, p.remedy) for p in document.problems]
    return document


def _only_node(text: str, document: Document) -> yaml.Node | None:
    loader = TaggedLoader(text)
    try:
        if not loader.check_node():
            document.problems.append(
                Place(document.file, 1, 1).problem(
                    "the file is empty", "'chaosflow init' writes a scenario to start from"
                )
            )
            return None
        node = loader.get_node()
        if loader.check_node() and (second := loader.get_node()):
            mark = second.start_mark
            document.problems.append(
                _place(document.file, mark).problem(
                    "a second YAML document begins here", "keep one scenario in one file; remove the '---'"
                )
            )
        return node
    finally:
        loader.dispose()


class _Converter:
    """Walks nodes; bounded, so that aliases of aliases cannot blow up."""

    def __init__(self, document: Document) -> None:
        self._doc, self._left = document, _MAX_NODES

    def convert(self, node: yaml.Node, path: Path, above: frozenset[int]) -> Any:
        place = _place(self._doc.file, node.start_mark)
        self._doc.values.setdefault(path, place)
        self._left -= 1
        if self._left < 0:
            if self._left == -1:
                self._doc.report(path, f"more than {_MAX_NODES} values (aliases counted)", "write less")
            return None
        if id(node) in above:
            self._doc.report(path, "this alias holds itself", "write the value out")
            return None
        if len(path) > _MAX_DEPTH:
            self._doc.report(path, "nested too deeply to be a scenario", "write less deep")
            return None
        if tag := written_tag(node):
            self._doc.report(path, f"the tag {tag} is not allowed", "remove it")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, above | {id(node)})
        if isinstance(node, yaml.SequenceNode):
            below = above | {id(node)}
            return [self.convert(item, (*path, i), below) for i, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path, above: frozenset[int]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            here = (*path, key)
            if key in result:
                first = self._doc.keys[here]
                self._doc.problems.append(
                    _place(self._doc.file, key_node.start_mark).problem(
                        f"key {key!r} stands twice (first in line {first.line})", "keep one of them"
                    )
                )
                continue
            self._doc.keys[here] = _place(self._doc.file, key_node.start_mark)
            result[key] = self.convert(value_node, here, above)
        return result

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        place = _place(self._doc.file, node.start_mark)
        message = remedy = ""
        if not isinstance(node, yaml.ScalarNode):
            message, remedy = "a key must be a word", "put the value after 'key: '"
        elif node.tag == _TAG + "merge":
            message, remedy = "merge keys ('<<') are not supported", "write the keys out"
        elif node.style is None and node.value.lower() in _YAML11_BOOL:
            message = f"the key {node.value} is read as true or false by YAML 1.1"
            remedy = f'write it in quotes: "{node.value}"'
        elif "${env:" in node.value:
            message, remedy = "${env:…} works in values only", "write the key out"
        elif tag := written_tag(node):
            message, remedy = f"the tag {tag} is not allowed", "remove it"
        elif _SURROGATE.search(node.value):
            message, remedy = _HALF_CHARACTER
        if message:
            self._doc.problems.append(place.problem(message, remedy))
            self._doc.reported[*path, str(node.value)] = None
            return None
        return str(node.value)

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        text, tag = str(node.value), str(node.tag)
        plain = getattr(node, "style", None) is None  # no quotes, no block
        if _SURROGATE.search(text):
            self._doc.report(path, *_HALF_CHARACTER)
            return None
        if not plain or tag == _TAG + "str":
            if plain and text.lower() in _YAML11_BOOL:
                self._refuse_bool(path, text)
            return self._exponent(path, text) if plain else text
        match tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                if text.lower() in _YAML11_BOOL:
                    self._refuse_bool(path, text)
                return text.lower() in ("true", "yes", "on")
            case "int" | "float" as kind:
                return self._number(path, text, kind)
        return text  # a date, or a lone =

    def _refuse_bool(self, path: Path, text: str) -> None:
        self._doc.report(
            path,
            f"{text} is read as true or false by YAML 1.1",
            f'write true or false, or the word in quotes: "{text}"',
        )

    def _exponent(self, path: Path, text: str) -> str | float:
        # YAML 1.1 reads 1e3 as text, everybody else as a number
        if not _EXPONENT.match(text):
            return text
        return self._finite(path, text)

    def _finite(self, path: Path, text: str) -> str | float:
        value = float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
        if not math.isfinite(value):
            self._doc.report(path, f"{text} is not a finite number", "write a number")
            return text
        return value

    def _number(self, path: Path, text: str, kind: str) -> int | float | str | None:
        if _SEXAGESIMAL.match(text):
            self._doc.report(
                path,
                f"{text} is read in base 60 by YAML 1.1",
                f'write a duration such as 1m30s, or put it in quotes: "{text}"',
            )
            return text
        if _OCTAL.match(text):
            self._doc.report(
                path, f"{text} is read as an octal number by YAML 1.1", "write it without the leading 0"
            )
            return text
        if len(text) > _MAX_DIGITS:
            self._doc.report(path, f"a number of {len(text)} digits", "write a number that can be meant")
            return None
        if kind == "float":
            return self._finite(path, text.lower())
        try:
            return int(text.replace("_", ""), 0)
        except ValueError:  # 0x_: YAML takes it for a number, nobody else does
            self._doc.report(path, f"{text} is no number", f'write a number, or put it in quotes: "{text}"')
            return None


def _place(file: str, mark: yaml.Mark) -> Place:
    return Place(file, mark.line + 1, mark.column + 1)


def _syntax_problem(error: yaml.MarkedYAMLError, file: str, text: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    place = _place(file, mark) if mark else Place(file)
    cause = error.problem or error.context or "not valid YAML"
    if "'\\t'" in cause:
        return place.problem("a tab stands where YAML wants spaces", "indent with spaces")
    remedy = ""
    lines = text.split("\n")
    if mark and "flow" in (error.context or "") and "${env:" in lines[min(mark.line, len(lines) - 1)]:
        remedy = 'inside { } and [ ] write it in quotes: "${env:NAME}"'
    elif "undefined alias" in cause:
        remedy = "a word that begins with * must stand in quotes"
    elif "mapping values are not allowed" in cause:
        remedy = "check the indentation; text that holds ': ' must stand in quotes"
    context = f" {error.context}" if error.context and error.problem else ""
    return place.problem(f"not valid YAML: {cause}{context}", remedy)
