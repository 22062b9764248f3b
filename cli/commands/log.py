"""Keeps, proves, checks and witnesses a transparency log: `hubbub log init|add|serve|prove|check|witness|show`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json, progress_console
from hubbub.cli.terminal.progress import working

if TYPE_CHECKING:
    from hubbub.deploy.transparency_log.witness import SplitView
    from hubbub.protos.identity.keys import Identity
    from hubbub.protos.transparency_log.checkpoint import TrustedLog
    from hubbub.protos.transparency_log.proofs import AnyProof
    from hubbub.protos.transparency_log.signed_notes import NoteKey

app = typer.Typer(
    no_args_is_help=True,
    help="""Keep a transparency log of tasks, successions and certificates; prove, check and witness it.

    A log is a folder of files that only grows. Its key signs a checkpoint: how many entries there are, and one hash
    over all of them. Witnesses sign checkpoints of a log that only grew. So everybody sees the same tasks and
    certificates, or somebody finds out.

    Example: hubbub log show deployment/operator/log
    """,
)

Folder = Annotated[Path, typer.Argument(metavar="LOG", help="The log's folder.")]
Place = Annotated[str, typer.Argument(metavar="LOG", help="The log's folder, or its address, https://…")]
Authority = Annotated[
    Path | None,
    typer.Option(
        "--authority", metavar="PEM", help="Authority of the certificate at an address. [default: the system's]"
    ),
]
LogKey = Annotated[
    str, typer.Option("--log-key", metavar="KEY", help="The log's key, as `hubbub log init` printed it.")
]
Witnesses = Annotated[
    list[str] | None,
    typer.Option("--witness", metavar="KEY", help="A witness's key, as `hubbub log witness` printed it; repeatable."),
]
PrivateKey = Annotated[Path, typer.Option("--key", metavar="PEM", help="Private key that signs.")]


@app.command("init")
def init(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A new folder for the log.")],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The log's name for good: its address without https://.")
    ],
    key: PrivateKey,
    as_json: Json = False,
) -> None:
    """Make a log without entries, and print its key.

    Use a private key that signs nothing else; `hubbub identity` makes one. Hand the printed key to everybody who shall
    check the log: it has the log's name, and its public key.

    Example: hubbub log init log --name stats.example/log --key log.pem
    """
    with failures(as_json):
        from hubbub.deploy.transparency_log.append import make_log

        made = make_log(log, name, _signer(key))
        if as_json:
            print_json({"log": str(log), "name": made.name, "key": made.encode()})
            return
        console().print(f"made log {made.name} in {log}; its key:\n{made.encode()}", markup=False, soft_wrap=True)


@app.command("add")
def add(
    log: Folder,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Signed tasks, successions, certificates; or, with --witness, signed checkpoints."
        ),
    ],
    key: Annotated[
        Path | None, typer.Option("--key", metavar="PEM", help="The log's private key; only documents need it.")
    ] = None,
    witness: Witnesses = None,
    as_json: Json = False,
) -> None:
    """Add documents to a log, and sign its new checkpoint; or add signatures of witnesses.

    All documents are added, or none. One that is in the log already is not added again, so a command that was killed
    may be repeated. The new checkpoint has no signature of a witness until one has looked at the log.

    With --witness, each file is a checkpoint that a witness has signed. Its signature goes into the log's own, if that
    is still the same checkpoint.

    Examples: hubbub log add log colors.json --key log.pem; hubbub log add log witnessed --witness
    w.example+1f5bd0e3+BNlF…
    """
    with failures(as_json):
        from hubbub.protos.errors import UsageError

        if (key is None) is not bool(witness):
            raise UsageError(
                "--key and --witness are for two uses; give --key to add documents, or --witness to add signatures"
            )
        if key is not None:
            _add_documents(log, files, key, as_json)
        else:
            _add_signatures(log, files, witness or [], as_json)


def _add_documents(log: Path, files: list[Path], key: Path, as_json: bool) -> None:
    from hubbub.deploy.files import naming
    from hubbub.deploy.transparency_log.append import add_documents
    from hubbub.protos.transparency_log.entries import LogEntry

    documents, entries = [path.read_bytes() for path in files], []
    for path, document in zip(files, documents, strict=True):
        with naming(path):
            entries.append(LogEntry.read(document))
    added = add_documents(log, _signer(key), documents)
    rows = [
        {"file": str(path), "index": index, "what": entry.words}
        for path, index, entry in zip(files, added.indices, entries, strict=True)
    ]
    if as_json:
        print_json({"size": added.signed.size, "new": added.new, "entries": rows})
        return
    for row in rows:
        console().print(f"entry {row['index']}: {row['what']}", markup=False, soft_wrap=True)
    console().print(f"{added.new} added; the log has {added.signed.size} entries", markup=False, soft_wrap=True)


def _add_signatures(log: Path, files: list[Path], witnesses: list[str], as_json: bool) -> None:
    from hubbub.deploy.files import naming
    from hubbub.deploy.transparency_log.append import add_signatures

    keys = _witness_keys(witnesses)
    for path in files:
        note = path.read_bytes()
        with naming(path):
            signed = add_signatures(log, note, keys)
    names = list({each.public: each.name for each in keys if signed.signature_of(each) is not None}.values())
    if as_json:
        print_json({"size": signed.size, "witnesses": names})
        return
    line = f"the checkpoint of {signed.size} entries is signed by {', '.join(names)}"
    console().print(line, markup=False, soft_wrap=True)


@app.command("serve")
def serve(
    log: Folder,
    certificate: Annotated[
        Path, typer.Option("--certificate", metavar="PEM", help="TLS certificate, from `hubbub certificate` or others.")
    ],
    private_key: Annotated[Path, typer.Option("--private-key", metavar="PEM", help="Its private key.")],
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen at; 0 for any free.")] = 8740,
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    as_json: Json = False,
) -> None:
    """Serve a log's files over HTTPS, until Ctrl-C.

    Any web server that serves files from a folder does the same. Nothing is logged.

    Example: hubbub log serve log --certificate tls/shuffler.pem --private-key tls/shuffler.key
    """
    with failures(as_json):
        from hubbub.deploy.transparency_log.serve import LogServer, serve_log, tls_context
        from hubbub.protos.transparency_log.tiles import files_in, read_checkpoint

        name = read_checkpoint(files_in(log)).checkpoint.origin

        def ready(address: str) -> None:
            if as_json:
                print_json({"address": address, "log": name})
            else:
                text = f"log {name} is served at {address}\nCtrl-C ends it"
                console().print(text, markup=False, soft_wrap=True)

        serve_log(LogServer(log, (host, port), tls_context(certificate, private_key)), ready)


@app.command("prove")
def prove(
    log: Place,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File that the proof is written to.")],
    document: Annotated[
        Path | None, typer.Argument(metavar="[DOCUMENT]", help="Prove that this document is in the log.")
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(
            "--since", metavar="CHECKPOINT", help="Prove that the log only grew since this earlier checkpoint of it."
        ),
    ] = None,
    authority: Authority = None,
    as_json: Json = False,
) -> None:
    """Prove that a document is in a log, or that the log only grew.

    The proof has the log's newest checkpoint with all its signatures, so that it is checked without the log. Prove
    after the witnesses have signed: the command warns if no witness has, or fewer than the task asks for.

    Examples: hubbub log prove log colors.json --out colors.tlog-proof; hubbub log prove log --since checkpoint.old
    --out grown.proof
    """
    with failures(as_json):
        from hubbub.cli.tables.log import lacking_witnesses
        from hubbub.deploy.files import save
        from hubbub.protos.errors import UsageError

        if (document is None) is (since is None):
            raise UsageError(
                "one thing is proven at a time; name a DOCUMENT that is in the log, or an earlier checkpoint with "
                "--since"
            )
        content = (document or since or Path()).read_bytes()
        proof = _proof(log, content, document, since, authority)
        save(out, proof.encode())
        warning = lacking_witnesses(proof, content)
        if as_json:
            print_json({"file": str(out), "warning": warning})
            return
        if warning is not None:
            progress_console().print(warning, markup=False, soft_wrap=True)
        console().print(f"written to {out}", markup=False, soft_wrap=True)


def _proof(log: str, content: bytes, document: Path | None, since: Path | None, authority: Path | None) -> AnyProof:
    from hubbub.deploy.files import naming
    from hubbub.deploy.transparency_log.fetch import opened_log
    from hubbub.protos.transparency_log.proving import prove_consistency, prove_logged

    with opened_log(log, authority) as files, naming(document or since or Path()):
        return prove_logged(files, content) if since is None else prove_consistency(files, content)


@app.command("check")
def check(
    what: Annotated[
        str, typer.Argument(metavar="PROOF|LOG", help="A proof; or a whole log, its folder or its address, https://…")
    ],
    log_key: LogKey,
    document: Annotated[
        Path | None, typer.Argument(metavar="[DOCUMENT]", help="The document that the proof is about.")
    ] = None,
    witness: Witnesses = None,
    witnesses: Annotated[
        int | None,
        typer.Option("--witnesses", min=0, help="How many of them must have signed. [default: all that are given]"),
    ] = None,
    authority: Authority = None,
    as_json: Json = False,
) -> None:
    """Check a proof, or every file of a whole log, without calling anybody.

    Of a log at an address every file is fetched. A whole log is checked for two certificates of one round, too.

    The exit status is 0 if everything is correct, and 1 if not. Of a file of two views it is always
    1: the words say what the file proves.

    Example: hubbub log check colors.tlog-proof colors.json --log-key stats.example/log+5b2c7f10+AQ3h… --witness
    w.example+1f5bd0e3+BNlF…
    """
    with failures(as_json):
        from hubbub.cli.tables.log import check_document, check_whole
        from hubbub.protos.errors import UsageError

        trusted = _trusted(log_key, witness or [], witnesses)
        whole = "://" in what or Path(what).is_dir()
        if whole and document is not None:
            raise UsageError(f"{what} is a whole log, and a document is checked with a proof; name the proof's file")
        if not whole:
            lines, found = check_document(Path(what), document, trusted)
        else:
            with working("checking", as_json) as now:
                lines, found = check_whole(what, authority, trusted, lambda index: now(f"checking entry {index}"))
        if as_json:
            print_json(found)
            return
        for line in lines:
            console().print(line, markup=False, soft_wrap=True)


@app.command("witness")
def witness_(
    log: Place,
    log_key: LogKey,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The witness's own name, such as w.example.")],
    key: PrivateKey,
    state: Annotated[
        Path, typer.Option("--state", metavar="FILE", help="File of what this witness signed last of this log.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Also write the signed checkpoint to this file.")
    ] = None,
    first: Annotated[
        bool, typer.Option("--first", help="This is the first look at the log: there is no state.")
    ] = False,
    authority: Authority = None,
    as_json: Json = False,
) -> None:
    """Sign a log's newest checkpoint, if the log only grew since the last look.

    Run it regularly, for a log that somebody else keeps, with a key that signs nothing else. Give the printed key to
    everybody who shall check the log, and the signed checkpoint to whoever keeps the log.

    If the log shows another view than before, nothing is signed. A file beside the state then has both checkpoints,
    which the log has signed; keep it, and publish it. `hubbub log check` reads it.

    Example: hubbub log witness https://stats.example/log --log-key stats.example/log+5b2c7f10+AQ3h… --name w.example
    --key witness.pem --state stats.state --out witnessed
    """
    with failures(as_json):
        from hubbub.deploy.files import save
        from hubbub.deploy.transparency_log.append import LogDisk
        from hubbub.deploy.transparency_log.fetch import opened_log
        from hubbub.deploy.transparency_log.witness import SplitView, Witness
        from hubbub.protos.transparency_log.signed_notes import NoteKey, NoteRole

        who = Witness(NoteKey.decode(log_key, NoteRole.LOG), name, _signer(key), state, LogDisk())
        own = who.key.encode()
        try:
            with opened_log(log, authority) as files:
                signed, before = who.look(files, int(time.time()), first)
        except SplitView as error:
            _keep_evidence(state, error)
            raise
        if out is not None:
            save(out, signed.encode())
        if as_json:
            print_json({"size": signed.size, "before": before, "key": own, "state": str(state)})
            return
        grew = "" if before is None else f", {signed.size - before} more than at the last look"
        console().print(f"signed: {signed.size} entries{grew}", markup=False, soft_wrap=True)
        console().print(f"the witness's key:\n{own}", markup=False, soft_wrap=True)


def _keep_evidence(state: Path, error: SplitView) -> None:
    from hubbub.deploy.files import save
    from hubbub.deploy.transparency_log.witness import evidence_path

    path = evidence_path(state, error.proof)
    save(path, error.proof.encode())
    progress_console().print(f"both checkpoints are in {path}", markup=False, soft_wrap=True)


@app.command("show")
def show(
    log: Place,
    last: Annotated[int, typer.Option("--last", min=0, help="How many of the newest entries to show.")] = 20,
    authority: Authority = None,
    as_json: Json = False,
) -> None:
    """Show a log's checkpoint, who has signed it, and its newest entries; nothing is checked.

    Example: hubbub log show deployment/operator/log
    """
    with failures(as_json):
        from hubbub.cli.tables.log import show_log

        lines, found = show_log(log, authority, last)
        if as_json:
            print_json(found)
            return
        for line in lines:
            console().print(line, markup=False, soft_wrap=True)


def _signer(key: Path) -> Identity:
    from hubbub.protos.identity.keys import Identity
    from hubbub.protos.identity.pem import readable_by_others

    if exposed := readable_by_others(key):
        progress_console().print(f"warning: {exposed}", markup=False, soft_wrap=True)
    return Identity.load(key)


def _witness_keys(texts: list[str]) -> list[NoteKey]:
    from hubbub.protos.transparency_log.checkpoint import count_witnesses
    from hubbub.protos.transparency_log.signed_notes import NoteKey, NoteRole

    keys = [NoteKey.decode(text, NoteRole.WITNESS) for text in texts]
    count_witnesses(keys)
    return keys


def _trusted(log_key: str, witnesses: list[str], needed: int | None) -> TrustedLog:
    from hubbub.protos.transparency_log.checkpoint import TrustedLog, count_witnesses
    from hubbub.protos.transparency_log.signed_notes import NoteKey, NoteRole

    keys = _witness_keys(witnesses)
    most = count_witnesses(keys)
    return TrustedLog(NoteKey.decode(log_key, NoteRole.LOG), keys, most if needed is None else needed)
