"""The whole interface as a stranger sees it: schemathesis reads the document, and asks one thing after another, each
with what the one before has answered. No server error, no answer that the document does not tell of."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.acceptance.conftest import Up
from tests.acceptance.processes import clean_environment

KEY = "a-key-that-an-operator-chose"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


@pytest.mark.slow
def test_schemathesis_finds_nothing(place: Path, used_folder: Path, up: Up) -> None:
    process = up(
        used_folder,
        TIMEBELL_API_KEY=KEY,
        TIMEBELL_REQUESTS_PER_MINUTE="100000000",
        TIMEBELL_BROKER_URL="local:",
    )
    address = f"http://127.0.0.1:{process.port}"
    request = urllib.request.Request(f"{address}/v1/recipients", data=b'{"name": "Ada"}')
    request.add_header("authorization", f"Bearer {KEY}")
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, timeout=10) as reply:
        person = json.load(reply)["id"]
    # A stream has no end.
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{address}/openapi.json"),
            *("--phases", "examples,coverage,fuzzing,stateful", "--checks", ",".join(CHECKS)),
            *("--exclude-path-regex", "stream$", "--max-examples", "20", "--seed", "1", "--no-color"),
            *("-H", f"Authorization: Bearer {KEY}", "-H", f"Timebell-Actor: {person}"),
            *("--request-timeout", "30", "--suppress-health-check", "all", "--warnings", "off"),
        ],
        env=clean_environment(),
        cwd=place,
        capture_output=True,
        text=True,
        timeout=1_500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
    assert "Traceback" not in process.words
    assert process.status() == 200
    assert process.stop() == 0, process.words
