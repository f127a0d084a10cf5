"""`/v1/inbox/stream`, `/v1/events/stream`: what comes, as it comes; and the tokens of persons and streams."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import Field

from timebell.errors import NotFound
from timebell.kernel.events import FollowedEvent
from timebell.notify.models import InboxLine
from timebell.web.access.tokens import SECONDS_MAX, Purpose
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Input, Instant, Output, SecretText
from timebell.web.operation.operations import dump
from timebell.web.operation.problems import FieldError, Problem
from timebell.web.operation.routes import Route
from timebell.web.streams.feeds import EventFeed, Feed, InboxFeed
from timebell.web.streams.streams import Stream
from timebell.web.v1.events import EventOutput
from timebell.web.v1.inbox import entry_shown

_PLACE_MAX: Final = 100


class StreamQuery(Input):
    """From where. Without a place only what comes from now on is told."""

    after: (
        Annotated[
            str,
            Field(
                min_length=1, max_length=_PLACE_MAX, description="The id of the last message seen; 0 for all."
            ),
        ]
        | None
    ) = None


class RecipientTokenInput(Input):
    """Whose token, and how long it is good."""

    recipient_id: UUID
    seconds: Annotated[int, Field(ge=1, le=SECONDS_MAX["recipient"])] = 3_600


class StreamTokenInput(Input):
    """How long the token opens streams. One that is open goes on for ten minutes at most."""

    seconds: Annotated[int, Field(ge=1, le=SECONDS_MAX["stream"])] = 600


class TokenOutput(Output):
    """A token, shown once and kept nowhere. It is refused when the key that made it is revoked."""

    token: SecretText
    recipient_id: UUID | None
    expires_at: Instant


async def create_recipient_token(call: Call, body: RecipientTokenInput) -> Any:
    """A token with which a recipient's own device calls for that recipient, and for nobody else."""
    recipient = await call.notify.recipients.get(body.recipient_id, tenant=call.tenant)
    if recipient.erased_at is not None:
        raise NotFound(f"there is no recipient {body.recipient_id}")
    return _token(call, "recipient", body.recipient_id, body.seconds)


async def create_stream_token(call: Call, body: StreamTokenInput) -> Any:
    """A token for `?token=`, because a browser's EventSource sends no header.

    For a person, with a recipient token or `Timebell-Actor`, it opens that person's inbox stream; otherwise the stream
    of events.
    """
    return _token(call, "stream", call.actor, body.seconds)


def _token(call: Call, purpose: Purpose, recipient: UUID | None, seconds: int) -> dict[str, Any]:
    token, expires_at = call.surface.tokens.make(
        purpose, tenant=call.tenant, recipient=recipient, seconds=seconds, key_id=call.caller.key_id
    )
    return {"token": token, "recipient_id": recipient, "expires_at": expires_at}


async def stream_inbox(call: Call, query: StreamQuery) -> Stream:
    """The acting recipient's inbox as Server-Sent Events: each entry is a message, its `seq` the id.

    Who comes back with `Last-Event-ID` or `?after=` gets everything after it, from the table, also after a restart. A
    comment comes every 15 seconds. `event: resync` means that the list must be read anew; `event: end` comes before
    the server closes, with the reason `renew` (after ten minutes at most; come again), `stopping` (come again),
    `too_many_streams` (come again later) or `revoked`.

    A browser's EventSource never comes again after any status but 200. Who accepts `text/event-stream` alone, as it
    does, is therefore told by an `event: end` with the code of the problem as its reason, where another try may do:
    `token_expired`, 429, and what would be 503.
    """
    feed = InboxFeed(call.surface.streams.inbox, call.tenant, call.person, _shown_entry)
    return await _stream(call, query, feed)


async def stream_events(call: Call, query: StreamQuery) -> Stream:
    """The tenant's events as Server-Sent Events, told as at `/v1/inbox/stream`, in the order in which they came up.

    An event is told when every transaction that began to write before it has ended.
    """
    return await _stream(call, query, EventFeed(call.surface.streams.following, call.tenant, _shown_event))


async def _stream(call: Call, query: StreamQuery, feed: Feed) -> Stream:
    headers = _origin_headers(call)
    call.surface.streams.check_room(call.tenant, feed.person)
    opening = await feed.begin(_place(call, query))
    # Others came meanwhile. From here until it is counted nobody else has a turn.
    call.surface.streams.make_room(call.tenant, feed.person)
    return Stream(call.surface.streams, feed, call.caller, opening, headers)


def _place(call: Call, query: StreamQuery) -> str | None:
    """What the client saw last. The header goes along with the stream and the address does not, so that counts."""
    seen = call.headers.get("last-event-id") or query.after
    if seen is not None and len(seen) > _PLACE_MAX:
        error = FieldError(pointer="?after", code="invalid_input", message="is no place")
        raise Problem(422, "invalid_input", "last-event-id: is no place", errors=[error])
    return seen


def _origin_headers(call: Call) -> dict[str, str]:
    """A browser says which page asks. Those of this server may, those of the settings may, and no other."""
    origin = call.headers.get("origin")
    if origin is None:
        return {}
    settings = call.bell.settings
    own = {call.headers.get("host", "").lower()}
    if settings.public_url is not None:
        own.add(urlsplit(settings.public_url).netloc.lower())
    if origin in settings.origins:
        return {"access-control-allow-origin": origin, "vary": "origin"}
    if origin.partition("://")[2].lower() not in own:
        raise Problem(403, "origin_refused", f"pages of {origin[:200]} may not open streams here")
    return {"vary": "origin"}


def _shown_entry(line: InboxLine) -> bytes:
    return dump(entry_shown(line))


def _shown_event(event: FollowedEvent) -> bytes:
    return dump(EventOutput.model_validate(event))


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/v1/inbox/stream",
        run=stream_inbox,
        summary="Follow an inbox",
        tag="streams",
        acts_for="recipient",
        query=StreamQuery,
        is_stream=True,
    ),
    Route(
        method="GET",
        path="/v1/events/stream",
        run=stream_events,
        summary="Follow the events",
        tag="streams",
        query=StreamQuery,
        is_stream=True,
    ),
    Route(
        method="POST",
        path="/v1/stream-tokens",
        run=create_stream_token,
        # Tokens are kept nowhere, so that neither needs a transaction.
        shared=create_stream_token,
        summary="Make a token for a stream",
        tag="streams",
        status=201,
        acts_for="either",
        body=StreamTokenInput,
        answer=TokenOutput,
        example={"seconds": 600},
    ),
    Route(
        method="POST",
        path="/v1/recipient-tokens",
        run=create_recipient_token,
        shared=create_recipient_token,
        summary="Make a token for a recipient",
        tag="streams",
        status=201,
        scope="write",
        body=RecipientTokenInput,
        answer=TokenOutput,
        example={"recipient_id": "01890a5d-ac96-774b-bcce-b302099a8057", "seconds": 3600},
        problems={404: "There is no such recipient of this tenant."},
    ),
)
