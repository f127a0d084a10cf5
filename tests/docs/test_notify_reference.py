"""The page about notify names everything that is public, each verb and each field."""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest

from tests.shape.tree import ROOT
from timebell import notify
from timebell.notify import Notify
from timebell.notify.explain.deliveries import Deliveries
from timebell.notify.explain.notifications import Notifications
from timebell.notify.inbox.inbox import Inbox
from timebell.notify.inbox.outbox import Outbox
from timebell.notify.people.opt_outs import OptOuts
from timebell.notify.people.policies import Policies
from timebell.notify.people.recipients import Recipients
from timebell.notify.people.senders import Senders
from timebell.notify.people.suppressions import Suppressions
from timebell.notify.people.unsubscribing import Unsubscribing
from timebell.notify.reports.incoming import Incoming
from timebell.notify.reports.reporting import Reports
from timebell.notify.templates.templates import Templates

PAGE = (ROOT / "docs" / "reference" / "notify.md").read_text(encoding="utf-8")
# Told on a page of their own.
ELSEWHERE = {"Traits"}


def is_named(name: str) -> bool:
    """In code, or as a heading."""
    return any(re.search(rf"\b{name}\b", told) for told in re.findall(r"`[^`]+`|^#+ .+$", PAGE, re.MULTILINE))


def test_every_public_name_is_told() -> None:
    assert {name for name in notify.__all__ if not is_named(name)} == set()


@pytest.mark.parametrize("record", sorted(set(notify.__all__) - ELSEWHERE))
def test_every_field_is_told(record: str) -> None:
    public = getattr(notify, record)
    names = (
        {field.name for field in dataclasses.fields(public)} if dataclasses.is_dataclass(public) else set()
    )
    assert {name for name in names if not is_named(name)} == set()


@pytest.mark.parametrize(
    ("owner", "prefix"),
    [
        (Notify, ""),
        (Recipients, "recipients."),
        (OptOuts, "recipients.opt_outs."),
        (Templates, "templates."),
        (Suppressions, "suppressions."),
        (Policies, "policies."),
        (Senders, "senders."),
        (Notifications, "notifications."),
        (Deliveries, "deliveries."),
        (Inbox, "inbox."),
        (Outbox, "outbox."),
        (Reports, "reports."),
        (Incoming, "incoming."),
        (Unsubscribing, "unsubscribing."),
    ],
)
def test_every_verb_and_its_arguments_are_told(owner: type, prefix: str) -> None:
    for name, verb in inspect.getmembers(owner, inspect.isfunction):
        if name.startswith("_"):
            continue
        [told] = re.findall(rf"^\| `{re.escape(prefix)}{name}\((.*?)\)` \|", PAGE, re.MULTILINE)
        arguments = set(inspect.signature(verb).parameters) - {"self"}
        assert {each for each in arguments if not re.search(rf"\b{each}\b", told)} == set(), name
