"""What a node writes into its log while its providers fail: no secret, and nobody's address or message."""

from __future__ import annotations

import base64

import timebell
from tests.acceptance.conftest import Work
from tests.acceptance.test_demo import settled
from tests.contract.providers.http_server import HttpServer, Request, Response, as_json
from timebell.config import Settings
from timebell.notify import Address, Notify, Route, TemplateDraft, Text
from timebell.testing.database import TestDatabase

KEY = "SG.key-of-the-account"
SIGNING = "whsec_" + base64.b64encode(b"the secret of one endpoint alone").decode()
MARKED = [KEY, SIGNING, "path-of-the-endpoint", "ada.lovelace", "Come to the analytical engine"]

CALL = TemplateDraft(
    key="call",
    topic="calls",
    texts=(
        Text(channel="email", language="en", subject="A call", body="Come to the analytical engine."),
        Text(channel="webhook", language="en", body="Come to the analytical engine."),
    ),
)


def fail(request: Request) -> Response:
    """A service that cannot be trusted with anything: it fails, and repeats all that it was told."""
    words = f"{request.headers.get('authorization')} is wrong: {request.body.decode()}"
    echo = {name: request.headers[name] for name in request.headers.keys() & {"authorization"}}
    if request.path.startswith("/v3/"):
        return as_json(500, {"errors": [{"message": words, "field": words}]}, echo)
    return Response(status=410, headers={"Location": request.path}, body=request.body)


async def test_a_failure_is_told_without_what_is_secret(database_url: TestDatabase, work: Work) -> None:
    server = HttpServer(fail)
    await server.open()
    place = f"127.0.0.1:{server.port}"
    node = work(
        DATABASE_URL=database_url.url,
        TIMEBELL_LOG_LEVEL="debug",
        TIMEBELL_PROVIDERS="sendgrid,webhook",
        TIMEBELL_PROVIDER_SENDGRID_API_KEY=KEY,
        TIMEBELL_PROVIDER_SENDGRID_SENDER="bell@example.org",
        TIMEBELL_PROVIDER_SENDGRID_BASE_URL=f"http://{place}",
        TIMEBELL_PROVIDER_WEBHOOK_ALLOW_HTTP="yes",
        TIMEBELL_PROVIDER_WEBHOOK_NETWORKS="127.0.0.0/8",
        TIMEBELL_PROVIDER_WEBHOOK_PORTS=str(server.port),
    )
    settings = Settings(database_url=database_url.url, owner_url=database_url.owner_url)
    async with timebell.running(settings=settings, engine=False) as bell:
        notify = Notify(bell)
        hook = Address(
            kind="webhook", value=f"http://{place}/path-of-the-endpoint", detail={"secret": SIGNING}
        )
        async with bell.transaction() as tx:
            await notify.templates.save(tx, CALL)
            ada = await notify.recipients.add(tx, name="Ada", email="ada.lovelace@example.org")
            await notify.recipients.add_address(tx, ada.id, hook)
            told = await notify.tell(tx, ada.id, "call", channels=Route(first=["email"], also=["webhook"]))
        story = await settled(notify, told.id)
    assert node.stop() == 0, node.words
    await server.close()
    assert {one.channel: one.state for one in story.deliveries} == {"email": "uncertain", "webhook": "failed"}
    assert [text for text in MARKED if text in node.words] == []
    assert KEY not in repr(story)
