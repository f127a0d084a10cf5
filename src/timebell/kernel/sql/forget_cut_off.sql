-- Steps that were cut off and are planned again: how they end now is what counts.
DELETE FROM timebell.agenda_done d
USING unnest(:subjects::text[], :steps::text[], :due_ats::timestamptz[]) AS a(subject, step, due_at)
WHERE d.tenant = :tenant::text AND d.subject = a.subject AND d.step = a.step AND d.due_at = a.due_at
    AND d.state = 'cut_off'
