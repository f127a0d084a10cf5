-- Before a step's own transaction locks its job: whoever changes an agenda takes the agenda first, then the jobs.
SELECT revision FROM timebell.agendas WHERE tenant = :tenant::text AND subject = :subject::text FOR NO KEY UPDATE
