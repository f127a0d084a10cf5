"""The watch: alerts open once and close once, whoever asks, however much is found, and whatever fails."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from tests.engine.alert_support import MINUTE, SECOND, Figures, Watched, watched
from tests.engine.support import Cluster, Owner
from tests.log_lines import kept_lines
from timebell.engine.watch import watching
from timebell.errors import ConfigurationError
from timebell.kernel import AlertRule, Alerts, App, Asked, Bounds, Finding, Registry
from timebell.testing.database import TestDatabase

HIGH = Finding(value=1, tenant="default", detail="1 is high")


@pytest.mark.req("J-12.2")
async def test_an_alert_opens_once_is_kept_and_closes_once(database_url: TestDatabase) -> None:
    figures = Figures()
    async with watched(database_url, [figures.app]) as w:
        assert await w.look() == []
        figures.found = [HIGH]
        began = w.clock.now
        for _ in range(3):
            assert await w.look(MINUTE) == ["figures_are_high"]
        figures.found = [Finding(value=2, tenant="default", detail="2 is higher")]
        assert await w.look(MINUTE) == ["figures_are_high"]
        figures.found = []
        for _ in range(2):
            assert await w.look(MINUTE) == []
        [row] = await w.rows("figures_are_high")
        assert (row["app"], row["severity"], row["tenant"], row["subject"]) == (
            "figures",
            "warning",
            "default",
            "",
        )
        assert (row["opened_at"], row["closed_at"]) == (began + MINUTE, began + 5 * MINUTE)
        assert row["detail"] == "2 is higher"
        assert not row["is_of_engine"]
        assert await w.events() == ["alert.opened", "alert.closed"]
        figures.found = [HIGH]
        assert await w.look(MINUTE) == ["figures_are_high"]
        assert len(await w.rows("figures_are_high")) == 2


async def test_what_has_to_last_opens_when_it_has(database_url: TestDatabase) -> None:
    figures = Figures(bounds=Bounds(holds_for=2 * MINUTE))
    async with watched(database_url, [figures.app]) as w:
        figures.found = [HIGH]
        assert await w.look() == []
        figures.found = []
        assert await w.look(MINUTE) == []
        assert await w.rows("figures_are_high") == []
        figures.found = [HIGH]
        opened = [await w.look(MINUTE) for _ in range(3)]
        assert opened == [[], [], ["figures_are_high"]]
        [row] = await w.rows("figures_are_high")
        assert row["opened_at"] - row["seen_at"] == 2 * MINUTE


async def test_a_question_that_cannot_be_answered_here_leaves_what_stands(database_url: TestDatabase) -> None:
    figures = Figures()
    async with watched(database_url, [figures.app]) as w:
        figures.found = [HIGH]
        await w.look()
        figures.found = None
        assert await w.look(MINUTE) == ["figures_are_high"]


async def test_more_than_one_answer_holds_is_gone_through_in_parts(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies behind the last of an answer that was cut off is not over for that."""
    monkeypatch.setattr(watching, "_FINDINGS_MAX", 2)
    monkeypatch.setattr(watching, "_PAGES_MAX", 2)
    figures = Figures()
    async with watched(database_url, [figures.app]) as w:
        figures.found = [
            Finding(value=1, tenant=tenant, subject=subject, detail="high")
            for tenant in ("a", "b", "Ä")
            for subject in ("x", "y")
        ]
        assert len(await w.look()) == 4
        assert len(await w.look()) == 6
        for _ in range(3):
            assert len(await w.look()) == 6
        del figures.found[1], figures.found[3]
        await w.look()
        await w.look()
        assert len(await w.open()) == 4
        closed = [row for row in await w.rows("figures_are_high") if row["closed_at"] is not None]
        assert [(row["tenant"], row["subject"]) for row in closed] == [("a", "y"), ("Ä", "x")]


async def test_a_question_that_fails_holds_up_no_other_and_is_seen(database_url: TestDatabase) -> None:
    broken, whole = Figures(), Figures(name="others_are_high", app="others")
    with kept_lines() as lines:
        async with watched(database_url, [broken.app, whole.app]) as w:
            await _fail_and_come_back(w, broken, whole)
    told = [line for line in lines if line["event"] == "a question about alerts failed"]
    assert [(line["rule"], line["log_level"]) for line in told] == [("figures_are_high", "error")]


