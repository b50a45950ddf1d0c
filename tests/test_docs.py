"""Pages of ``docs``: what they link to, name and show exists. The whole site is built by ``scripts/docs``."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import tsimpute as ti
from tsimpute.tasks.protocols import PROTOCOLS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if not {"_build", "generated"} & set(path.parts)]
PAGES.append(ROOT / "CONTRIBUTING.md")
EVIDENCE = [DOCS / "evidence.md", *sorted((DOCS / "evidence").glob("*.md"))]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))

sys.path.append(str(DOCS / "_ext"))
import command_line  # noqa: E402 - the parts of pages that are generated
import evidence  # noqa: E402
import pages  # noqa: E402


@cache
def generated() -> dict[str, str]:
    """Text by name under docs/generated."""
    return dict(pages._texts(ROOT))


@cache
def options(command: str) -> set[str]:
    return command_line.options_of(command)


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", text)


def prose(text: str) -> str:
    """The text without blocks of code, tables and directives."""
    return re.sub(r"(?ms)^(```|::::?).*?^\1", "", text)


def exists(page: Path, target: str) -> bool:
    """Whether a page, notebook, generated part or picture is there."""
    if target.startswith("/generated/pictures/"):
        return Path(target).name in {name for _, name in evidence.pictures(ROOT)}
    path = (page.parent / target).resolve()
    if (DOCS / "generated") in path.parents:
        return str(path.relative_to(DOCS / "generated")) in generated()
    if path.parent == DOCS / "tutorials" and path.suffix in ("", ".ipynb"):
        return path == DOCS / "tutorials" / "index" or (ROOT / "notebooks" / path.name).with_suffix(".ipynb").is_file()
    return path.exists() or path.with_suffix(".md").is_file()


def links(text: str) -> Iterator[str]:
    """Targets of links, pictures, includes, cards and tables of contents."""
    for target in re.findall(r"\]\(([^)\s]+)\)|`[^`]* <([^>]+)>`|^```\{include\} (\S+)|^:link: (\S+)", text, re.M):
        yield "".join(target).partition("#")[0]
    for block in re.findall(r"(?ms)^```\{toctree\}\n(.*?)^```", text):
        yield from (line for line in block.split() if not line.startswith((":", "1", "2")))


@every_page
def test_what_a_page_links_to_is_there(page: Path) -> None:
    internal = [link for link in links(read(page)) if link and not re.match(r"\w+:", link)]
    assert [link for link in internal if not exists(page, link)] == []


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = {(page.parent / link).resolve().with_suffix("") for page in PAGES for link in links(read(page))}
    pages = [page for page in PAGES if DOCS in page.parents and page != DOCS / "index.md"]
    assert [page for page in pages if page.with_suffix("") not in listed] == []


@every_page
def test_files_that_a_page_names_are_in_the_repository(page: Path) -> None:
    folders = "benchmarks|datasets|docs|notebooks|notes|results|scripts|tests|tsimpute"
    named = re.findall(rf"`(?:\S+python )?((?:{folders})/[\w./-]*)[^`]*`", read(page))
    shown = re.findall(rf"(?m)^(?:\S+python )?((?:{folders})/[\w./-]+)", "\n".join(blocks(read(page), "sh")))
    made = {"tsimpute/solvers/euler.py", "datasets/NAME.md", "docs/generated", "docs/_build/html"}
    assert [name for name in {*named, *shown} - made if not (ROOT / name).exists()] == []


@every_page
def test_python_of_a_page_compiles(page: Path) -> None:
    for code in blocks(read(page), "python"):
        ast.parse(code)


@every_page
def test_commands_of_a_page_have_the_options_that_it_shows(page: Path) -> None:
    text = read(page)
    lines = "\n".join(blocks(text, "sh")).replace("\\\n", " ").splitlines()
    commands = [
        line[line.index("tsimpute ") :].split("#")[0] for line in lines if re.match(r"(\S+=\S+ )?tsimpute ", line)
    ]
    for line in commands:
        words = line.split()
        name = " ".join(words[1 : 3 if words[1] == "suite" else 2])
        if name.startswith("-"):
            continue
        assert name in command_line.COMMANDS, line
        given = {word.partition("=")[0] for word in re.findall(r"(?<=\s)--?[A-Za-z][\w.=-]*", line)}
        assert {word[:2] + word[2:].replace("-", "_") for word in given} <= options(name), line
    everywhere = set().union(*(options(name) for name in command_line.COMMANDS)) | {"--version", "--help"}
    spoken = {word.replace("-", "_").replace("__", "--", 1) for word in re.findall(r"`(--[a-z][\w.-]*)", prose(text))}
    assert spoken - everywhere <= {"--part.name"}


def test_every_public_name_is_in_the_reference() -> None:
    listed = set(re.findall(r"(?m)^   (\w+)$", read(DOCS / "reference" / "api.md")))
    assert set(ti.__all__) <= listed


def test_every_protocol_has_a_column_of_the_table_of_protocols() -> None:
    (header,) = re.findall(r"(?m)^\| +\|(.*`clean`.*)\|$", read(DOCS / "explanation" / "protocols.md"))
    assert [name for column in header.split("|") for name in re.findall("`(.*)`", column)] == list(PROTOCOLS)


def test_every_setting_of_a_run_is_described() -> None:
    text = generated()["settings-run.md"]
    for part in fields(ti.RunConfig):
        section = text.split(f"## {part.name}\n")[1].split("\n## ")[0]
        for one in fields(part.default_factory):  # type: ignore[arg-type]
            assert re.search(rf"`{one.name}( = [^`]*)?`", section), (part.name, one.name)


def test_every_setting_of_a_table_is_described() -> None:
    described = re.findall(
        r"`(\w+)(?: = [^`]*)?`", "\n".join(re.findall(r"(?m)^(`.*)\n: ", generated()["settings-table.md"]))
    )
    assert set(ti.TableImputer().get_params()) == set(described)
    assert len(described) == len(set(described))


def test_nothing_that_is_listed_lacks_a_description() -> None:
    assert [name for name, text in generated().items() if "not described" in text] == []


@pytest.mark.parametrize("suite", evidence.SUITES)
def test_tables_of_the_evidence_are_those_of_the_results(suite: str) -> None:
    results = set(read(ROOT / "results" / suite / "tables.md").splitlines())
    shown = [line for name, text in generated().items() if f"evidence/{suite}-" in name for line in text.splitlines()]
    assert len(shown) > 50
    assert [line for line in shown if line.startswith("|") and line not in results] == []


@pytest.mark.parametrize("page", EVIDENCE, ids=lambda path: path.stem)
def test_text_of_the_evidence_is_short_and_has_no_measured_number(page: Path) -> None:
    text = prose(read(page))
    assert len([line for line in text.splitlines() if line.strip()]) <= 60
    assert measured_numbers(text.replace("grid 1.5", "").replace("grid of 1.5", "")) == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "reading_files.md"], ids=lambda page: page.stem
)
def test_text_of_no_page_has_a_measured_number(page: Path) -> None:
    """Figures are copied from results; what a number in a file looks like, as in code or in 1.234, is none."""
    if page not in EVIDENCE:
        assert measured_numbers(prose(read(page)).replace("1.234", "")) == []


def measured_numbers(text: str) -> list[str]:
    """Numbers with a fraction in prose; names and versions are none."""
    return re.findall(r"\d+\.\d+", re.sub(r"`[^`]*`|PM2\.5|Python 3\.\d+|layer \d\.\d", "", text))
