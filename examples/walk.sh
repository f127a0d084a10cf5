#!/bin/sh
# A walk through the HTTP interface with curl. Start a sandbox first, in another terminal:
#
#   TIMEBELL_API_KEY=tb_test_0123456789abcdef timebell up --sandbox --start 2026-03-01T00:00:00Z
#
# then: sh examples/walk.sh [address] [key]

set -eu
URL=${1:-http://127.0.0.1:8080}
KEY=${2:-tb_test_0123456789abcdef}
ME='' ONCE=''

# call METHOD PATH [BODY]: what is answered, for the person ME, and with the idempotency key ONCE.
call() {
	curl -sS --fail-with-body -X "$1" "$URL$2" -H "Authorization: Bearer $KEY" \
		${ME:+-H "Timebell-Actor: $ME"} ${ONCE:+-H "Idempotency-Key: $ONCE"} \
		${3:+-H "Content-Type: application/json" -d "$3"}
	echo
}

show() {
	printf '\n# %s\n' "$1"
}

# The first id of an answer.
id() {
	grep -o '"id":"[^"]*"' | head -n 1 | cut -d '"' -f 4
}

show "What time is it? It stands still until somebody moves it."
call GET /v1/clock

show "Somebody to tell things to"
ME=$(call POST /v1/recipients '{"name": "Ada", "timezone": "Europe/Berlin", "email": "ada@example.org", "channel_preference": "email"}' | id)
echo "$ME"

show "What would a schedule mean? Nothing is kept."
REPORT='{"kind": "task", "title": "Submit report", "tz": "Europe/Berlin", "start_local": "2026-03-27T17:00:00",
	"rrule": "FREQ=WEEKLY;COUNT=2", "notify_offsets_min": [1440], "show_before_minutes": 1440}'
call POST '/api/schedules?dry_run=true' "$REPORT"

show "Create it, twice with the same key: it is there once"
ONCE="walk-$ME"
SCHEDULE=$(call POST /api/schedules "$REPORT" | id)
[ "$SCHEDULE" = "$(call POST /api/schedules "$REPORT" | id)" ]
ONCE=''
call GET /api/schedules

show "Five weeks pass, the change of clocks among them"
call POST /v1/clock/advance '{"by": "P35D"}'

show "Her inbox: told the day before at five o'clock where she is, which is 16:00 and then 15:00 in UTC"
call GET /v1/inbox

show "And what would have left by mail"
call GET "/v1/outbox?recipient_id=$ME"

show "What there is to do; the first is done"
TASK=$(call GET /api/tasks | id)
call POST "/api/tasks/$TASK/complete"

show "No more of it"
call DELETE "/api/schedules/$SCHEDULE"
call GET "/api/schedules/$SCHEDULE"
