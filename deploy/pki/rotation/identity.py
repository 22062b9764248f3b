"""Rotates the Ed25519 key with which a party signs. A signed succession states from when on another one follows it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from hubbub.deploy.files import save
from hubbub.deploy.pki.rotation.key import ORDER, Key, KeyLocation, KeyRequest
from hubbub.protos.errors import HubbubError, SignatureError
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.identity.keys import Identity, Role, load_public
from hubbub.protos.identity.successions import WITNESSES, Succession
from hubbub.protos.messages import KeyState
from hubbub.protos.task.schedule import DAY, at, key_validity, prepared_from
from hubbub.protos.task.signed_task import SignedTask
from hubbub.service.runtime.task_files import files_in

LEAD_SECONDS = 2 * DAY
"""Default time until a succession begins; the rounds of a day are prepared before."""


@dataclass(frozen=True)
class _IdentityChange:
    """An identity of the party: since when it signs (0 for the first), and its private key's file, if it is here."""

    since: int
    public: bytes
    file: Path | None


class IdentityRotation:
    """A party's identities: retired ones that sign what is left of earlier rounds, one active, at most one pending."""

    name = "identity"

    def held(self, location: KeyLocation) -> list[Key]:
        """Read the private keys, where this machine has them, and the successions."""
        if location.identity is None or not location.identity.exists():
            return []
        chain = _chain(location)
        ends = [step.since for step in chain[1:]]
        keys = []
        for step, state, until in zip(chain, _states(chain, time.time()), [*ends, None], strict=True):
            if state is KeyState.RETIRED and step.file is None:
                continue  # it was removed
            where = step.file.stem if step.file is not None else "not on this machine"
            keys.append(Key(self.name, where, state, fingerprint(step.public), step.since or None, until))
        return sorted(keys, key=lambda key: ORDER[key.state])

    def add(self, location: KeyLocation, request: KeyRequest) -> str:
        """Make an identity, and a succession that it and the one before have signed; the witness is still to sign."""
        if location.party is Role.HOP:
            raise HubbubError(
                "tasks name a hop's identity and none follows it; make a new one and name it in new tasks"
            )
        path = _identity_of(location)
        drafts = sorted(path.parent.glob("succession-*.json"))
        if drafts:
            return _next(Succession.decode(drafts[0].read_bytes()), drafts[0])
        last = _chain(location)[-1]
        if last.file is None:
            raise HubbubError("the private key of the last identity is not on this machine; run this where it is")
        begins = int(time.time()) + LEAD_SECONDS if request.begins is None else request.begins
        if begins <= last.since:
            raise HubbubError(f"the identity before it signs from {at(last.since)} on; let the next one begin later")
        made, witness = Identity.generate(), _witness(location, request, begins)
        succession = Succession(location.party, last.public, made.public, witness, begins)
        short = made.public.hex()[:8]
        made.save(path.with_name(f"{path.stem}-{short}.pem"))
        made.save_public(path.with_name(f"{path.stem}-{short}.pub.pem"))
        signed = succession.signed_by(Identity.load(last.file)).signed_by(made)
        draft = path.with_name(f"succession-{location.party.value}-{short}.json")
        save(draft, signed.encode())
        return _next(signed, draft)

    def activate(self, location: KeyLocation) -> str:
        """Put the succession among those that the party goes by, once all have signed; it begins at its time."""
        path = _identity_of(location)
        drafts = sorted(path.parent.glob("succession-*.json"))
        if not drafts:
            return "no succession waits here; `hubbub keys add identity` makes one"
        succession = Succession.decode(drafts[0].read_bytes())
        succession.check()
        folder = next((each for each in location.successions if each.is_dir()), None)
        if folder is None:
            raise HubbubError(
                'the settings name no folder of successions; add one, such as successions = ["successions"]'
            )
        drafts[0].replace(folder / drafts[0].name)
        return (
            f"put {folder / drafts[0].name} into the `successions` of every other party too, and start the services "
            f"again before {at(succession.begins)}, when it begins"
        )

    def remove(self, location: KeyLocation) -> str:
        """Destroy the private keys of retired identities, once no round is left that they sign."""
        path, chain = _identity_of(location), _chain(location)
        states = _states(chain, time.time())
        active = states.index(KeyState.ACTIVE)
        retired = [step.file for step in chain[:active] if step.file is not None]
        if not retired:
            return "no retired identity is here, so nothing changed"
        _check_over(location, chain[active].since)
        for file in retired:
            successor = chain[active].file
            if file == path and successor is not None:
                # The settings name this file: the active identity takes its place, in one step.
                successor.replace(path)
            else:
                file.unlink()
        return "start the service again"


