"""Templates of saved searches: what people are told about them. One may opt out of them alone, by their topic."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.searches.rules import EMPTY
from timebell.notify import TemplateDraft, Text, Variable

SEARCH_ALERT: Final = "marketplace.search_alert"
SEARCH_DIGEST: Final = "marketplace.search_digest"
SEARCH_ENDED: Final = "marketplace.search_ended"
TOPIC: Final = "marketplace.searches"

_WHO: Final = "{{ trade }}, {{ zip }}, {{ rate }} an hour{% if skills %}: {{ skills }}{% endif %}"
_LINE: Final = (
    "- {{ worker.trade }}, {{ worker.zip }}, {{ worker.rate }} an hour"
    "{% if worker.skills %}: {{ worker.skills }}{% endif %}\n"
)
_DIGEST: Final = (
    "{% for search in searches %}{{ search.title }}\n"
    f"{{% for worker in search.workers %}}{_LINE}{{% endfor %}}"
    f"{{% if search.is_empty %}}{EMPTY}\n{{% endif %}}"
    "{% if search.more_count %}and {{ search.more_count }} more\n{% endif %}"
    "\n{% endfor %}"
)
_ENDED: Final = (
    "Your saved search for {{ title }} has found nobody for a long time and was ended. "
    "Change it or make it active again to go on."
)

DRAFTS: Final = (
    TemplateDraft(
        key=SEARCH_ALERT,
        topic=TOPIC,
        texts=(
            Text(channel="sms", language="en", body=f"A worker matches your saved search: {_WHO}"),
            Text(
                channel="email",
                language="en",
                subject="A worker matches your saved search",
                body=f"A worker matches your saved search: {_WHO}",
            ),
        ),
        variables=(
            Variable(name="trade"),
            Variable(name="zip"),
            Variable(name="rate"),
            Variable(name="skills", policy="default"),
        ),
    ),
    TemplateDraft(
        key=SEARCH_DIGEST,
        topic=TOPIC,
        texts=(
            Text(
                channel="email",
                language="en",
                subject="New workers for your saved searches",
                body=_DIGEST,
            ),
        ),
        variables=(Variable(name="searches"),),
    ),
    TemplateDraft(
        key=SEARCH_ENDED,
        topic=TOPIC,
        texts=(Text(channel="email", language="en", subject="Your saved search was ended", body=_ENDED),),
        variables=(Variable(name="title"),),
    ),
)
