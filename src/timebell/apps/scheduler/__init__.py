"""Messages for later: other services ask for them through a broker, once or again, and get them when they are due."""

from timebell.apps.scheduler.app import with_broker

__all__ = ["with_broker"]
