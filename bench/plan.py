"""What one run of the benchmark measures, in which order, and how much of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.scratch import Peer


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much work each measurement is."""

    rounds: int = 3
    jobs: int = 120_000
    jobs_transactional: int = 5_000
    warm_up: int = 2_000
    future: int = 1_000_000
    jobs_beside_future: int = 100_000
    held_seconds: int = 60
    late_seconds: int = 15
    late_jobs_peers: int = 1_000
    steady_rate: int = 10_000
    steady_seconds: int = 30
    jobs_notify: int = 20_000
    messages: int = 100_000
    messages_rounds: int = 5
    messages_rate: int = 500
    messages_late_seconds: int = 30
    celery_future: int = 100_000
    # Beside so many the broker does not keep up with the rate that we are measured at, so there is a lower one too.
    celery_late: tuple[str, ...] = ("10x30", "500x4")
    bookings: int = 10_000
    people: int = 100_000


# For trying the benchmark itself out; what it shows is not worth telling.
QUICK = Size(
    rounds=1,
    jobs=3_000,
    jobs_transactional=500,
    warm_up=300,
    future=10_000,
    jobs_beside_future=3_000,
    held_seconds=2,
    late_seconds=2,
    late_jobs_peers=100,
    steady_rate=500,
    steady_seconds=2,
    jobs_notify=500,
    messages=1_000,
    messages_rounds=1,
    messages_rate=100,
    messages_late_seconds=2,
    celery_future=500,
    celery_late=("10x2", "100x2"),
    bookings=300,
    people=1_000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One process that measures one thing: a bench of ours, or a peer under the same work."""

    name: str
    round: int
    arguments: tuple[str, ...]
    peer: Peer | None = None


def plan(size: Size, peers: Sequence[Peer]) -> Iterator[Measurement]:
    """Rounds of everything that is compared, every other one backwards, then what is measured once.

    A machine warms up, slows down and has other work; a comparison holds only if both sides had their share of it.
    """
    for number in range(size.rounds):
        compared = [*_ours(size, number), *(_throughput(size, number, peer) for peer in peers)]
        yield from compared if number % 2 == 0 else reversed(compared)
    for peer in peers:
        arguments = (*_peer_arguments(size, peer), f"--late={size.late_jobs_peers}")
        yield Measurement(name=f"late {peer.name}", round=0, arguments=arguments, peer=peer)
    seconds = f"--seconds={size.late_seconds}"
    for rate in (100, 1_000):
        yield Measurement(name=f"late {rate}", round=0, arguments=("late", f"--rate={rate}", seconds))
    steady = ("steady", f"--rate={size.steady_rate}", f"--seconds={size.steady_seconds}")
    yield Measurement(name="steady", round=0, arguments=steady)
    for channel in ("inbox", "log"):
        told = ("notify", f"--channel={channel}", f"--jobs={size.jobs_notify}")
        yield Measurement(name=f"notify {channel}", round=0, arguments=told)


def plan_messages(size: Size, peers: Sequence[Peer]) -> Iterator[Measurement]:
    """What goes over a broker. Both sides take turns within one process, so each is measured once."""
    compared = (f"--messages={size.messages}", f"--rounds={size.messages_rounds}")
    late = (f"--rate={size.messages_rate}", f"--seconds={size.messages_late_seconds}")
    yield Measurement(name="intake", round=0, arguments=("intake", *compared))
    for peer in peers:
        arguments = (f"--future={size.celery_future}", *(f"--late={rate}" for rate in size.celery_late))
        yield Measurement(name=f"late {peer.name}", round=0, arguments=arguments, peer=peer)
    publish = ("publish", *compared, *late, f"--future={size.future}")
    yield Measurement(name="publish", round=0, arguments=publish)


def plan_sequences(size: Size, peers: Sequence[Peer]) -> Iterator[Measurement]:
    """Bookings that come, and what is scheduled for them. The bench measures its raw side before and after its own."""
    for number in range(size.rounds):
        yield Measurement(name="enrol", round=number, arguments=("enrol", f"--bookings={size.bookings}"))


def plan_digests(size: Size, peers: Sequence[Peer]) -> Iterator[Measurement]:
    """Digests of one instant, composed alone, and composed while the same process sends them."""
    for number in range(size.rounds):
        people = f"--people={size.people}"
        yield Measurement(name="digests", round=number, arguments=("digests", people))
        yield Measurement(name="digests sent", round=number, arguments=("digests", people, "--sends"))


def _ours(size: Size, number: int) -> Iterator[Measurement]:
    """What is compared with the peers comes last, next to them."""
    jobs = f"--jobs={size.jobs}"
    for name, arguments in {
        "drain external": ("drain", "--mode=external", jobs),
        "drain transactional": ("drain", "--mode=transactional", f"--jobs={size.jobs_transactional}"),
        "drain future": ("drain", f"--jobs={size.jobs_beside_future}", f"--future={size.future}"),
        "drain snapshot": ("drain", jobs, "--hold-snapshot", f"--held-seconds={size.held_seconds}"),
        "enqueue": ("enqueue", jobs),
        "drain plain": ("drain", jobs),
    }.items():
        yield Measurement(name=name, round=number, arguments=arguments)


def _throughput(size: Size, number: int, peer: Peer) -> Measurement:
    return Measurement(
        name=f"peer {peer.name}", round=number, arguments=_peer_arguments(size, peer), peer=peer
    )


def _peer_arguments(size: Size, peer: Peer) -> tuple[str, ...]:
    jobs, warm_up = (max(100, round(count * peer.jobs_share)) for count in (size.jobs, size.warm_up))
    return (f"--jobs={jobs}", f"--warm-up={warm_up}")
