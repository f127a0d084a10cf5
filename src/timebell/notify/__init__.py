"""Who is told what, when and on which channel: recipients, templates, notifications, deliveries and the inbox."""

from timebell.notify.app import notify_app
from timebell.notify.explain.explaining import Explanation, WhyNot
from timebell.notify.models import (
    Address,
    Cap,
    Check,
    Delivery,
    Digest,
    Notification,
    OptOut,
    Policy,
    QuietHours,
    Recipient,
    Route,
    Tell,
)
from timebell.notify.options import PolicyOptions, RecipientOptions, TellOptions
from timebell.notify.planning.telling import Told
from timebell.notify.provider import (
    Channel,
    Content,
    Parcel,
    Provider,
    Rejected,
    Report,
    Reporter,
    Sent,
    Traits,
    Unavailable,
    Uncertain,
)
from timebell.notify.rules.routing import channels_for
from timebell.notify.service import Notify
from timebell.notify.templates.models import Rendered, Template, TemplateDraft, Text, Variable

__all__ = [
    "Address",
    "Cap",
    "Channel",
    "Check",
    "Content",
    "Delivery",
    "Digest",
    "Explanation",
    "Notification",
    "Notify",
    "OptOut",
    "Parcel",
    "Policy",
    "PolicyOptions",
    "Provider",
    "QuietHours",
    "Recipient",
    "RecipientOptions",
    "Rejected",
    "Rendered",
    "Report",
    "Reporter",
    "Route",
    "Sent",
    "Tell",
    "TellOptions",
    "Template",
    "TemplateDraft",
    "Text",
    "Told",
    "Traits",
    "Unavailable",
    "Uncertain",
    "Variable",
    "WhyNot",
    "channels_for",
    "notify_app",
]
