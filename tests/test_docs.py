"""The documentation names files, commands, options and keys that exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from onnxsmith.cli.main import app
from onnxsmith.config_loading import load_config

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return [text for found, text in FENCE.findall(page.read_text(encoding="utf-8")) if found == language]


def commands(page):
    for block in (*blocks(page, "console"), *blocks(page, "sh"), *blocks(page, "text")):
        lines = block.splitlines()
        typed = [line[2:] for line in lines if line.startswith("$ ")]
        for line in typed or lines:
            if line.startswith("onnxsmith "):
                yield line, shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_command_and_option_exists():
    seen = 0
    for page in PAGES:
        for line, words in commands(page):
            command = typer.main.get_command(app)
            while hasattr(command, "commands"):
                assert words, line
                if re.match(r"-|\d", words[0]):  # an option, or the version as it is printed
                    break
                assert words[0] in command.commands, f"{page.name}: {line}"
                command = command.commands[words.pop(0)]
            if hasattr(command, "commands"):
                continue
            known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            for word in words:
                if word.startswith("-"):
                    assert word.split("=")[0] in known | {"--help", "--version"}, f"{page.name}: {line}"
            seen += 1
    assert seen > 25


def test_every_yaml_block_is_a_configuration(tmp_path):
    seen = 0
    for page in PAGES:
        for block in blocks(page, "yaml"):
            if "jobs:" in block:
                continue
            (tmp_path / "block.yaml").write_text(block)
            assert load_config(tmp_path / "block.yaml", environment={}).origins, page
            assert yaml.safe_load(block)
            seen += 1
    assert seen >= 1


def test_every_page_of_the_documentation_is_reachable():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name != "index.md":
            assert str(page.relative_to(ROOT / "docs")) in index, page
