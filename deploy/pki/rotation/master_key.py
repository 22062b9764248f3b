"""Rotates the master keys of devices' credentials in the shuffler's store, for its operator."""

from __future__ import annotations

import asyncio

from hubbub.deploy.operator.client import manage_credentials
from hubbub.deploy.pki.rotation.key import ORDER, Key, KeyLocation, KeyRequest, of_operator
from hubbub.protos.messages import CredentialAction, CredentialStatus, KeyState


class MasterKeyRotation:
    """Master keys: any number of retired ones, one active, at most one pending."""

    name = "master"

    def held(self, location: KeyLocation) -> list[Key]:
        """Ask the shuffler; other parties than its operator see none."""
        return [] if location.operator is None else keys_of(_ask(location, CredentialAction.STATUS))

    def add(self, location: KeyLocation, _request: KeyRequest) -> str:
        """Have the shuffler make a pending key, unless it has one."""
        _ask(location, CredentialAction.PREPARE)
        return "it checks already, and makes credentials once it is activated: `hubbub keys activate master`"

    def activate(self, location: KeyLocation) -> str:
        """Have the shuffler make credentials with the pending key."""
        if not any(key.state is KeyState.PENDING for key in keys_of(_ask(location, CredentialAction.STATUS))):
            return "no master key is pending, so nothing changed; `hubbub keys add master` makes one"
        _ask(location, CredentialAction.ACTIVATE)
        return "the one before still checks; `hubbub keys remove master` destroys it, and no device is refused for good"

    def remove(self, location: KeyLocation) -> str:
        """Have the shuffler destroy its retired keys."""
        _ask(location, CredentialAction.FORGET)
        return "devices whose credentials were of a removed key redeem their tickets again, by themselves"


def keys_of(status: CredentialStatus) -> list[Key]:
    """Return the master keys as they are shown."""
    keys = [Key("master", str(key.generation), key.state, key.fingerprint, key.since) for key in status.keys]
    return sorted(keys, key=lambda key: ORDER[key.state])


def _ask(location: KeyLocation, step: CredentialAction) -> CredentialStatus:
    operator = of_operator(location, "the shuffler's master key")
    return asyncio.run(manage_credentials(operator, step, []))
