-- A kind that some node has declared, for processes that enqueue what others run.
SELECT kind, queue, mode, payload_bytes_max FROM timebell.kinds WHERE kind = :kind::text
