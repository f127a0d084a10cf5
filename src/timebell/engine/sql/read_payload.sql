SELECT payload::text, cursor::text FROM timebell.jobs WHERE id = :id::uuid AND version = :version::integer
