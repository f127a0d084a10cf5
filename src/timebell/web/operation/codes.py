"""Codes of refusals: what each means and what to do about it, for people who follow the `type` of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXPLAINED: Final[Mapping[str, str]] = {
    "actor_required": (
        "The operation acts for a person, and the request does not say for whom. Send the header "
        "Timebell-Actor with the id of a recipient, or call with a recipient's own token."
    ),
    "actor_unknown": (
        "The recipient that Timebell-Actor names does not exist, was erased, or belongs to another tenant."
    ),
    "body_too_large": "The body is over the limit that the setting body_bytes_max gives. Send less at once.",
    "body_too_slow": "The body did not arrive in time. Send the request again.",
    "default_tenant_only": (
        "Tenants are administered, and queues paused for everyone, with an admin key of the tenant `default` alone."
    ),
    "idempotency_key_in_use": (
        "A request with this idempotency key is under way. Wait for its answer, or ask again after "
        "Retry-After: then the first answer is given again."
    ),
    "idempotency_key_invalid": "An idempotency key has 1 to 255 visible ASCII characters. A UUID does well.",
    "idempotency_key_required": (
        "The operation changes the state of something, so it must be safe to repeat. Send the header "
        "Idempotency-Key with a value of your own, a new one for each change."
    ),
    "idempotency_key_reused": (
        "The idempotency key was used with another request: another path, query or body. Use a new one "
        "for each request."
    ),
    "internal_error": (
        "Something failed that should not have. Nothing was kept, so the request may be repeated. "
        "Whoever runs the server finds the cause in the log, by the correlation id."
    ),
    "invalid_input": (
        "A field of the body or a parameter was refused and nothing was written. `errors` names each of "
        "them, where it stands and what is wrong with it."
    ),
    "invalid_template": (
        "A template cannot be read, speaks of what it does not declare, or may not be changed."
    ),
    "key_conflict": "The key already stands for something else. Use another.",
    "kind_refused": (
        "Jobs of this kind are not for every tenant, or are asked for in another way; the detail says which. Nothing "
        "was written."
    ),
    "key_required": (
        "A recipient's token reaches what is that recipient's own. The operation is not for persons: call it with "
        "an API key."
    ),
    "malformed_http": "The request was not HTTP/1.1, or its head was too large.",
    "malformed_json": (
        "The body is not JSON that everybody reads alike: it has a name twice in one object, nests too "
        "deeply, or holds something that is no JSON."
    ),
    "malformed_text": "The body is a file that is no text in UTF-8. Save it as UTF-8 and send it again.",
    "method_not_allowed": (
        "There is something at this path, but it is not asked for with this method. `Allow` lists those "
        "that are answered."
    ),
    "naive_instant": "An instant has no offset. Give it one, such as Z for UTC: 2026-03-29T10:00:00Z.",
    "not_found": "There is nothing of that name, or it belongs to another tenant or person.",
    "payload_too_large": "The payload is over the limit. Keep the data yourself and send its id.",
    "origin_refused": (
        "A page of another origin asked for a stream. Whoever runs the server lists the origins that may in the "
        "setting origins."
    ),
    "quota_exceeded": (
        "The tenant has as much of something as it may have: `quota` names it, `limit` says how much. Nothing was "
        "written. GET /v1/usage shows all quotas. Wait until some jobs are done, remove what nobody needs, or ask "
        "whoever runs the server for a larger one."
    ),
    "rate_limited": (
        "The key, the tenant with all its keys, or without a key the address, has made as many requests as it may in "
        "a minute. Wait as long as Retry-After says; RateLimit tells how many are left."
    ),
    "recurrence_error": (
        "The recurrence is forbidden, undefined, too much work, or never due. The detail names the part."
    ),
    "revision_conflict": (
        "It was changed by somebody else since you read it. Read it again and decide anew; ETag has the "
        "revision."
    ),
    "schedule_active": "The schedule is active, and only one that is paused or parked resumes.",
    "schedule_ended": "The schedule has ended, and nothing brings it back. Create another.",
    "revision_invalid": "If-Match is not what ETag was. Send back the ETag of what you read, as it is.",
    "scope_missing": (
        "The key may do less than the operation needs. The scopes are read, write and admin, each with "
        "all that the one before has."
    ),
    "secret_key_missing": (
        "The server has no secret_key, so it cannot sign tokens or links. Set it, the same on every node."
    ),
    "starting": "The server is starting. Ask again soon; /readyz says when it is ready.",
    "stopping": "The server is stopping. Ask again soon, or ask another node.",
    "too_many_at_once": (
        "As many requests of this tenant are under way on this node as one tenant may have, or as many that take "
        "processor time, such as calendars and previews. Wait for an answer, then send the next."
    ),
    "token_expired": (
        "The token was good and has ended. Make another, and open the stream with it from the last place that you have."
    ),
    "too_many_streams": (
        "As many streams are open as this server keeps at once, in all or for one recipient. Close those that "
        "nobody reads, and open another later."
    ),
    "too_slow": (
        "What was asked for took longer than the setting read_seconds allows a read, or statement_seconds a change. "
        "Ask for less: a shorter page, or a filter that leads to fewer rows. Nothing was changed."
    ),
    "unauthenticated": (
        "The request has no key or token, or one that is not known, was revoked or has expired. Send the "
        "header Authorization: Bearer <key>."
    ),
    "unavailable": (
        "The database does not answer, or others were in the way. Ask again soon, with the same idempotency key where "
        "you sent one: if the answer alone was lost, it is not done again."
    ),
    "unknown_kind": "No handler is registered for the kind. Load the app that brings it.",
    "unknown_queue": "No queue of that name was declared by an app.",
    "unknown_timezone": (
        "No timezone of that name is in the pinned data. Give an IANA name such as Europe/Berlin."
    ),
    "unsafe_url": (
        "The URL leads, or may lead, inside. Give one of a public host, with https and a port that is "
        "allowed."
    ),
    "unsupported_media_type": "Bodies are application/json. Say so in the header Content-Type.",
    "unverified_report": "A provider's report was refused: its signature, its time or its form is wrong.",
}
