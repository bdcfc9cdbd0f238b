"""The documentation names files, commands, options and keys that exist."""

import re
import shlex
from pathlib import Path

import onnx
import pytest
import typer
import yaml

import onnxsmith
from onnxsmith.cli.main import app
from onnxsmith.config_loading import load_config
from onnxsmith.graph_optimizer.pass_listing import list_passes

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


def test_every_pass_option_and_pipeline_is_described():
    page = (ROOT / "docs" / "reference" / "passes.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    outside = re.search(r"all of them take (.*?)\(1\.5", page, re.DOTALL).group(1)
    listing = list_passes()
    for info in listing.passes:
        if info.source != "built-in":
            continue
        row = rows.pop(info.name)
        common = outside if "max_growth" in {option.name for option in info.options} else ""
        for option in info.options:
            assert f"`{option.name}`" in row + common, f"{info.name}: {option.name}"
        documented = set(re.findall(r"`(\w+)`", row.rsplit("| ", 1)[1]))
        assert documented <= {option.name for option in info.options}, info.name
        if not common:
            assert (row.split("|")[2].strip() == "yes") == info.exact, info.name
    named = {name for row in rows.values() for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert named == {pipeline.name for pipeline in listing.pipelines}


def test_every_python_block_of_the_pass_guide_runs():
    names = {}
    for block in blocks(ROOT / "docs" / "how-to" / "write-a-pass.md", "python"):
        exec(block, names)  # the page's own code, one block after the other
    (note,) = names["SquareBySelf"](only_float32=True).run(double_square()).notes
    assert note.reason == "it is not float32"


def double_square():
    graph = "g (double[n] x) => (double[n] y) <double two = {2}> { y = Pow(x, two) }"
    return onnxsmith.load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}'))
