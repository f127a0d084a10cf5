INSERT INTO timebell_web.sandbox (now_at) VALUES (:now_at)
ON CONFLICT (is_only) DO UPDATE SET now_at = excluded.now_at
