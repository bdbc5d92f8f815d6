"""The description of the interface: whole, and true of what is asked and answered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from planner.base import resources
from planner.documents.references import preset_names
from planner.serve.programs import TOOLS
from tests.conftest import ROOT


def walk(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for inner in (
        [*node.values()] if isinstance(node, dict) else node if isinstance(node, list) else ()
    ):
        yield from walk(inner)


def references(node: Any) -> set[str]:
    return {one["$ref"] for one in walk(node) if isinstance(one.get("$ref"), str)}


@pytest.fixture(scope="module")
def described(server: Any) -> dict[str, Any]:
    status, data, _ = server.ask("GET", "/openapi.json")
    assert status == 200
    found: dict[str, Any] = data
    return found


def validator(described: dict[str, Any], schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": described["components"]})


def asked(described: dict[str, Any], tool: str) -> dict[str, Any]:
    body = described["paths"][f"/v1/{tool}"]["post"]["requestBody"]
    schema: dict[str, Any] = body["content"]["application/json"]["schema"]
    return schema


@pytest.mark.slow
def test_it_is_openapi(described: dict[str, Any]) -> None:
    validate = pytest.importorskip("openapi_spec_validator").validate
    validate(described)


@pytest.mark.slow
def test_each_address_is_described_and_each_reference_leads_somewhere(
    described: dict[str, Any],
) -> None:
    assert described["openapi"].startswith("3.1")
    assert set(described["paths"]) == {f"/v1/{tool}" for tool in TOOLS}
    schemas = described["components"]["schemas"]
    for reference in references(described):
        assert reference.removeprefix("#/components/schemas/") in schemas, reference
    for name, schema in schemas.items():
        Draft202012Validator.check_schema(schema)
        assert "." not in name  # a module to datamodel-codegen
    properties = [node["properties"] for node in walk(described) if "properties" in node]
    # What openapi-python-client reads: no schema that is `true`, no constant that is.
    assert all(one is not True for each in properties for one in each.values())
    assert not any(isinstance(node.get("const"), bool) for node in walk(described))


@pytest.mark.parametrize("name", preset_names("plan"))
def test_what_ships_may_be_asked(described: dict[str, Any], name: str) -> None:
    text = resources.load_own_text(resources.folder("presets") / f"{name}.yaml")
    judge = validator(described, asked(described, "evaluate"))
    judge.validate({"plan": yaml.safe_load(text), "set": {"training.tokens": "2T"}})
    judge.validate({"plan": text, "quantities": ["time.mfu"]})
    assert not judge.is_valid({"plan": {**yaml.safe_load(text), "colour": "red"}})
    assert not judge.is_valid({"plan": name, "output": ["x.md"]})
    assert not judge.is_valid({})


@pytest.mark.slow
def test_what_is_answered_is_described(server: Any, described: dict[str, Any]) -> None:
    bodies: list[tuple[dict[str, Any], int]] = [
        ({"plan": "gpt2small_hgx-h100"}, 200),
        ({"plan": "gpt2small_hgx-h100", "quantities": ["mfu", "memory."]}, 200),
        ({"plan": "gpt2small_hgx-h100", "fields": ["verdict"]}, 200),
        ({"plan": "model: x"}, 422),
        ({}, 422),
    ]
    answers = described["paths"]["/v1/evaluate"]["post"]["responses"]
    for body, wanted in bodies:
        status, answer, _ = server.ask("POST", "/v1/evaluate", body)
        assert status == wanted
        schema = answers[str(status)]["content"]["application/json"]["schema"]
        validator(described, schema).validate(answer)


@pytest.mark.slow
def test_the_page_has_help_whose_links_answer(server: Any) -> None:
    status, page, _ = server.ask("GET", "/")
    text = page.decode()
    assert status == 200 and 'popovertarget="help"' in text
    shown = text[text.index('id="help"') : text.index('id="opening"')]
    links = re.findall(r'href="([^"]+)"', shown)
    assert links and all(server.ask("GET", f"/{link}")[0] == 200 for link in links)
    named = re.findall(r"docs/\w+\.md", shown)
    assert named and all((ROOT / name).is_file() for name in named)
