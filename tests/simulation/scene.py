"""How busy a world is and what it leans towards."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.history import Mode

MODES: tuple[Mode, ...] = ("plain", "external", "transactional")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """How busy a world is and what it leans towards."""

    enqueues_a_day: float = 22
    plans_a_day: float = 7
    holds_a_day: float = 3
    poisons_a_day: float = 0.5
    rush: float = 0.06
    subjects: int = 5
    near: float = 0.3
    replaced: float = 0.3
    ordered: float = 0.3
    far: float = 0.25
    together: float = 0.4
    modes: tuple[Mode, ...] = MODES
    # Of the runs, those that take hours.
    long: float = 0.03
    kills_a_day: float = 2.5
    pauses_a_day: float = 1.5
    cuts_a_day: float = 1
    stops_a_day: float = 1
    tells_a_day: float = 9
    visits_a_day: float = 2.5
    meetings_a_day: float = 0
    bookings_a_day: float = 0
    # Workers who are lent, and weeks that are paid for: nothing comes of it within a day or two.
    staffings_a_day: float = 0
    # How often an insurance of each company is not valid for a while. Where it never is, disputes are left to time out.
    lapses_a_day: float = 0
    days_min: float = 0
    # How much another tenant asks for, under the same names, compared with the first.
    neighbours: float = 0
    crowds_a_day: float = 0
    queue_pauses_a_day: float = 0
    revivals_a_day: float = 0
    schedules_a_day: float = 0
    orders_a_day: float = 0
    digests_a_day: float = 0
    # What other services ask for through a broker, and how often the broker itself fails.
    requests_a_day: float = 0
    broker_faults_a_day: float = 0

    @property
    def beside(self) -> Scene:
        """What the other tenant asks for."""
        share = self.neighbours
        return replace(
            self,
            enqueues_a_day=self.enqueues_a_day * share,
            plans_a_day=self.plans_a_day * share,
            holds_a_day=0,
            poisons_a_day=0,
        )

    @property
    def has_notes(self) -> bool:
        """Whether callers tell people things, besides what apps tell and what is gathered."""
        return bool(self.tells_a_day + self.visits_a_day)

    @property
    def notes_share(self) -> float:
        """How much of what is asked for is to be told to somebody."""
        notes = self.tells_a_day + self.visits_a_day + self.digests_a_day
        notes += self.meetings_a_day + self.bookings_a_day + self.staffings_a_day
        return notes and notes / (notes + self.enqueues_a_day + self.plans_a_day)
