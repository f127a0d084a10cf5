"""A row of the table of faults for what a run at the broker came to."""

from __future__ import annotations

from tests.acceptance.broker.checking import Seen, check, figures
from tests.acceptance.faults.results import Result, add_result


def report(
    number: str,
    fault: str,
    injection: str,
    seen: Seen,
    *,
    remark: str = "",
    recovery_seconds: float | None = None,
    seed: int | None = None,
) -> None:
    """Note it, and judge it then: a table that only passing runs get into would show nothing but zeros."""
    told, broken = figures(seen), check(seen)
    rules = [each.rule for each in broken]
    again = f"{told.repeated} published again, with the same message_id" if told.repeated else ""
    add_result(
        Result(
            number=number,
            fault=fault,
            injection=injection,
            jobs=told.owed,
            lost=rules.count("lost"),
            early=rules.count("early"),
            duplicated=rules.count("repeated") + rules.count("redelivered"),
            recovery_seconds=recovery_seconds,
            remark="; ".join(filter(None, [remark, again])),
            seed=seed,
        )
    )
    print(f"{fault}: {told}; {remark}")
    assert not broken, f"{len(broken)} in all:\n" + "\n".join(map(str, broken[:20]))
