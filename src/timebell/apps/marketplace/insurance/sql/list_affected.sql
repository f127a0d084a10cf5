-- The bookings of a company, on whichever side, in which somebody may still work and which it does not stop yet, some at a
-- time. The last day is by the clock of each project, so that `since` is some hours generous and the rule has the last word.
SELECT found.id, found.is_at_work
FROM (
    (SELECT b.id, at_work.found AS is_at_work FROM marketplace.staffing_bookings b
        CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM marketplace.time_log t
            WHERE t.tenant = b.tenant AND t.booking_id = b.id AND t.status IN ('Working', 'Draft')) AS found) at_work
        WHERE b.tenant = :tenant::text AND b.borrower_company_id = :company_id::uuid AND b.id > :after::uuid
            AND b.status <> 'Cancelled' AND (b.end_date >= :since::date OR at_work.found)
            AND NOT EXISTS (SELECT FROM marketplace.insurance_stops s WHERE s.tenant = b.tenant AND s.booking_id = b.id
                AND s.company_id = :company_id::uuid AND s.type = :type::text)
        ORDER BY b.id LIMIT :limit::integer)
    UNION ALL
    (SELECT b.id, at_work.found AS is_at_work FROM marketplace.staffing_bookings b
        CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM marketplace.time_log t
            WHERE t.tenant = b.tenant AND t.booking_id = b.id AND t.status IN ('Working', 'Draft')) AS found) at_work
        WHERE b.tenant = :tenant::text AND b.lender_company_id = :company_id::uuid AND b.id > :after::uuid
            AND b.status <> 'Cancelled' AND (b.end_date >= :since::date OR at_work.found)
            AND NOT EXISTS (SELECT FROM marketplace.insurance_stops s WHERE s.tenant = b.tenant AND s.booking_id = b.id
                AND s.company_id = :company_id::uuid AND s.type = :type::text)
        ORDER BY b.id LIMIT :limit::integer)
) found
ORDER BY found.id LIMIT :limit::integer
