-- Those whose messages, people and enrolments are gone.
DELETE FROM sequences.subjects s
USING unnest(:tenants::text[], :subjects::text[]) AS o(tenant, subject)
WHERE s.tenant = o.tenant AND s.subject = o.subject
