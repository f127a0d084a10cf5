"""Request and response bodies about companies, projects and workers."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import Field, model_validator

from timebell.apps.marketplace.payments.weeks import first_instant
from timebell.apps.marketplace.staffing.models import CompanyType, Role, WorkerFilter, WorkerState
from timebell.web import Input, Instant, Output, PageQuery

AMOUNT_MAX: Final = 1_000_000_000_000
SKILLS_MAX: Final = 50

Title = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
Zone = Annotated[str, Field(min_length=1, max_length=100)]
Zip = Annotated[str, Field(min_length=1, max_length=20, pattern=r"^[0-9A-Za-z][0-9A-Za-z -]*$")]
Trade = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^\S(.*\S)?$")]
Skill = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\s,]([^,]*[^\s,])?$")]
Skills = Annotated[list[Skill], Field(max_length=SKILLS_MAX)]
Amount = Annotated[int, Field(ge=0, le=AMOUNT_MAX)]
Reference = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[!-~]+$")]
Day = Annotated[date, Field(ge=date(1970, 1, 1), le=date(2999, 12, 31))]
# Behind everything that a zip may be, and right behind one alone.
_ZIP_END: Final = "\x7f"
_ZIP_NEXT: Final = "\x01"


class CompanyInput(Input):
    """A company. `payment_*` is what the payment provider knows it by: a borrower's customer and card on file, a
    lender's connected account."""

    name: Title
    type: CompanyType
    payment_customer: Reference | None = None
    payment_method: Reference | None = None
    payment_account: Reference | None = None


class CompanyChange(Input):
    """What is left out stays as it is."""

    name: Title | None = None
    payment_customer: Reference | None = None
    payment_method: Reference | None = None
    payment_account: Reference | None = None


class MemberInput(Input):
    """One more role for somebody in a company."""

    recipient_id: UUID
    role: Role


class MemberQuery(Input):
    """Which role is taken away; without it, all."""

    role: Role | None = None


class ProjectInput(Input):
    """A place where workers of others work. Its timezone never changes."""

    company_id: UUID
    name: Title
    timezone: Zone


class ProjectsQuery(PageQuery):
    company_id: UUID | None = None


class WorkerInput(Input):
    """Somebody who can be booked. The rate is an hour's, in minor units."""

    recipient_id: UUID
    company_id: UUID
    trade: Trade
    zip: Zip
    hourly_rate: Amount
    skills: Skills = Field(default_factory=list)


class WorkerChange(Input):
    """What is left out stays as it is."""

    trade: Trade | None = None
    zip: Zip | None = None
    hourly_rate: Amount | None = None
    skills: Skills | None = None


class WorkerStateInput(Input):
    """Whether the search finds somebody: only those who are `Listed` are found."""

    state: WorkerState


class Criteria(Input):
    """What a worker has to be. `zip` is exact and `zip_prefix` is how it begins; of `skills` all are needed; from
    `available_from` to `available_to`, both inclusive, by the clock of `timezone`, nobody has booked them."""

    trade: Trade | None = None
    zip: Zip | None = None
    zip_prefix: Zip | None = None
    skills: Skills = Field(default_factory=list)
    rate_max: Amount | None = None
    available_from: Day | None = None
    available_to: Day | None = None
    timezone: Zone = "UTC"

    @model_validator(mode="after")
    def _fits(self) -> Criteria:
        check_criteria(self.zip, self.zip_prefix, self.available_from, self.available_to)
        return self

    def wanted(self, *, state: WorkerState = "Listed", company_id: UUID | None = None) -> WorkerFilter:
        """The same for a search and for whoever is told about it."""
        since = before = None
        if self.available_from is not None and self.available_to is not None:
            since = first_instant(self.available_from, self.timezone)
            before = first_instant(self.available_to + timedelta(days=1), self.timezone)
        zip_from = self.zip or self.zip_prefix
        end = _ZIP_NEXT if self.zip else _ZIP_END
        return WorkerFilter(
            state=state,
            trade=self.trade,
            company_id=company_id,
            zip_from=zip_from,
            zip_to=None if zip_from is None else zip_from + end,
            skills=self.skills,
            rate_max=self.rate_max,
            since=since,
            before=before,
        )


def check_criteria(
    zip: str | None, zip_prefix: str | None, available_from: date | None, available_to: date | None
) -> None:
    """What cannot be asked together."""
    if zip is not None and zip_prefix is not None:
        raise ValueError("zip and zip_prefix exclude each other; give one of them")
    if (available_from is None) != (available_to is None):
        raise ValueError("available_from and available_to belong together; give both")
    if available_from and available_to and available_to < available_from:
        raise ValueError("available_to must be available_from or later")


class WorkersQuery(PageQuery):
    """The search. `zip` is exact and `zip_prefix` is how it begins; `skills` are all needed, with commas between them;
    from `available_from` to `available_to`, both inclusive, by the clock of `timezone`, nobody has booked them. Without
    a `state` those who are `Listed` are meant, and others are shown to members of the company that is named."""

    trade: Trade | None = None
    zip: Zip | None = None
    zip_prefix: Zip | None = None
    skills: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    rate_max: Annotated[int, Field(ge=0, le=AMOUNT_MAX, strict=False)] | None = None
    available_from: Day | None = None
    available_to: Day | None = None
    timezone: Zone = "UTC"
    company_id: UUID | None = None
    state: WorkerState = "Listed"

    @model_validator(mode="after")
    def _fits(self) -> WorkersQuery:
        check_criteria(self.zip, self.zip_prefix, self.available_from, self.available_to)
        return self

    def wanted(self) -> WorkerFilter:
        """What is said in an address was checked there already."""
        criteria = Criteria.model_construct(
            trade=self.trade,
            zip=self.zip,
            zip_prefix=self.zip_prefix,
            skills=[skill.strip() for skill in (self.skills or "").split(",") if skill.strip()],
            rate_max=self.rate_max,
            available_from=self.available_from,
            available_to=self.available_to,
            timezone=self.timezone,
        )
        return criteria.wanted(state=self.state, company_id=self.company_id)


class CompanyRow(Output):
    id: UUID
    name: str
    type: CompanyType
    payment_customer: str | None
    payment_method: str | None
    payment_account: str | None
    created_at: Instant
    updated_at: Instant


class MemberRow(Output):
    """Somebody with all their roles in a company."""

    recipient_id: UUID
    roles: list[Role]


class ProjectRow(Output):
    id: UUID
    company_id: UUID
    name: str
    timezone: str
    created_at: Instant


class WorkerRow(Output):
    """A worker as the search shows one."""

    id: UUID
    recipient_id: UUID
    company_id: UUID
    state: WorkerState
    trade: str
    zip: str
    skills: list[str]
    hourly_rate: int
    created_at: Instant
    updated_at: Instant


def columns_of(body: Input, *but: str) -> dict[str, Any]:
    """What a body says, by the names that the tables have too."""
    return {name: value for name, value in dict(body).items() if name not in but}
