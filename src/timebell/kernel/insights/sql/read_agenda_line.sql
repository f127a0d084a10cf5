SELECT a.subject, a.revision, a.anchor, a.updated_at FROM timebell.agendas a
WHERE a.tenant = :tenant::text AND a.subject = :subject::text
