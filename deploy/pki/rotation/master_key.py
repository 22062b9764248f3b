"""Master: the keys that devices' credentials are made with, in the shuffler's store, turned over by its operator."""

from __future__ import annotations

import asyncio

from hubbub.deploy.operator.client import manage_credentials
from hubbub.deploy.pki.rotation.key import ORDER, Key, Place, Wanted, of_operator
from hubbub.protos.messages import CredentialStatus, KeyState, Step


class Master:
    """Master keys: any number of retired ones, one active, at most one pending."""

    name = "master"

    def held(self, place: Place) -> list[Key]:
        """Ask the shuffler; other parties than its operator see none."""
        return [] if place.operator is None else keys_of(_ask(place, Step.STATUS))

    def add(self, place: Place, _wanted: Wanted) -> str:
        """Have the shuffler make a pending key, unless it has one."""
        _ask(place, Step.PREPARE)
        return "it checks already, and makes credentials once it is activated: `hubbub keys activate master`"

    def activate(self, place: Place) -> str:
        """Have the shuffler make credentials with the pending key."""
        if not any(key.state is KeyState.PENDING for key in keys_of(_ask(place, Step.STATUS))):
            return "no master key is pending, so nothing changed; `hubbub keys add master` makes one"
        _ask(place, Step.ACTIVATE)
        return "the one before still checks; `hubbub keys remove master` destroys it, and no device is refused for good"

    def remove(self, place: Place) -> str:
        """Have the shuffler destroy its retired keys."""
        _ask(place, Step.FORGET)
        return "devices whose credentials were of a removed key redeem their tickets again, by themselves"


def keys_of(status: CredentialStatus) -> list[Key]:
    """Return the master keys as they are shown."""
    keys = [Key("master", str(key.generation), key.state, key.fingerprint, key.since) for key in status.keys]
    return sorted(keys, key=lambda key: ORDER[key.state])


def _ask(place: Place, step: Step) -> CredentialStatus:
    operator = of_operator(place, "the shuffler's master key")
    return asyncio.run(manage_credentials(operator, step, []))
