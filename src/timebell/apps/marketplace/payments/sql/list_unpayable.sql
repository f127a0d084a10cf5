-- Of shifts, those of which nothing may leave for the lender as they stand: disputed, or cancelled, or to be paid when they
-- are verified and not so.
SELECT t.id FROM marketplace.time_log t
WHERE t.tenant = :tenant::text AND t.id = ANY(:ids::uuid[])
    AND (t.status IN ('Disputed', 'Cancelled') OR (:is_verified::boolean AND t.status <> 'Verified')
        OR EXISTS (SELECT FROM marketplace.disputes d
            WHERE d.tenant = :tenant::text AND d.time_log_id = t.id AND d.status IN ('Open', 'Legal_Hold')))
