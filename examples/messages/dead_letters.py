"""Look at the messages that Timebell could not understand, and bring them back once what was wrong is mended.

BROKER_URL=amqp://guest:guest@127.0.0.1:5672/ python dead_letters.py list
python dead_letters.py return REASON    # publish them again, to where they were published first
python dead_letters.py drop REASON      # forget them
"""

import json
import os
import sys

import pika

QUEUE = "timebell.dead"


def main(verb: str, reason: str | None = None) -> None:
    connection = pika.BlockingConnection(
        pika.URLParameters(os.environ.get("BROKER_URL", "amqp://guest:guest@127.0.0.1:5672/"))
    )
    channel = connection.channel()
    channel.confirm_delivery()
    count = channel.queue_declare(QUEUE, passive=True).method.message_count
    for _ in range(count):
        method, properties, body = channel.basic_get(QUEUE)
        if method is None:
            break
        headers = properties.headers or {}
        is_meant = reason is None or headers.get("timebell-reason") == reason
        if verb == "list" and is_meant:
            show(headers, body)
        elif verb == "return" and is_meant and headers.get("timebell-body-bytes") == len(body):
            publish_again(channel, properties, body)
            channel.basic_ack(method.delivery_tag)
        elif verb == "drop" and is_meant:
            channel.basic_ack(method.delivery_tag)
    # What was looked at and not acknowledged goes back into the queue.
    channel.basic_nack(0, multiple=True, requeue=True)
    connection.close()


def show(headers: dict, body: bytes) -> None:
    told = {
        name.removeprefix("timebell-"): value
        for name, value in headers.items()
        if name.startswith("timebell-")
    }
    print(json.dumps({**told, "body": body[:500].decode(errors="replace")}))


def publish_again(channel, properties, body: bytes) -> None:
    """As it was before it came here; the broker confirms that a queue has it, or this raises."""
    headers = properties.headers
    exchange, key = headers["timebell-exchange"], headers["timebell-routing-key"]
    properties.headers = {
        name: value for name, value in headers.items() if not name.startswith(("timebell-", "x-"))
    }
    channel.basic_publish(exchange, key, body, properties, mandatory=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["list"] or (sys.argv[1:2] in (["return"], ["drop"]) and len(sys.argv) == 3):
        main(*sys.argv[1:])
    else:
        sys.exit(__doc__)