def _identity_of(location: KeyLocation) -> Path:
    if location.identity is None:
        raise HubbubError("the settings name no identity; add it")
    return location.identity


def _chain(location: KeyLocation) -> list[_IdentityChange]:
    """Return the party's identities, oldest first, by the successions that it goes by."""
    path = _identity_of(location)
    own, found = Identity.load(path).public, _successions(location)
    ours = sorted((each for each in found if each.role is location.party), key=lambda each: each.begins)
    files = {own: path} | {key: file for file in path.parent.glob(f"{path.stem}-*.pem") if (key := _public(file))}
    before = {each.new: each.old for each in ours}
    first = own
    while first in before:
        first = before.pop(first)
    return [
        _IdentityChange(0, first, files.get(first)),
        *(_IdentityChange(each.begins, each.new, files.get(each.new)) for each in ours),
    ]


def _states(chain: list[_IdentityChange], now: float) -> list[KeyState]:
    """Return the state of each identity of a chain; exactly one is active, since the first has signed from 0 on."""
    begun = sum(step.since <= now for step in chain)
    retired, pending = [KeyState.RETIRED] * (begun - 1), [KeyState.PENDING] * (len(chain) - begun)
    return [*retired, KeyState.ACTIVE, *pending]


def _successions(location: KeyLocation) -> list[Succession]:
    from hubbub.service.runtime.succession_files import load_successions

    return load_successions(location.successions)


def _public(file: Path) -> bytes | None:
    try:
        return Identity.load(file).public
    except SignatureError:  # a public key, or something else
        return None


def _witness(location: KeyLocation, request: KeyRequest, begins: int) -> bytes:
    """Return the identity of the witness at that time: the public key that is given, or what follows it."""
    role = WITNESSES[location.party]
    path = request.witness or location.operator_key
    if path is None:
        raise HubbubError(f"name the {role.value}'s public key with --witness; it signs the succession too")
    public = load_public(path)
    follow = sorted((each for each in _successions(location) if each.role is role), key=lambda each: each.begins)
    for each in follow:
        if each.old == public and each.begins <= begins:
            public = each.new
    return public


def _next(succession: Succession, draft: Path) -> str:
    missing = succession.missing
    if missing:
        return (
            f"have {' and '.join(missing)} sign {draft} (`hubbub sign {draft.name} --key …`), after comparing the "
            f"fingerprint {fingerprint(succession.new)} by another way; then `hubbub keys activate identity`"
        )
    return f"{draft} is signed by all; `hubbub keys activate identity` puts it among the successions"


def _check_over(location: KeyLocation, began: int) -> None:
    """Return only if the time of every round is over that the identities before `began` sign.

    Raises:
        HubbubError: naming the task and when it is.
    """
    now = time.time()
    for path in files_in(location.tasks):
        task = SignedTask.decode(path.read_bytes()).task
        earlier = [number for number in range(task.schedule.rounds) if prepared_from(task.schedule, number) < began]
        until = key_validity(task.schedule, earlier[-1]).not_after if earlier else 0
        if now <= until:
            raise HubbubError(
                f"rounds of {task.name} that the retired identity signs can last until {at(until)}; remove it then, or "
                "take that task out of the settings once its rounds are over"
            )
