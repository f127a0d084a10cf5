"""What cannot be asked for, and what the refusal says."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from timebell.errors import InvalidInput
from timebell.notify import Digest, Route, Tell
from timebell.notify.rules.intents import check_tell

DAILY: dict[str, Any] = {"key": "news", "closes": "FREQ=DAILY;BYHOUR=8", "template": "news.daily"}


def tell(**changes: Any) -> Tell:
    return Tell(**{"recipient": uuid4(), "template": "greeting", **changes})


@pytest.mark.parametrize("channels", ["preferred", ["email"], ("sms", "inbox"), Route(also=["inbox"])])
def test_what_can_be_asked_for(channels: Any) -> None:
    check_tell(tell(channels=channels, digest=Digest(**DAILY)))


@pytest.mark.parametrize(
    ("wrong", "field", "said"),
    [
        ({"recipient": None}, "recipient", "give the id of a recipient"),
        ({"recipient": "ana"}, "recipient", "give the id of a recipient"),
        ({"template": "x" * 101}, "template", "1 to 100"),
        ({"template_version": 0}, "template_version", "1"),
        ({"context": None}, "context", "must be a mapping"),
        ({"channels": None}, "channels", "is no list"),
        ({"channels": 5}, "channels", "is no list"),
        ({"channels": "email"}, "channels", "is no list"),
        ({"channels": []}, "channels", "is empty"),
        ({"channels": ["fax"]}, "channels", "is no channel"),
        ({"channels": ["sms", "sms"]}, "channels", "twice"),
        ({"channels": Route(first=["sms"], also=["sms"])}, "channels", "twice"),
        ({"channels": Route(first=["sms"], also=None)}, "channels", "is no list"),  # type: ignore[arg-type]
        ({"channels": Route(also=None)}, "channels", "is no list"),  # type: ignore[arg-type]
        ({"urgency": "urgent"}, "urgency", "critical"),
        ({"on_quiet": "shout"}, "on_quiet", "inbox_only"),
        ({"digest": DAILY}, "digest", "must be a Digest"),
        ({"digest": Digest(**{**DAILY, "key": ""})}, "digest.key", "1 to 100"),
        ({"digest": Digest(**{**DAILY, "closes": "daily"})}, "digest.closes", "write parts such as"),
        ({"digest": Digest(**{**DAILY, "closes": "FREQ=DAILY;COUNT=3"})}, "digest.closes", "without an end"),
    ],
)
def test_a_refusal_names_the_field_and_the_remedy(wrong: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_tell(tell(**wrong))
    assert caught.value.field == field
    assert said in str(caught.value)
