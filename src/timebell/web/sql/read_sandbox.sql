SELECT now_at FROM timebell_web.sandbox
