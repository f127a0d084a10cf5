"""Brokers: what messages are handed to and taken from."""

from timebell.brokers.contract import (
    UNREADABLE_HEADERS,
    Away,
    Broker,
    BrokerQueue,
    Confirmed,
    Exchange,
    Header,
    Heard,
    Intake,
    Message,
    Published,
    Received,
    Refused,
    Returned,
    Topology,
)

__all__ = [
    "UNREADABLE_HEADERS",
    "Away",
    "Broker",
    "BrokerQueue",
    "Confirmed",
    "Exchange",
    "Header",
    "Heard",
    "Intake",
    "Message",
    "Published",
    "Received",
    "Refused",
    "Returned",
    "Topology",
]
