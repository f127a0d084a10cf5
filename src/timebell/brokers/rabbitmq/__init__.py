"""RabbitMQ, spoken to by pika; it comes with `timebell[rabbitmq]`."""

from timebell.brokers.rabbitmq.broker import RabbitBroker

__all__ = ["RabbitBroker"]
