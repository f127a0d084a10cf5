-- Everything that is kept about a person, in the order of the ids. A company stands for the roles that somebody has in it, and an
-- insurance for the warnings of it.
SELECT kept.id, kept.line::text AS line
FROM (
    SELECT m.company_id AS id, jsonb_build_object('id', m.company_id, 'is', 'company_member', 'company_id', m.company_id,
        'roles', jsonb_agg(m.role ORDER BY m.role)) AS line
    FROM marketplace.company_members m WHERE m.tenant = :tenant::text AND m.recipient_id = :person::uuid
    GROUP BY m.company_id
    UNION ALL
    SELECT w.id, to_jsonb(w) - 'number' || '{"is": "worker"}' FROM marketplace.workers w
    WHERE w.tenant = :tenant::text AND w.recipient_id = :person::uuid
    UNION ALL
    SELECT b.id, to_jsonb(b) || '{"is": "staffing_booking"}' FROM marketplace.workers w
    JOIN marketplace.staffing_bookings b ON b.tenant = w.tenant AND b.worker_id = w.id
    WHERE w.tenant = :tenant::text AND w.recipient_id = :person::uuid
    UNION ALL
    SELECT b.id, to_jsonb(b) || '{"is": "supervised_booking"}' FROM marketplace.staffing_bookings b
    WHERE b.tenant = :tenant::text AND b.supervisor_id = :person::uuid
    UNION ALL
    SELECT t.id, to_jsonb(t) || '{"is": "time_log"}' FROM marketplace.workers w
    JOIN marketplace.staffing_bookings b ON b.tenant = w.tenant AND b.worker_id = w.id
    JOIN marketplace.time_log t ON t.tenant = b.tenant AND t.booking_id = b.id
    WHERE w.tenant = :tenant::text AND w.recipient_id = :person::uuid
    UNION ALL
    SELECT v.policy_id, jsonb_build_object('id', v.policy_id, 'is', 'insurance_warnings', 'policy_id', v.policy_id,
        'warnings', jsonb_agg(to_jsonb(v) - 'tenant' - 'policy_id' - 'recipient_id' ORDER BY v.sent_at, v.channel))
    FROM marketplace.insurance_warnings v WHERE v.tenant = :tenant::text AND v.recipient_id = :person::uuid
    GROUP BY v.policy_id
    UNION ALL
    SELECT d.id, to_jsonb(d) || '{"is": "dispute"}' FROM marketplace.disputes d
    WHERE d.tenant = :tenant::text AND d.filed_by = 'recipient:' || :person::uuid
    UNION ALL
    SELECT i.id, to_jsonb(i) || '{"is": "incident_report"}' FROM marketplace.incident_reports i
    WHERE i.tenant = :tenant::text AND i.reported_by = 'recipient:' || :person::uuid
    UNION ALL
    SELECT s.id, to_jsonb(s) || '{"is": "saved_search"}' FROM marketplace.saved_searches s
    WHERE s.tenant = :tenant::text AND s.user_id = :person::uuid
    UNION ALL
    SELECT l.id, to_jsonb(l) - 'token_hash' || '{"is": "magic_link"}' FROM marketplace.magic_link_tokens l
    WHERE l.tenant = :tenant::text AND l.user_id = :person::uuid
) kept
WHERE kept.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY kept.id LIMIT :limit::integer + 1
