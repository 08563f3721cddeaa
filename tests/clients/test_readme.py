"""The tour of README.md, as it stands: every command is run, and prints what the page shows but for its times."""

import os
import re
import socket
import subprocess

import pytest

from conftest import ROOT
from frostline import DONE, Outcome

BLOCK = re.compile(r"```sh\n(?P<commands>.*?)```\n(?:```text\n(?P<shown>.*?)```)?", re.DOTALL)


@pytest.fixture(scope="module")
def tour():
    text = (ROOT / "README.md").read_text()
    return text[text.index("## A tour") : text.index("## What works today")]


def test_the_tour_can_be_pasted(tour, binary, tmp_path):
    demo = tmp_path / "target" / "demo"
    demo.mkdir(parents=True)
    (demo / "frostline").symlink_to(binary)
    blocks = list(BLOCK.finditer(tour))
    assert len(blocks) >= 5 and "\n    " not in BLOCK.sub("", tour), "every command is in a block that is run"
    script = "\n".join(["set -e", *(f"{block['commands']}\necho END OF BLOCK" for block in blocks)])
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "{}:{}".format(*free.getsockname())
    assert "localhost:9200" in script
    script = script.replace("localhost:9200", address)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FROSTLINE_")}
    environment = {**clean, "HOME": str(tmp_path), "FROSTLINE_LISTEN": address}
    run = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120
    )
    assert run.returncode == DONE, Outcome(run.returncode, run.stdout, "")
    assert '"response" : 404' in run.stdout or '"response": 404' in run.stdout, run.stdout
    for block, printed in zip(blocks, run.stdout.split("END OF BLOCK\n")):
        if block["shown"]:
            assert shape(printed) == shape(block["shown"])
            assert figures(printed) == figures(block["shown"])


def shape(text):
    """The text without its numbers, what depends on them, and its spacing."""
    return [" ".join(re.sub(r"\d[\d.,]*", "#", line).replace("GETs", "GET").split()) for line in text.splitlines()]


def figures(text):
    """Documents, requests, sizes and dollars, which repeat exactly. A request is hedged only if its answer is 400 ms late."""
    return re.findall(r"\d+ (?:match|row|document|split|GET|LIST)|[\d.]+ [kM]?B\b(?!/s)|\$[\d.]+", text)


def test_the_binary_that_the_tour_names_is_what_make_demo_builds(tour):
    makefile = (ROOT / "Makefile").read_text()
    assert "--profile demo -p frostline" in makefile and "target/demo" in tour
