DELETE FROM timebell.breakers WHERE destination = :destination::text
