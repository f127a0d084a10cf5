"""Faults in magic links."""

from __future__ import annotations

from tests.mutants.planted import Planted

_TOKENS = "tests/apps/marketplace/test_tokens.py"
_PLACE = "apps/marketplace/tokens"


def _test(*names: str) -> tuple[str, ...]:
    return tuple(f"{_TOKENS}::{name}" for name in names)


_ONCE = _test("test_a_link_lets_in_whom_it_is_for_once")
_RACE = _test("test_of_several_who_redeem_one_link_at_once_one_does")
_OLD = _test("test_a_link_that_is_too_old_lets_nobody_in")
_WORTH = _test("test_what_a_link_is_worth")
_OTHERS = _test("test_nobody_else_issues_links_and_nothing_is_guessed")
_WHICH = _test("test_which_tokens_go")
_MANY = _test("test_many_go_in_batches_each_in_its_own_transaction")
_NIGHT = _test("test_the_first_night_is_the_next_one")
_ERASED = _test("test_whoever_is_erased_has_no_links")
_PLAN = _test("test_the_indexes_of_the_source_are_there_and_a_night_reads_what_it_deletes")

TOKENS = [
    Planted(
        name="tokens-used-link-lets-in",
        file=f"{_PLACE}/service.py",
        old='        if found.standing == "used":\n            raise link_used()\n',
        new="",
        why="A link is good once.",
        tests=_ONCE,
        survives="The statement that uses it has the last word, and says the same.",
    ),
    Planted(
        name="tokens-used-link-is-used-again",
        file=f"{_PLACE}/sql/use_token.sql",
        old=" AND used = false",
        new="",
        why="It is the last word about links that are brought twice.",
        tests=_RACE,
        survives="The row is locked and looked at before.",
    ),
    Planted(
        name="tokens-old-link-lets-in",
        file=f"{_PLACE}/service.py",
        old='        if found.standing == "expired":\n',
        new='        if found.standing == "none":\n',
        why="A link that lies about for long is found by somebody else.",
        tests=_OLD,
    ),
    Planted(
        name="tokens-good-at-the-end",
        file=f"{_PLACE}/rules.py",
        old='"expired" if expires_at <= now',
        new='"expired" if expires_at < now',
        why="It is good until then, and not at that instant.",
        tests=_WORTH,
    ),
    Planted(
        name="tokens-anybody-issues",
        file=f"{_PLACE}/service.py",
        old="        check_operator(by)\n",
        new="",
        why="Whoever has a role could be anybody else.",
        tests=_OTHERS,
    ),
    Planted(
        name="tokens-of-another-tenant",
        file=f"{_PLACE}/sql/lock_token.sql",
        old="t.tenant = :tenant::text AND ",
        new="(t.tenant = :tenant::text OR true) AND ",
        why="Nothing crosses the wall.",
        tests=_OTHERS,
    ),
    Planted(
        name="tokens-good-ones-go",
        file=f"{_PLACE}/sql/delete_tokens.sql",
        old="u.used = false\n                    AND u.created_at",
        new="u.created_at",
        why="What was used says until its end that it was.",
        tests=_WHICH,
    ),
    Planted(
        name="tokens-expire-a-little-early",
        file=f"{_PLACE}/sql/delete_tokens.sql",
        old="e.expires_at < coalesce",
        new="e.expires_at <= coalesce",
        why="The source says before, and not at.",
        tests=_WHICH,
    ),
    Planted(
        name="tokens-one-batch-is-all",
        file=f"{_PLACE}/cleaning.py",
        old="    if deleted == limit:\n",
        new="    if deleted > limit:\n",
        why="More than a thousand in a day would pile up.",
        tests=_MANY,
    ),
    Planted(
        name="tokens-tonight-has-passed",
        file=f"{_PLACE}/rules.py",
        old="today if today > now",
        new="today if today >= now",
        why="A schedule would begin with a night that is over.",
        tests=_NIGHT,
    ),
    Planted(
        name="tokens-of-the-erased-stay",
        file="apps/marketplace/people.py",
        old="    await TokenStore(bell.clock).delete_tokens_of_person(tx, person=person)\n",
        new="",
        why="Nobody is let in as somebody who is not there.",
        tests=_ERASED,
    ),
    Planted(
        name="tokens-expired-are-found-by-reading-all",
        file="apps/marketplace/migrations/0006_expand_tokens.sql",
        old="CREATE INDEX idx_magic_link_tokens_tenant ON marketplace.magic_link_tokens (tenant, expires_at);\n",
        new="",
        why="A tenant would read what others have, or all that it has itself.",
        tests=_PLAN,
    ),
]
