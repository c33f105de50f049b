"""The interface description: whole, valid, and kept to by every answer."""

import re
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import jsonschema  # type: ignore[import-untyped]
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sudare.collector._messages import PROBLEMS
from sudare.collector._openapi import description
from sudare.collector._routes import ENDPOINTS
from sudare.collector.monitoring import HEALTH_PATHS
from tests.collector.served import Served, serving
from tests.support import ROOT
from tests.support.soak import times
from tests.support.waiting import PATIENCE

CASES = times(60, 2_000)
"""Requests to make up for an operation, shared out over what it takes."""
CHECKS = [
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
NEVER_ENDS = "/v1/surveys/{id}/stream"
OPERATIONS = [
    (method, path)
    for path, methods in description()["paths"].items()
    for method in methods
    if path != NEVER_ENDS
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("openapi")
    options = {"tickets_per_minute": 0.0, "tickets_per_second_overall": 0.0}
    with serving(folder, **options) as collector:
        yield collector


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as wire:
        yield wire


def test_every_route_is_described_and_documented() -> None:
    described = {
        f"{method.upper()} {path}"
        for path, methods in description()["paths"].items()
        for method in methods
    }
    assert described == {f"{each.method} {each.path}" for each in ENDPOINTS}
    page = (ROOT / "docs" / "reference" / "http.md").read_text()
    documented = re.findall(r"^## `?((?:GET|POST|PUT|DELETE) [^`\n]+?)`?$", page, re.M)
    assert len(documented) == len(set(documented))
    assert set(documented) == described | {f"GET {path}" for path in HEALTH_PATHS}


def test_every_refusal_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "http.md").read_text()
    for code, problem in PROBLEMS.items():
        assert re.search(rf"^\| `{code}` \| {problem.status} \|", page, re.M), code
    used = {code for each in ENDPOINTS for code in each.problems} | {"wrong_method", "internal"}
    assert used == set(PROBLEMS)


def test_the_document_is_valid() -> None:
    document = description()
    assert document["openapi"] == "3.1.0"
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    named = set(re.findall(r"#/components/schemas/(\w+)", repr(document)))
    assert named == set(schemas)
    operations = [each for path in document["paths"].values() for each in path.values()]
    names = [each["operationId"] for each in operations]
    assert len(names) == len(set(names))
    for each in operations:
        assert each["summary"]
        for status, answer in each["responses"].items():
            assert answer["description"]
            assert 200 <= int(status) < 600


def test_operators_routes_say_so() -> None:
    paths = description()["paths"]
    assert paths["/v1/surveys/{id}/enrolment"]["put"]["security"] == [{"operator": []}]
    assert paths["/v1/surveys/{id}/operator"]["get"]["security"] == [{"operator": []}]
    assert paths["/v1/surveys/{id}/tickets"]["post"]["security"] == [{}, {"operator": []}]
    assert "security" not in paths["/v1/surveys/{id}/reports"]["post"]
    for name in ("estimates", "summary", "estimates.csv", "activity", "stream"):
        allowed: list[Any] = [{}, {"viewer": []}, {"operator": []}, {"session": []}]
        assert paths[f"/v1/surveys/{{id}}/{name}"]["get"]["security"] == allowed


def operation(served: Served, method: str, path: str) -> Any:
    """An operation of this collector's survey, or else everything is an unknown one."""
    document = description()
    own = served.service.rehearsal.id if path.startswith("/rehearsal/") else served.id
    for each in document["paths"][path][method].get("parameters", []):
        if each["name"] == "id":
            each["schema"] = {"type": "string", "enum": [own, "0" * 16]}
        if each["name"] == "file":
            each["schema"] = {"type": "string", "enum": ["sudare.css", "icon.svg", "none.js"]}
    schema = schemathesis.openapi.from_dict(document)
    return schema[path][method]


@pytest.mark.soak(tries=f"{CASES:,} requests")
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_keep_to_the_description(
    served: Served, session: requests.Session, method: str, path: str, mode: GenerationMode
) -> None:
    found = operation(served, method, path)
    takes_something = bool(found.body) or bool(found.query)
    if mode is GenerationMode.NEGATIVE and not takes_something:
        return
    share = 6 if takes_something else 60

    @settings(
        max_examples=max(4, CASES // share), suppress_health_check=list(HealthCheck), deadline=None
    )
    @given(found.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        headers = served.operator if crc32(repr(case.body).encode()) % 2 else {}
        case.call_and_validate(
            base_url=served.root, session=session, headers=headers, checks=CHECKS, timeout=PATIENCE
        )

    check()
    assert served.metric("sudare_faults_total") == 0
