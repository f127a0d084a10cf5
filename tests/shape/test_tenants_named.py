"""A query on a table of tenants says which tenant it means, for every such table that it names.

The wall in the database hides a query that forgets, but nodes have no wall, and a server whose settings have no
`api_url` has none either. What may look further is listed here with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest

from tests.shape.sql_text import without_comments
from tests.shape.tree import PACKAGE

# Why some queries name a table without a tenant: the folder and the query, and the tables, as often as they are named
# so. A query whose tables are other ones than these, or more, or fewer, is complained of.
REASONS: Mapping[str, Mapping[str, str]] = {
    "A node serves all tenants, and finds a job, a schedule or an occurrence by its id, which no two tenants have.": {
        "engine/beat_job": "cancel_requests jobs",
        "engine/end_jobs": "jobs",
        "engine/finish_jobs": "jobs",
        "engine/give_back_jobs": "jobs jobs jobs",
        "engine/lock_free_jobs": "jobs",
        "engine/lock_job": "cancel_requests cancel_requests",
        "engine/planner/mark_schedules": "schedules schedules",
        "engine/planner/miss_occurrences": "occurrences schedules",
        "engine/park_jobs": "jobs jobs",
        "engine/planner/park_schedules": "schedules",
        "engine/read_cancel_request": "cancel_requests",
        "engine/read_payload": "jobs",
        "engine/recover_jobs": "jobs jobs jobs",
        "engine/retry_jobs": "cancel_requests jobs",
        "engine/start_jobs": "cancel_requests jobs",
        "engine/unpark_jobs": "jobs jobs jobs queue_pauses",
    },
    "A node looks for what is due, paused or old of all tenants.": {
        "apps/marketplace/insurance/ask_expired_active": "insurance_policies",
        "apps/marketplace/insurance/ask_unwarned": "insurance_policies",
        "apps/scheduler/read_next_tenant": "requests",
        "apps/sequences/read_next_tenant": "messages",
        "engine/planner/claim_schedules": "schedules",
        "engine/prune_agendas": "agendas",
        "engine/prune_dead_jobs": "dead_jobs dead_jobs",
        "engine/prune_keys": "job_keys",
        "engine/prune_occurrences": "occurrences schedules",
        "engine/read_next_due": "jobs",
        "engine/planner/read_next_plan": "schedules",
        "engine/read_pauses": "queue_pauses",
        "kernel/alerts/list_standing": "alerts",
        "kernel/alerts/list_standing_rules": "alerts alerts",
        "kernel/alerts/note_told": "alerts",
        "kernel/alerts/prune_alerts": "alerts alerts",
        "kernel/alerts/take_untold": "alerts",
        "notify/prune_reports": "provider_reports",
        "web/prune_api_keys": "api_keys",
        "web/prune_replies": "replies",
    },
    "The rows were found by their tenant before, and have ids that no two tenants have.": {
        "kernel/confirm_jobs": "cancel_requests jobs",
        "kernel/schedules/delete_occurrences": "occurrences",
        "kernel/discard_jobs": "dead_jobs",
        "kernel/finish_waiting": "cancel_requests jobs",
        "kernel/hasten_free_jobs": "jobs jobs",
        "kernel/keep_steps": "jobs",
        "kernel/insights/list_dead_oldest": "dead_jobs",
        "kernel/insights/list_events": "events",
        "kernel/insights/list_events_oldest": "events",
        "kernel/schedules/list_schedules": "schedules",
        "kernel/insights/list_unfinished_oldest": "jobs",
        "kernel/move_steps": "jobs",
        "kernel/read_agenda": "cancel_requests",
        "kernel/read_agendas": "cancel_requests",
        "kernel/insights/read_job_events": "events",
        "kernel/read_keys": "jobs",
        "kernel/replace_job": "cancel_requests",
        "kernel/revive_jobs": "cancel_requests dead_jobs",
        "kernel/schedules/settle_schedules": "schedules",
        "kernel/supersede_steps": "jobs",
        "kernel/schedules/update_occurrences": "occurrences",
        "kernel/withdraw_steps": "jobs",
    },
    "Figures about all that a server has, which only its operator sees.": {
        "apps/marketplace/insurance/count_expiring": "insurance_policies",
        "engine/watch/ask_parked": "schedules",
        "engine/watch/ask_unplanned": "schedules",
        "kernel/insights/count_dead": "dead_jobs",
        "kernel/insights/count_due": "jobs",
        "kernel/insights/count_retrying": "jobs",
        "kernel/insights/count_future": "jobs",
        "kernel/insights/count_left": "jobs",
        "kernel/count_overdue": "jobs",
        "kernel/insights/estimate_jobs": "jobs",
        "kernel/insights/list_parked_schedules": "schedules",
        "kernel/insights/read_last_logged": "job_log",
        "kernel/insights/read_lateness": "job_log",
        "kernel/insights/read_oldest_due": "jobs",
        "kernel/insights/read_throughput": "job_log",
        "notify/delivery/count_deliveries": "deliveries",
        "notify/delivery/read_last_provider": "deliveries",
        "web/read_is_used": "dead_jobs job_log jobs recipients schedules",
    },
    "Seals are made and verified in the order of writing, whoever's the events are.": {
        "kernel/events/count_unsealed": "event_seals",
        "kernel/events/list_seals": "events",
        "kernel/events/list_unsealed": "event_seals events",
        "kernel/events/read_last_sealed": "event_seals events",
        "kernel/insights/read_unsealed": "event_seals event_seals events events",
    },
    "An operator may ask for all tenants, and what is of everybody has no tenant.": {
        "kernel/insights/list_pauses": "queue_pauses queue_pauses",
        "kernel/insights/read_failures": "dead_jobs dead_jobs",
        "web/list_tenants": "tenants",
    },
    "What is read is bounded before it is known whose it is; the tenant is compared outside.": {
        "kernel/insights/list_running": "jobs",
    },
    "A provider and its line are shared by all tenants, and what it reports comes without one.": {
        "notify/reports/apply_reports": "provider_reports",
        "notify/delivery/call_waits": "provider_waits",
        "notify/reports/close_incoming": "provider_reports",
        "notify/delivery/count_lines": "provider_waits provider_waits",
        "notify/delivery/delete_turns": "provider_turns",
        "notify/delivery/delete_waits": "provider_waits",
        "notify/delivery/drop_waits": "provider_waits provider_waits",
        "notify/people/erase_messages": "provider_reports",
        "notify/people/export_notifications": "provider_reports",
        "notify/reports/find_reported_deliveries": "deliveries deliveries",
        "notify/delivery/keep_places": "provider_waits",
        "notify/reports/list_incoming": "provider_reports",
        "notify/delivery/read_lines": "provider_waits provider_waits",
        "notify/delivery/read_waits": "provider_waits",
        "notify/reports/store_incoming": "provider_reports",
        "notify/delivery/sum_up_reported": "provider_reports",
        "notify/delivery/sweep_waits": "provider_waits",
    },
    "Whose a key is, is what is asked; and after a restore none of them opens anything.": {
        "web/find_api_key": "api_keys",
        "web/revoke_restored_keys": "api_keys",
    },
}

_AFTER_A_TABLE = (
    "WHERE|SET|ON|JOIN|LEFT|CROSS|FULL|ORDER|GROUP|LIMIT|USING|RETURNING|FOR|VALUES|SELECT|TABLESAMPLE"
)
_NAMED = re.compile(
    r"(?P<verb>\bFROM|\bJOIN|\bUPDATE|\bINTO|\bUSING|,)\s+(?P<table>\w+\.\w+)"
    rf"(?:\s+(?:AS\s+)?(?!(?:{_AFTER_A_TABLE})\b)(?P<alias>\w+))?"
)
_STATEMENT = re.compile(r"\s*(?:SELECT|WITH|INSERT|UPDATE|DELETE)\b")
_TOGETHER = re.compile(r"\b(?:UNION(?:\s+ALL)?|EXCEPT)\b")


def scopes(sql: str) -> Iterator[str]:
    """Every statement and every subquery, each without those inside it, and cut where a UNION puts two together."""
    open_scopes = [""]
    for part in re.split(r"([()])", sql):
        if part == "(":
            open_scopes.append("")
        elif part == ")":
            inner = open_scopes.pop()
            if _STATEMENT.match(inner):
                yield from _TOGETHER.split(inner)
                inner = "subquery"
            open_scopes[-1] += f"({inner})"
        else:
            open_scopes[-1] += part
    yield from _TOGETHER.split(open_scopes[0])


def without_tenant(scope: str, tables: frozenset[str]) -> list[str]:
    """The tables that a scope names without saying of which tenant."""
    named = [match for match in _NAMED.finditer(scope) if match["table"] in tables]
    if not named:
        return []
    # What is chosen to be seen is no condition.
    conditions = scope[named[0].start() :]
    links = re.findall(r"\b(\w+)\.tenant\s*(?:=|IN)\s*\(?(\w+)\.tenant\b", conditions)
    links += [(right, left) for left, right in links]
    own = {match["alias"] or match["table"] for match in named}
    known = {match["alias"] or match["table"] for match in named if _is_said(match, scope, conditions)}
    # Another scope is looked at by itself, so whatever has its tenant from there has the right one.
    known |= {left for left, right in links if right not in own}
    for _ in named:
        known |= {left for left, right in links if right in known}
    return [match["table"] for match in named if (match["alias"] or match["table"]) not in known]


def _is_said(match: re.Match[str], scope: str, conditions: str) -> bool:
    """Whether the tenant of a table is given by the caller."""
    if match["verb"] == "INTO":
        columns = re.match(r"\s*\(([^)]*)\)", scope[match.end() :])
        return columns is not None and re.search(r"\btenant\b", columns[1]) is not None
    column = r"(?<![.:\w])tenant" if match["alias"] is None else rf"\b{match['alias']}\.tenant"
    compared = rf"{column}\s*(?:=|IN|BETWEEN)\s*(?:ANY\s*)?\(*\s*:|\({column},[^()]*\)\s+IN\b"
    return re.search(compared, conditions) is not None


def tables_of_tenants() -> frozenset[str]:
    migrations = [
        without_comments(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("migrations/*.sql")
    ]
    return frozenset(
        match[1]
        for text in migrations
        for match in re.finditer(r"CREATE TABLE (\w+\.\w+) \((.*?)\n\)", text, re.DOTALL)
        if re.search(r"^\s*tenant\s+text", match[2], re.MULTILINE)
    )


def found() -> dict[str, str]:
    """Each query that names a table without its tenant, with those tables."""
    tables = tables_of_tenants()
    queries = {}
    for path in sorted(PACKAGE.rglob("sql/*.sql")):
        text = without_comments(path.read_text(encoding="utf-8"))
        left = sorted(
            table.partition(".")[2] for scope in scopes(text) for table in without_tenant(scope, tables)
        )
        if left:
            queries[path.relative_to(PACKAGE).as_posix().replace("/sql/", "/").removesuffix(".sql")] = (
                " ".join(left)
            )
    return queries


def test_every_query_says_which_tenant_it_means() -> None:
    queries = found()
    # An app may have been taken away.
    reasons = {
        query: tables
        for listed in REASONS.values()
        for query, tables in listed.items()
        if (PACKAGE / query).parent.is_dir()
    }
    complaints = [
        f"{query}: {queries.get(query, 'nothing')} is named without its tenant, {reasons.get(query, 'nothing')} has a "
        "reason to be; name the tenant, or give the reason in REASONS"
        for query in sorted(queries.keys() | reasons.keys())
        if queries.get(query) != reasons.get(query)
    ]
    assert not complaints, "\n".join(complaints)


def test_the_tables_of_tenants_are_found() -> None:
    found = tables_of_tenants()
    assert {"timebell.jobs", "timebell_notify.inbox", "timebell_web.replies"} <= found
    assert not {"timebell.slots", "timebell_web.sandbox"} & found


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("SELECT * FROM a.x WHERE tenant = :tenant::text AND id = :id", ""),
        ("SELECT x.tenant FROM a.x x WHERE x.id = :id", "a.x"),
        ("SELECT tenant FROM a.x WHERE id = :id", "a.x"),
        ("DELETE FROM a.x WHERE id = :id", "a.x"),
        ("UPDATE a.x SET n = 1 WHERE tenant IN (:tenant, '') AND id = :id", ""),
        ("INSERT INTO a.x (tenant, id) VALUES (:tenant, :id)", ""),
        ("INSERT INTO a.x (id) VALUES (:id)", "a.x"),
        ("SELECT * FROM a.x x JOIN a.y y ON y.tenant = x.tenant WHERE x.tenant = :tenant", ""),
        ("SELECT * FROM a.x x JOIN a.y y ON y.tenant = x.tenant AND y.id = x.id", "a.x a.y"),
        ("SELECT * FROM a.x x JOIN a.y y ON y.id = x.id WHERE x.tenant = :tenant", "a.y"),
        ("SELECT (SELECT 1 FROM a.y y WHERE y.tenant = x.tenant) FROM a.x x WHERE x.id = :id", "a.x"),
        ("SELECT 1 FROM a.x WHERE tenant = :tenant UNION ALL SELECT 2 FROM a.x", "a.x"),
        ("WITH old AS (SELECT id FROM a.x WHERE tenant = :tenant) DELETE FROM a.x USING old", "a.x"),
        ("UPDATE a.x x SET n = 1 FROM unnest(:tenants::text[]) AS w(tenant) WHERE x.tenant = w.tenant", ""),
        ("SELECT * FROM a.x x WHERE (x.tenant, x.id) IN (SELECT w.tenant, w.id FROM wanted w)", ""),
        ("SELECT * FROM a.slots", ""),
    ],
)
def test_the_check_itself(sql: str, left: str) -> None:
    tables = frozenset({"a.x", "a.y"})
    assert " ".join(table for scope in scopes(sql) for table in without_tenant(scope, tables)) == left
