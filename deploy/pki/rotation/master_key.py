"""Rotates the master keys of devices' credentials in the shuffler's store, for the operator."""

from __future__ import annotations

import asyncio

from hubbub.deploy.operator.client import manage_credentials
from hubbub.deploy.pki.rotation.key import ORDER, Key, KeyLocation, KeyRequest, of_operator
from hubbub.protos.messages import CredentialAction, CredentialStatus, KeyState


class MasterKeyRotation:
    """Rotates master keys: one is active, at most one is pending, and any number are retired."""

    name = "master"

    def held(self, location: KeyLocation) -> list[Key]:
        """Ask the shuffler for its master keys; parties other than the operator get none."""
        return [] if location.operator is None else keys_of(_ask(location, CredentialAction.STATUS))

    def add(self, location: KeyLocation, _request: KeyRequest) -> str:
        """Have the shuffler make a pending key, unless it has one."""
        _ask(location, CredentialAction.PREPARE)
        return "the shuffler already checks with it; `hubbub keys activate master` lets it make credentials"

    def activate(self, location: KeyLocation) -> str:
        """Have the shuffler make credentials with the pending key."""
        if not any(key.state is KeyState.PENDING for key in keys_of(_ask(location, CredentialAction.STATUS))):
            return "nothing changed: no master key is pending; make one with `hubbub keys add master`"
        _ask(location, CredentialAction.ACTIVATE)
        return (
            "the previous key still checks credentials; destroy it with `hubbub keys remove master`, after which its "
            "devices redeem their tickets again"
        )

    def remove(self, location: KeyLocation, forced: bool = False) -> str:  # noqa: ARG002 - the authority's
        """Have the shuffler destroy its retired keys."""
        if not any(key.state is KeyState.RETIRED for key in keys_of(_ask(location, CredentialAction.STATUS))):
            return "nothing changed: no master key is retired"
        _ask(location, CredentialAction.FORGET)
        return "devices with credentials of a removed key redeem their tickets again automatically"


def keys_of(status: CredentialStatus) -> list[Key]:
    """Return the shown form of the master keys, the active one first."""
    keys = [Key("master", str(key.generation), key.state, key.fingerprint, key.since) for key in status.keys]
    return sorted(keys, key=lambda key: ORDER[key.state])


def _ask(location: KeyLocation, step: CredentialAction) -> CredentialStatus:
    operator = of_operator(location, "the shuffler's master key")
    return asyncio.run(manage_credentials(operator, step, []))
