"""The commands about providers, which need no database."""

from __future__ import annotations

import click

from timebell.cli.common import json_option
from timebell.cli.printing import print_fields, print_json, print_line


@click.group(short_help="Prepare what providers need.")
def providers() -> None:
    """Prepare what providers need."""


@providers.command("vapid", short_help="Make the pair of keys that push messages need.")
@json_option
def make_vapid(as_json: bool) -> None:
    """Make the pair of keys that push messages need. It is shown once and kept nowhere."""
    from timebell.providers.push_encryption import VapidKey

    key = VapidKey.new()
    if as_json:
        print_json({"vapid_key": key.private, "public_key": key.public})
        return
    print_fields([("vapid_key", key.private), ("public_key", key.public)])
    print_line("")
    print_line(
        "vapid_key is a secret: set it as TIMEBELL_PROVIDER_WEBPUSH_VAPID_KEY. Browsers subscribe with public_key, and "
        "only to this pair, so keep both."
    )
