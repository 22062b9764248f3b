"""Rotates the Ed25519 key with which a party signs. A signed succession states from when on a new key replaces it."""

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
    """Rotates a party's identities: one is active, at most one is pending, and retired ones sign for earlier rounds."""

    name = "identity"

    def held(self, location: KeyLocation) -> list[Key]:
        """Read the successions, and the private keys that are on this machine."""
        if location.identity is None or not location.identity.exists():
            return []
        chain = _chain(location)
        ends = [step.since for step in chain[1:]]
        keys = [_draft(each) for each in _drafts(location)]
        for step, state, until in zip(chain, _states(chain, time.time()), [*ends, None], strict=True):
            if state is KeyState.RETIRED and step.file is None:
                continue  # it was removed
            where = step.file.stem if step.file is not None else "not on this machine"
            keys.append(Key(self.name, where, state, fingerprint(step.public), step.since or None, until))
        return sorted(keys, key=lambda key: ORDER[key.state])

    def add(self, location: KeyLocation, request: KeyRequest) -> str:
        """Make an identity, and a succession signed by it and by the previous identity; the witness signs it later.

        Raises:
            HubbubError: if the party is a hop, the last private key is not here, or another time than the pending
                succession's is given.
        """
        if location.party is Role.HOP:
            raise HubbubError(
                "a hop's identity has no successor; make a new one with `hubbub identity`, and name it in new tasks"
            )
        path = _identity_of(location)
        drafts = _drafts(location)
        if drafts:
            pending = Succession.decode(drafts[0].read_bytes())
            if request.begins not in (None, pending.begins):
                raise HubbubError(
                    f"a succession that begins {at(pending.begins)} is pending; remove {drafts[0]} first to set "
                    "another time"
                )
            return _next(pending, drafts[0])
        last = _chain(location)[-1]
        if last.file is None:
            raise HubbubError(
                "the private key of the last identity is not on this machine; run this on the one that has it"
            )
        begins = int(time.time()) + LEAD_SECONDS if request.begins is None else request.begins
        if begins <= last.since:
            raise HubbubError(f"the previous identity signs from {at(last.since)} on; let the next one begin later")
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
        """Move a fully signed succession into the party's folder of successions; it takes effect at its time.

        Raises:
            HubbubError: if a signature is missing, or the settings name no folder.
        """
        drafts = _drafts(location)
        if not drafts:
            return "nothing changed: no succession is pending; make one with `hubbub keys add identity`"
        succession = Succession.decode(drafts[0].read_bytes())
        succession.check()
        folder = next((each for each in location.successions if each.is_dir()), None)
        if folder is None:
            raise HubbubError(
                'the settings name no folder of successions; add one, such as successions = ["successions"]'
            )
        drafts[0].replace(folder / drafts[0].name)
        standby = ", and give a standby the new private key as well" if location.party is Role.SHUFFLER else ""
        return (
            f"copy {folder / drafts[0].name} into the `successions` of every other party, of front ends and of a "
            f"standby too{standby}; restart the services before it takes effect, {at(succession.begins)}"
        )

    def remove(self, location: KeyLocation, forced: bool = False) -> str:  # noqa: ARG002 - the authority's
        """Destroy the private keys of retired identities.

        Raises:
            HubbubError: if a round remains that they sign.
        """
        path, chain = _identity_of(location), _chain(location)
        states = _states(chain, time.time())
        active = states.index(KeyState.ACTIVE)
        retired = [step.file for step in chain[:active] if step.file is not None]
        if not retired:
            return "nothing changed: no private key of a retired identity is on this machine"
        _check_over(location, chain[active].since)
        for file in retired:
            successor = chain[active].file
            if file == path and successor is not None:
                # The settings name this file: the active identity takes its place, in one step.
                successor.replace(path)
            else:
                file.unlink()
        return "restart the service"


def _identity_of(location: KeyLocation) -> Path:
    if location.frontend:
        raise HubbubError("a front end has no identity; give the settings file of the shuffler that it works for")
    if location.identity is None:
        raise HubbubError("the settings name no identity; add `identity`")
    return location.identity


def _drafts(location: KeyLocation) -> list[Path]:
    """Return the files of successions that are not activated yet."""
    return sorted(_identity_of(location).parent.glob("succession-*.json"))


def _draft(path: Path) -> Key:
    """Return the shown form of the identity of a succession that is not activated yet."""
    found = Succession.decode(path.read_bytes())
    return Key(IdentityRotation.name, path.stem, KeyState.PENDING, fingerprint(found.new), found.begins)


def _chain(location: KeyLocation) -> list[_IdentityChange]:
    """Return the party's identities, oldest first, by the successions in its settings."""
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
    """Return the identity of the witness at that time: the given public key, or its latest successor by then."""
    role = WITNESSES[location.party]
    path = request.witness or location.operator_key
    if path is None:
        raise HubbubError(f"the {role.value} signs the succession too; name its public key with --witness")
    public = load_public(path)
    follow = sorted((each for each in _successions(location) if each.role is role), key=lambda each: each.begins)
    for each in follow:
        if each.old == public and each.begins <= begins:
            public = each.new
    return public


def _next(succession: Succession, draft: Path) -> str:
    missing = succession.missing
    begins = f"the new identity signs from {at(succession.begins)} on"
    new = fingerprint(succession.new)
    if missing:
        return (
            f"{begins}; have {' and '.join(missing)} sign {draft} (`hubbub sign {draft.name} --key …`), after "
            f"comparing the fingerprint {new} over another channel; then run `hubbub keys activate identity`"
        )
    return f"{begins}; {draft} has all signatures; activate it with `hubbub keys activate identity`"


def _check_over(location: KeyLocation, began: int) -> None:
    """Check that every round is over whose records an identity signs that was replaced before `began`.

    Raises:
        HubbubError: naming the task, and the end of its last such round.
    """
    now = time.time()
    for path in files_in(location.tasks):
        task = SignedTask.decode(path.read_bytes()).task
        earlier = [number for number in range(task.schedule.rounds) if prepared_from(task.schedule, number) < began]
        until = key_validity(task.schedule, earlier[-1]).not_after if earlier else 0
        if now <= until:
            raise HubbubError(
                f"the retired identity signs rounds of {task.name} that can last until {at(until)}; remove the "
                "identity then, or remove the task from the settings once its rounds are over"
            )
