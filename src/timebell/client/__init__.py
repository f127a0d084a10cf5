"""A client for Timebell's HTTP interface: typed, async, and safe to repeat what got no answer."""

from timebell.client.calling import NoAnswer, ReadAnew, Refused
from timebell.client.client import Client
from timebell.client.people import Person

__all__ = ["Client", "NoAnswer", "Person", "ReadAnew", "Refused"]
