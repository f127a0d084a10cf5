-- Timesheets that should have been approved so long ago, in the order of tenant and subject.
SELECT t.tenant, t.id, t.auto_approval_time
FROM marketplace.time_log t
WHERE t.status = 'Pending_Verification'
    AND t.auto_approval_time < coalesce(:now::timestamptz, now()) - :seconds::double precision * interval '1 second'
    AND (t.tenant COLLATE "C", 'time_log:' || t.id) > (:after_tenant::text, :after_subject::text COLLATE "C")
ORDER BY t.tenant COLLATE "C", t.id LIMIT :limit::integer
