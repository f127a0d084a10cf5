"""A description of a schema: all that it is made of, as sorted entries of text.

Two databases that went different ways to the same version must describe themselves alike, and where they do
not, the differing entries say so in words. Left out are the rows, and numbers that mean nothing outside their
server: oids, and the gaps that dropped columns leave.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

_SCHEMAS = """
    SELECT concat_ws(' ', 'schema', n.nspname, 'owner', n.nspowner::regrole)
    FROM pg_namespace n WHERE n.nspname = ANY($1)
"""

_RELATIONS = """
    SELECT concat_ws(' ',
        CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned table' WHEN 'v' THEN 'view'
            WHEN 'm' THEN 'materialised view' WHEN 'f' THEN 'foreign table' WHEN 'c' THEN 'composite type'
            ELSE c.relkind::text END,
        c.oid::regclass,
        'owner', c.relowner::regrole,
        CASE c.relpersistence WHEN 'u' THEN 'unlogged' WHEN 't' THEN 'temporary' END,
        'method ' || m.amname,
        'partition of ' || (SELECT string_agg(h.inhparent::regclass::text, ', ' ORDER BY h.inhseqno)
            FROM pg_inherits h WHERE h.inhrelid = c.oid),
        pg_get_expr(c.relpartbound, c.oid),
        'partition by ' || pg_get_partkeydef(c.oid),
        'options ' || (SELECT string_agg(o, ', ' ORDER BY o) FROM unnest(c.reloptions) o),
        CASE WHEN c.relrowsecurity THEN 'row security' END,
        CASE WHEN c.relforcerowsecurity THEN 'forced' END,
        'identity ' || c.relreplident::text,
        CASE WHEN c.relkind IN ('v', 'm') THEN 'as ' || pg_get_viewdef(c.oid) END)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_am m ON m.oid = c.relam
    WHERE n.nspname = ANY($1) AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c')
"""

_COLUMNS = """
    SELECT concat_ws(' ', 'column', a.attrelid::regclass,
        lpad((row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum))::text, 3, '0'),
        quote_ident(a.attname), format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attcollation <> t.typcollation THEN 'collate ' || a.attcollation::regcollation END,
        CASE WHEN a.attnotnull THEN 'not null' END,
        'identity ' || nullif(a.attidentity::text, ''),
        'generated ' || nullif(a.attgenerated::text, ''),
        'default ' || pg_get_expr(d.adbin, d.adrelid),
        CASE WHEN a.attstorage <> t.typstorage THEN 'storage ' || a.attstorage::text END,
        'compression ' || nullif(a.attcompression::text, ''),
        'statistics ' || nullif(a.attstattarget, -1),
        'options ' || (SELECT string_agg(o, ', ' ORDER BY o) FROM unnest(a.attoptions) o))
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE n.nspname = ANY($1) AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c')
      AND a.attnum > 0 AND NOT a.attisdropped
"""

_SEQUENCES = """
    SELECT concat_ws(' ', 'sequence', c.oid::regclass, 'owner', c.relowner::regrole, s.seqtypid::regtype,
        'start', s.seqstart, 'by', s.seqincrement, 'from', s.seqmin, 'to', s.seqmax, 'cache', s.seqcache,
        CASE WHEN s.seqcycle THEN 'cycle' END)
    FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY($1)
"""

_TYPES = """
    SELECT concat_ws(' ', 'type', t.oid::regtype, 'owner', t.typowner::regrole,
        'enum ' || (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder)
            FROM pg_enum e WHERE e.enumtypid = t.oid),
        CASE WHEN t.typtype = 'd' THEN 'domain ' || format_type(t.typbasetype, t.typtypmod) END,
        CASE WHEN t.typnotnull THEN 'not null' END,
        'default ' || t.typdefault,
        'range ' || (SELECT r.rngsubtype::regtype::text FROM pg_range r WHERE r.rngtypid = t.oid))
    FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
    WHERE n.nspname = ANY($1) AND t.typtype IN ('e', 'd', 'r')
"""

_CONSTRAINTS = """
    SELECT concat_ws(' ', 'constraint', quote_ident(k.conname), 'on',
        CASE WHEN k.conrelid <> 0 THEN k.conrelid::regclass::text ELSE k.contypid::regtype::text END,
        pg_get_constraintdef(k.oid), CASE WHEN NOT k.convalidated THEN 'unproven' END)
    FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace
    WHERE n.nspname = ANY($1)
