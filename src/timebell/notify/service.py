"""`Notify`: the verbs. Each takes part in the transaction that it is given and writes nothing outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Unpack
from uuid import UUID

from timebell.errors import InvalidInput
from timebell.kernel import Cancelled, Step, Timebell, Transaction
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.kernel.options import NamedStepOptions, StepOptions
from timebell.notify.delivery.digests import Dissolver
from timebell.notify.explain.deliveries import Deliveries
from timebell.notify.explain.explaining import Explainer, Explanation, WhyNot
from timebell.notify.explain.notifications import Notifications
from timebell.notify.inbox.inbox import Inbox
from timebell.notify.inbox.outbox import Outbox
from timebell.notify.models import Route, Tell
from timebell.notify.options import TellOptions
from timebell.notify.people.policies import Policies
from timebell.notify.people.recipients import Recipients
from timebell.notify.people.senders import Senders
from timebell.notify.people.suppressions import Suppressions
from timebell.notify.people.unsubscribing import Unsubscribing
from timebell.notify.planning.telling import DELIVER, Teller, Told
from timebell.notify.provider import Channel
from timebell.notify.reports.incoming import Incoming
from timebell.notify.reports.reporting import Reports
from timebell.notify.templates.templates import Templates

TEST_TOPIC: Final = "test"


class Notify:
    """Say the right thing to the right person on the right channel, once.

    It only writes what is to be told; a process that loaded `notify_app` tells it when it is due.
    """

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self.recipients = Recipients(bell)
        self.templates = bell.shared.one(Templates)
        self.suppressions = Suppressions(bell)
        self.policies = Policies(bell)
        self.senders = Senders(bell)
        self.notifications = Notifications(bell)
        self.deliveries = Deliveries(bell)
        self.inbox = Inbox(bell)
        self.outbox = Outbox(bell)
        self.reports = Reports(bell)
        self.incoming = Incoming(bell)
        self.unsubscribing = Unsubscribing(
            bell.settings, self.recipients.opt_outs, bell.tallies.previous_keys
        )
        self._teller = Teller(bell, self.templates)
        self._dissolver = Dissolver(bell)
        self._explainer = Explainer(bell)

    async def tell(
        self, tx: Transaction, recipient: UUID, template: str, **options: Unpack[TellOptions]
    ) -> Told:
        """One notification, due now unless `due_at` says otherwise. The options are those of `Tell`."""
        try:
            asked = Tell(recipient=recipient, template=template, **options)
        except TypeError as error:
            raise InvalidInput(f"tell: {error}") from None
        return (await self.tell_many(tx, [asked]))[0]

    async def tell_many(self, tx: Transaction, tells: Sequence[Tell]) -> list[Told]:
        """Many at once, answered in the same order; all of them or none."""
        return await self._teller.tell_many(tx, tells)

    async def send_test(
        self,
        tx: Transaction,
        template: str,
        recipient: UUID,
        *,
        version: int | None = None,
        channels: Route | Sequence[Channel] | Literal["preferred"] = "preferred",
        context: Mapping[str, Any] | None = None,
    ) -> Told:
        """Tell one recipient a template now, as often as it is asked for: any version that was saved, or the current.

        It is critical, so that whoever tries a text at night sees it too, and of the topic `test`, so that it is known
        for one. What a recipient or a provider has stopped for good stays stopped.
        """
        tell = Tell(
            recipient=recipient,
            template=template,
            context={} if context is None else context,
            channels=channels,
            urgency="critical",
            topic=TEST_TOPIC,
            template_version=version,
        )
        return (await self.tell_many(tx, [tell]))[0]

    async def step(
        self,
        tx: Transaction,
        tell: Tell,
        *,
        key: str,
        anchor: datetime | None = None,
        **options: Unpack[StepOptions],
    ) -> Step:
        """A step for `bell.set_agenda` or a schedule that tells it; the options are those of `Step`.

        With the `anchor`, a step that would be due in quiet hours and too late after them comes before them.
        """
        return (await self.steps(tx, [(tell, {"key": key, **options})], anchor=anchor))[0]

    async def steps(
        self,
        tx: Transaction,
        asked: Sequence[tuple[Tell, NamedStepOptions]],
        *,
        anchor: datetime | None = None,
    ) -> list[Step]:
        """Many steps of one agenda, answered in the same order: what each tells, with the options of its `Step`."""
        return await self._teller.steps(tx, asked, anchor=anchor)

    async def withdraw(
        self,
        tx: Transaction,
        *,
        id: UUID | None = None,
        subject: str | None = None,
        reason: str = "withdrawn",
        actor: str | None = None,
    ) -> list[Cancelled]:
        """Take back what was not told yet, one by its id or all about a subject, with a truthful answer for each."""
        answers = await self._bell.cancel(
            tx, id=id, subject=subject, kind=DELIVER, reason=reason, actor=actor
        )
        cancelled = [one.id for one in answers if one.answer == "cancelled"]
        await self._teller.withdraw(tx, answers)
        if cancelled:
            await self._dissolver.dissolve(tx, cancelled, reason=reason, actor=actor)
        # What is in a digest that is being told has no job any more, so what is said of the job is not the answer.
        late = await self._dissolver.late(tx, id=id, subject=subject)
        return [one for one in answers if one.id not in late] + [
            Cancelled(id=one, answer="too_late", state="done") for one in late
        ]

    async def mend(self, tx: Transaction, id: UUID, context: Mapping[str, Any]) -> bool:
        """Give a notification what its context lacked, or say it better, and have it tried again at once.

        False where it was not waiting for another try: it is told when it is due, or is being told.
        """
        return await self._teller.mend(tx, id, context)

    async def repin(self, tx: Transaction, template: str, version: int | None = None) -> int:
        """Tell what is still to be told with another version of its template than it was planned with.

        Without a version it is the current one. What waited for a better text is tried again at once. Answers with how
        many notifications took it; steps of agendas and schedules that were never due take it when they are.
        """
        return await self._teller.repin(tx, template, version)

    async def release(self, tx: Transaction, ids: Sequence[UUID]) -> list[UUID]:
        """Try what is held again now, as after a mended template; what still has to wait goes on waiting."""
        return await self._bell.hasten(tx, ids)

    async def explain(self, id: UUID, *, tenant: str = DEFAULT_TENANT) -> Explanation:
        """Why it was told, or was not, in words."""
        return await self._explainer.explain(id, tenant=tenant)

    async def why_not(
        self,
        recipient: UUID,
        template: str,
        at: datetime | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        tell: Tell | None = None,
    ) -> WhyNot:
        """Whether the recipient would be told it at that instant, and what became of what was like it."""
        return await self._explainer.why_not(recipient, template, at, tenant=tenant, tell=tell)
