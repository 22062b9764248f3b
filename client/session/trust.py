"""Checks that a task may be answered: signed by those whose keys are pinned, logged if it must be, within its cap."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import Any

from cryptography import x509

from hubbub.accountant.mechanisms import one_round
from hubbub.client.errors import AuthorityError
from hubbub.protos.errors import TaskError, UsageError
from hubbub.protos.identity.documents import IDENTITY_BYTES
from hubbub.protos.identity.keys import parse_public
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.protos.transport.addresses import HostError, checked_relay, checked_target
from hubbub.protos.transport.proxies import ProxyError, checked_proxy


def trusted_task(document: bytes, operator_key: bytes, shuffler_key: bytes, log_proof: bytes | None = None) -> Task:
    """Return the task in a signed task file, checked against both parties' public keys (PEM, or 32 raw bytes).

    If the task demands a transparency log, `log_proof` must show that this very file is in it.

    Raises:
        UsageError: if one of them is not bytes.
        SignatureError: if a key cannot be read, or did not sign the task.
        NotLogged: if the task is not shown to be in the log that it demands.
        TaskError: if the task is not valid, or its queries' epsilon_local add up to more than its cap.
    """
    operator = public_key(checked_bytes(operator_key, "operator_key"), "the operator's key")
    shuffler = public_key(checked_bytes(shuffler_key, "shuffler_key"), "the shuffler's key")
    task = SignedTask.decode(checked_bytes(document, "task")).check(operator, shuffler)
    # A proof beside a task that demands no log is left alone: an application may hand on what it was given.
    proof = None if log_proof is None else checked_bytes(log_proof, "log_proof")
    if task.log is not None:
        task.log.check_task(task.name, document, proof)
    check_epsilon_local(task)
    return task


def public_key(key: bytes, name: str) -> bytes:
    """Return a raw Ed25519 public key (32 bytes), given as these bytes or as PEM; `name` is used in errors.

    Raises:
        SignatureError: if it is neither.
    """
    return key if len(key) == IDENTITY_BYTES else parse_public(key, name)


def check_epsilon_local(task: Task) -> None:
    """Return only if the queries' epsilon_local, each rounded up, sum to at most the task's cap.

    Raises:
        TaskError: naming the sum and the cap.
    """
    # Added exactly: a sum of floats may be rounded down, to just below a cap that is exceeded.
    total = sum(Fraction(one_round(query.mechanism).epsilon_local) for query in task.queries)
    cap = task.privacy.epsilon_local
    if total > Fraction(cap):
        raise TaskError(
            f"the queries of task {task.name} add up to epsilon_local {float(total):.6g}, above its cap of {cap:g}; "
            "nothing is sent for it, ask the operator to plan it again"
        )


def trusted_authority(authority: Path | bytes) -> bytes:
    """Return the certificates (PEM) of the authority whose TLS certificates are trusted, given as a file or as bytes.

    Raises:
        UsageError: if it is neither, such as a text.
        AuthorityError: if the file does not exist, or contains no certificate; the message names it.
    """
    if isinstance(authority, os.PathLike):
        file = checked_path(authority, "authority")
        name = f"authority {file}"
        try:
            pem = file.read_bytes()
        except OSError as error:
            raise AuthorityError(f"{name}: {error.strerror}; give the authority's certificate (PEM)") from error
    else:
        name, pem = "authority", checked_bytes(authority, "authority", FILE_OR_BYTES)
    # Parsed only to check it: gRPC would refuse it later without naming the file.
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise AuthorityError(
            f"{name} has no readable certificate; give the certificate (PEM), not the key, of the authority that "
            "signed the shuffler's"
        ) from error
    return pem


def certificate_shown(task: Task, certificate: Any, key: Any) -> tuple[Path | None, Path | None]:
    """Return the files of the certificate that a device shows: its own if the task admits by certificates, else none.

    In other tasks it would only reveal which device it is.

    Raises:
        UsageError: if the task admits by certificates, and the certificate or its key is missing; or if one of them is
            no Path, whatever the task.
    """
    files = [
        None if file is None else checked_path(file, name)
        for name, file in (("certificate", certificate), ("key", key))
    ]
    if task.admission.mode is not Mode.MTLS:
        return None, None
    if None in files:
        raise UsageError(
            f"task {task.name} admits devices by certificate; make a Device for each, with its `certificate` and "
            "`key`, PEM files"
        )
    return files[0], files[1]


FILE_OR_BYTES = "a Path to name a file, or bytes for its content"
"""What to give where a file or its content is taken. A text could be either, so it is neither."""


def checked_bytes(value: Any, name: str, wanted: str = "bytes, such as Path(…).read_bytes()") -> bytes:
    """Return a value that is bytes.

    Raises:
        UsageError: if it is of another type; `wanted` names what to give.
    """
    if not isinstance(value, bytes):
        raise UsageError(f"{name} is of type {type(value).__name__}; give {wanted}")
    return value


def checked_shuffler(address: object) -> str:
    """Return the shuffler's address, host:port or https://host:port, with its host checked.

    Raises:
        UsageError: if it is not such an address.
    """
    if not isinstance(address, str):
        raise UsageError(f"shuffler is of type {type(address).__name__}; give host:port or https://host:port, as text")
    try:
        return checked_target(address)
    except HostError as error:
        raise UsageError(f"shuffler: {error}") from error


def named_relay(relay: object, task: Task | None = None) -> str | None:
    """Return the URL of the relay through which all calls go; None for none.

    Raises:
        UsageError: if it is no such URL, or the task admits by certificates, which do not go through a relay.
    """
    if relay is None:
        return None
    if not isinstance(relay, str):
        raise UsageError(f"relay is of type {type(relay).__name__}; give https://host/path, as text, or None")
    if task is not None and task.admission.mode is Mode.MTLS:
        raise UsageError(
            f"task {task.name} admits devices by certificate, which a relay cannot pass on; make the device without a "
            "relay, or ask the operator for a task that admits enrolled devices"
        )
    try:
        return checked_relay(relay)
    except HostError as error:
        raise UsageError(str(error)) from error


def named_proxy(proxy: object) -> str | None:
    """Return the proxy through which the shuffler is called, http://host:port; None for none.

    Raises:
        UsageError: if it is not such an address.
    """
    try:
        return None if proxy is None else checked_proxy(proxy)
    except ProxyError as error:
        raise UsageError(str(error)) from error


def checked_path(path: Any, name: str) -> Path:
    """Return a path.

    Raises:
        UsageError: if it is something else, such as a text, or no file can have that name.
    """
    if not isinstance(path, os.PathLike):
        raise UsageError(f"{name} is of type {type(path).__name__}; give a Path")
    if "\0" in str(path):
        raise UsageError(f"{name} is {str(path)!r:.80}, and no file's name may have a NUL character; name another file")
    return Path(path)
