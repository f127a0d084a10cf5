"""The page about the settings says of each what its rule says."""

from __future__ import annotations

import json
import re
from pathlib import Path

from timebell.config import RULES, load_settings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def as_toml(value: object) -> str:
    if value is None:
        return "none"
    return "`" + json.dumps(value) + "`"


def test_it_has_a_heading_for_every_setting_in_order() -> None:
    assert re.findall(r"^### (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE) == list(RULES)


def test_it_gives_meaning_default_range_and_variable() -> None:
    sections = re.split(r"^##+ ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    paragraphs = {lines[0]: lines[1:] for section in sections if (lines := section.strip().split("\n\n"))}
    for name, rule in RULES.items():
        *meaning, facts = paragraphs[name]
        default = f"{as_toml(rule.default)} {rule.unit}".rstrip()
        variable = f"`TIMEBELL_{name.upper()}`"
        assert facts == f"Default: {default}. Allowed: {rule.allowed}. Variable: {variable}."
        assert meaning, f"{name} is not explained in words"


def test_its_example_file_is_accepted(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    file = tmp_path / "a.toml"
    file.write_text(example[1], encoding="utf-8")
    assert load_settings(file, {}).concurrency == 200
