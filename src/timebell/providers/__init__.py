"""The services that carry a channel, each behind the contract of `timebell.notify.provider`."""
