-- See the function: a truthful answer for each job that the id, the key or the subject names.
SELECT job_id, answer, state
FROM timebell.cancel_or_request(:tenant::text, :id::uuid, :kind::text, :key::text, :subject::text, :reason::text,
    :actor::text, :running::uuid, :wait_ms::integer, :now::timestamptz)