"""

_INDEXES = """
    SELECT concat_ws(' ', 'index', pg_get_indexdef(i.indexrelid),
        CASE WHEN NOT i.indisvalid THEN 'invalid' END, CASE WHEN i.indisclustered THEN 'clustered' END,
        CASE WHEN i.indisreplident THEN 'replica identity' END,
        'part of ' || (SELECT h.inhparent::regclass::text FROM pg_inherits h WHERE h.inhrelid = i.indexrelid))
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY($1)
"""

_FUNCTIONS = """
    SELECT concat_ws(' ', 'function', p.oid::regprocedure, 'owner', p.proowner::regrole,
        CASE WHEN p.prokind = 'a' THEN 'aggregate returns ' || p.prorettype::regtype
            ELSE chr(10) || pg_get_functiondef(p.oid) END)
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = ANY($1)
"""

_TRIGGERS = """
    SELECT concat_ws(' ', 'trigger', pg_get_triggerdef(t.oid), 'enabled', t.tgenabled)
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY($1) AND NOT t.tgisinternal
"""

_POLICIES = """
    SELECT concat_ws(' ', 'policy', quote_ident(p.polname), 'on', p.polrelid::regclass, p.polcmd,
        CASE WHEN p.polpermissive THEN 'permissive' ELSE 'restrictive' END,
        'to ' || (SELECT string_agg(CASE r WHEN 0 THEN 'public' ELSE r::regrole::text END, ', ' ORDER BY r)
            FROM unnest(p.polroles) r),
        'using ' || pg_get_expr(p.polqual, p.polrelid), 'check ' || pg_get_expr(p.polwithcheck, p.polrelid))
    FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY($1)
"""

_RULES = """
    SELECT concat_ws(' ', 'rule', pg_get_ruledef(r.oid), 'enabled', r.ev_enabled)
    FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY($1) AND r.rulename <> '_RETURN'
"""

_STATISTICS = """
    SELECT concat_ws(' ', 'statistics', pg_get_statisticsobjdef(s.oid),
        'target ' || nullif(s.stxstattarget, -1))
    FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace
    WHERE n.nspname = ANY($1)
"""

# What was never granted is what the server grants by default, so both are spelled out, in one order.
_GRANTS = """
    WITH granted (kind, name, acl) AS (
        SELECT 'schema', n.nspname::text, coalesce(n.nspacl, acldefault('n', n.nspowner))
        FROM pg_namespace n WHERE n.nspname = ANY($1)
        UNION ALL
        SELECT CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, c.oid::regclass::text,
            coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, c.relowner))
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = ANY($1) AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        UNION ALL
        SELECT 'column', concat_ws(' ', c.oid::regclass, quote_ident(a.attname)), a.attacl
        FROM pg_attribute a
        JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = ANY($1) AND NOT a.attisdropped
        UNION ALL
        SELECT 'function', p.oid::regprocedure::text, coalesce(p.proacl, acldefault('f', p.proowner))
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = ANY($1)
        UNION ALL
        SELECT 'type', t.oid::regtype::text, coalesce(t.typacl, acldefault('T', t.typowner))
        FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
        WHERE n.nspname = ANY($1) AND t.typtype IN ('e', 'd', 'r')
    )
    SELECT concat_ws(' ', 'grants on', kind, name,
        (SELECT string_agg(g::text, ' ' ORDER BY g::text) FROM unnest(acl) g))
    FROM granted WHERE acl IS NOT NULL
"""

_DEFAULT_GRANTS = """
    SELECT concat_ws(' ', 'default grants of', d.defaclrole::regrole, 'in', n.nspname, 'for', d.defaclobjtype,
        (SELECT string_agg(g::text, ' ' ORDER BY g::text) FROM unnest(d.defaclacl) g))
    FROM pg_default_acl d JOIN pg_namespace n ON n.oid = d.defaclnamespace
    WHERE n.nspname = ANY($1)
"""

_COMMENTS = """
    SELECT concat_ws(' ', 'comment on', o.type, o.identity, 'is', quote_literal(d.description))
    FROM pg_description d, pg_identify_object(d.classoid, d.objoid, d.objsubid) o
    WHERE o.schema = ANY($1) OR (o.type = 'schema' AND o.name = ANY($1))
"""

_SETTINGS = """
    SELECT concat_ws(' ', 'setting of',
        CASE s.setrole WHEN 0 THEN 'every role' ELSE s.setrole::regrole::text END, v)
    FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase, unnest(s.setconfig) v
    WHERE d.datname = current_database() AND cardinality($1::text[]) > 0
"""

_QUESTIONS = (
    _SCHEMAS,
    _RELATIONS,
    _COLUMNS,
    _SEQUENCES,
    _TYPES,
    _CONSTRAINTS,
    _INDEXES,
    _FUNCTIONS,
    _TRIGGERS,
    _POLICIES,
    _RULES,
    _STATISTICS,
    _GRANTS,
    _DEFAULT_GRANTS,
    _COMMENTS,
    _SETTINGS,
)


async def describe_schema(connection: asyncpg.Connection, schemas: Sequence[str]) -> tuple[str, ...]:
    """Everything in these schemas that a migration can shape, one entry per object, in a fixed order."""
    entries: list[str] = []
    transaction = connection.transaction()
    await transaction.start()
    try:
        # The server leaves out what the search path implies and prints instants in the session's zone.
        await connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        await connection.execute("SET LOCAL timezone = 'UTC'")
        for question in _QUESTIONS:
            entries += [row[0] for row in await connection.fetch(question, list(schemas))]
    finally:
        # Rolled back, so that inside a caller's transaction the two settings go as they came.
        await transaction.rollback()
    return tuple(sorted(entries))