async def _fail_and_come_back(w: Watched, broken: Figures, whole: Figures) -> None:
    broken.found = whole.found = [HIGH]
    await w.look()
    broken.error, whole.found = ValueError("no such figure"), []
    opened = [await w.look(MINUTE) for _ in range(3)]
    # What was open stays, since nobody knows better.
    assert opened == [["figures_are_high"]] * 3
    assert await w.look(MINUTE) == ["figures_are_high", "alert_question_fails"]
    [row] = await w.rows("alert_question_fails")
    assert (row["subject"], row["is_of_engine"]) == ("figures_are_high", True)
    assert w.bell.tallies.counted[watching.FAILURES]["figures_are_high",] == 4
    broken.error, broken.found = None, []
    await w.look(MINUTE)
    assert await w.look(MINUTE) == []


async def test_a_question_has_a_few_seconds_and_changes_nothing(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_ASK_SECONDS", 0.05)
    errors: list[Exception] = []

    async def hang(asked: Asked) -> None:
        await trying(asked, "SELECT pg_sleep(60)")

    async def write(asked: Asked) -> None:
        await trying(asked, "DELETE FROM timebell.events")

    async def trying(asked: Asked, statement: str) -> None:
        try:
            await asked.session.execute(statement)
        except Exception as error:
            errors.append(error)
            raise

    rules = [
        AlertRule(name=name, severity="warning", about="Slow.", remedy="Wait.", question=question)
        for name, question in (("hangs", hang), ("writes", write))
    ]
    async with watched(database_url, [App(name="t", alerts=rules)]) as w:
        await w.look()
        assert [type(error) for error in errors] == [
            asyncpg.QueryCanceledError,
            asyncpg.ReadOnlySQLTransactionError,
        ]


async def test_one_node_asks_for_all_until_it_is_gone(cluster: Cluster, owner: Owner) -> None:
    figures = Figures()
    nodes = [await cluster.node([figures.app], alert_seconds=10) for _ in range(3)]

    async def tick() -> int:
        before = len(figures.asked)
        for node in nodes:
            assert await node.engine.watch.tick() == 10
        return len(figures.asked) - before

    assert await tick() == 1
    assert await tick() == 0
    cluster.clock.move(5 * SECOND)
    assert await tick() == 0
    cluster.clock.move(5 * SECOND)
    assert await tick() == 1
    await cluster.kill(nodes.pop(0))
    cluster.clock.move(10 * SECOND)
    assert await tick() == 1
    assert figures.asked[-1].bell is nodes[0].bell
    # The database's clock was set back by a day: nobody waits for the old time to come again.
    await owner.rows("UPDATE timebell.alert_rounds SET asked_at = asked_at + interval '1 day'")
    assert await tick() == 1


async def test_two_who_ask_at_once_open_one(cluster: Cluster, owner: Owner) -> None:
    figures = Figures()
    one, other = [await cluster.node([figures.app]) for _ in range(2)]
    figures.found = [HIGH]
    hold = one.stage.hold("before", "insert_alerts")
    looking = asyncio.create_task(one.engine.watch.look())
    await hold.reached.wait()
    await other.engine.watch.look()
    hold.release()
    await looking
    assert await owner.value("SELECT count(*) FROM timebell.alerts WHERE rule = 'figures_are_high'") == 1
    assert await owner.value("SELECT count(*) FROM timebell.events WHERE name = 'alert.opened'") == 1


async def test_an_app_opens_and_closes_what_it_knows_by_itself(database_url: TestDatabase) -> None:
    rule = AlertRule(name="bill_lost", severity="critical", about="A bill was lost.", remedy="Find it.")
    async with watched(database_url, [App(name="bills", alerts=[rule])]) as w:
        alerts = Alerts(w.bell)
        async with w.bell.transaction(tenant="a") as tx:
            assert await alerts.open(tx, "bill_lost", subject="bill:1", detail="bill 1")
            assert not await alerts.open(tx, "bill_lost", subject="bill:1", detail="again")
            assert await alerts.open(tx, "bill_lost", subject="bill:2", detail="bill 2")
        assert await w.look(MINUTE) == ["bill_lost", "bill_lost"]
        async with w.bell.transaction(tenant="b") as tx:
            assert not await alerts.close(tx, "bill_lost", subject="bill:1")
        async with w.bell.transaction(tenant="a") as tx:
            assert await alerts.close(tx, "bill_lost", subject="bill:1")
            assert not await alerts.close(tx, "bill_lost", subject="bill:1")
        first, second = await w.rows("bill_lost")
        assert (first["closed_at"], second["closed_at"]) == (w.clock.now, None)
        async with w.bell.transaction(tenant="a") as tx:
            done = await alerts.acknowledge(tx, second["id"], actor="ada")
        assert (done.is_first, done.alert.closed_at) == (True, w.clock.now)
        async with w.bell.transaction() as tx:
            with pytest.raises(ConfigurationError, match="no app brings"):
                await alerts.open(tx, "many_dead_jobs", detail="said by hand")


async def test_no_words_are_too_long_or_too_strange_for_an_alert(database_url: TestDatabase) -> None:
    rule = AlertRule(name="bill_lost", severity="critical", about="A bill was lost.", remedy="Find it.")
    async with watched(database_url, [App(name="bills", alerts=[rule])]) as w:
        async with w.bell.transaction() as tx:
            await Alerts(w.bell).open(tx, "bill_lost", detail="a\0b \ud800 " + "x" * 2_000)
        [row] = await w.rows("bill_lost")
        assert (row["detail"][:5], len(row["detail"]), row["detail"][-1]) == ("ab ? ", 1_000, "…")


async def test_what_was_opened_and_undone_was_never_open(database_url: TestDatabase) -> None:
    rule = AlertRule(name="bill_lost", severity="critical", about="A bill was lost.", remedy="Find it.")
    async with watched(database_url, [App(name="bills", alerts=[rule])]) as w:

        async def open_and_fail() -> None:
            async with w.bell.transaction() as tx:
                await Alerts(w.bell).open(tx, "bill_lost", detail="bill 1")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await open_and_fail()
        assert await w.rows("bill_lost") == []


async def test_whoever_has_acknowledged_first_stays(database_url: TestDatabase) -> None:
    figures = Figures()
    async with watched(database_url, [figures.app]) as w:
        figures.found = [HIGH]
        await w.look()
        [row] = await w.rows("figures_are_high")
        for actor, is_first in (("ada", True), ("bob", False)):
            async with w.bell.transaction() as tx:
                done = await Alerts(w.bell).acknowledge(tx, row["id"], actor=actor)
            assert (done.is_first, done.alert.acknowledged_by, done.alert.closed_at) == (
                is_first,
                "ada",
                None,
            )
        assert await w.events() == ["alert.opened", "alert.acknowledged"]
        assert await w.look(MINUTE) == ["figures_are_high"]


async def test_closed_alerts_are_kept_for_as_many_days_as_were_said(database_url: TestDatabase) -> None:
    figures = Figures()
    async with watched(database_url, [figures.app], alert_days=30) as w:
        for found in ([HIGH], [], [HIGH]):
            figures.found = list(found)
            await w.look(MINUTE)
        w.clock.move(timedelta(days=29))
        await w.h.engine.pruner.tick()
        assert len(await w.rows("figures_are_high")) == 2
        w.clock.move(timedelta(days=2))
        await w.h.engine.pruner.tick()
        assert [row["closed_at"] for row in await w.rows("figures_are_high")] == [None]


def test_a_name_is_given_once() -> None:
    one, other = Figures(), Figures(app="others")
    with pytest.raises(ConfigurationError, match="'figures_are_high' is already brought"):
        Registry([one.app, other.app])


@pytest.mark.parametrize("app", [Figures(name="many_dead_jobs").app, Figures(app="engine").app])
def test_no_app_takes_a_name_of_the_engines(app: App) -> None:
    with pytest.raises(ConfigurationError, match="is the engine's, or the app has its name"):
        watching.rules_of(Registry([app]))
