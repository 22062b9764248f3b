"""Verifies one certificate, or a whole history of them: `hubbub verify CERTIFICATE...`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubbub.cli.terminal.output import EXIT_FAILURE, Json, console, failures, print_json, report
from hubbub.cli.terminal.progress import working

if TYPE_CHECKING:
    from hubbub.verification.certificate import Pins, Verified
    from hubbub.verification.history import Histories, Problem
    from hubbub.verification.log_proofs import LogProofs
    from hubbub.verification.proof import Finding
    from hubbub.verification.results_files import OneRound

KeyFile = Path | None


Certificates = Annotated[
    list[Path],
    typer.Argument(
        metavar="CERTIFICATE... [RESULTS...]",
        help="A certificate, and the results of its round (JSON); for a history, several certificates or a folder.",
    ),
]
OperatorKey = Annotated[KeyFile, typer.Option("--operator-key", help="PEM file of the operator's public key.")]
ShufflerKey = Annotated[KeyFile, typer.Option("--shuffler-key", help="PEM file of the shuffler's public key.")]
AnalyzerKey = Annotated[KeyFile, typer.Option("--analyzer-key", help="PEM file of the analyzer's public key.")]
Successions = Annotated[
    list[Path] | None,
    typer.Option("--succession", help="File of a succession that links a pinned key to the task's; repeatable."),
]
HopKeys = Annotated[
    list[Path] | None,
    typer.Option("--hop-key", help="PEM file of hop-2's public key; repeat for hop-3 and on, in order."),
]
TaskId = Annotated[
    str | None, typer.Option("--task", help="Id (64 hex digits) of the task that the certificate must be of.")
]
Proofs = Annotated[
    list[Path] | None,
    typer.Option(
        "--log-proof",
        metavar="PROOF",
        help="File or folder of proofs that certificate and task are in the log that the task demands; repeatable. "
        "[default: those beside the certificates]",
        show_default=False,
    ),
]
Rigorous = Annotated[
    bool,
    typer.Option(
        "--rigorous",
        help="Also prove each question's numbers, and totals as far as possible, in ball arithmetic (slower).",
    ),
]


def command(
    certificates: Certificates,
    operator_key: OperatorKey = None,
    shuffler_key: ShufflerKey = None,
    analyzer_key: AnalyzerKey = None,
    succession: Successions = None,
    hop_key: HopKeys = None,
    task: TaskId = None,
    log_proof: Proofs = None,
    rigorous: Rigorous = False,
    as_json: Json = False,
) -> None:
    """Recompute a certificate and check its signatures and numbers.

    Every number is recomputed from scratch. The signatures and the records of the batches are checked too.

    The first line is the verdict, after the proven numbers if --rigorous is given. If something is wrong, it says what;
    then follows what was checked all the same.

    The exit status is 0 if everything is correct. It is 1 if something is wrong, if a file cannot be read, or if
    --rigorous does not prove a query's epsilon. It is 2 if the command's words are wrong, such as an option that it
    does not know. It is 141 if the reader of the output leaves before the end, as head does.

    Give the public keys of operator, shuffler and analyzer, to pin who signed. Without all three, the command warns
    that the signers are not pinned: the certificate may be right in itself, but anybody could have made it. If the task
    has hops, pin each with --hop-key. A key also pins the identities before it and after it, through the successions in
    the certificate and in --succession. With --task, the certificate must be of that task.

    A task may demand a transparency log (`[log]`). Then each certificate of it must be in that log, and the task too,
    as hubbub log prove shows. The files of these proofs, *.tlog-proof, are looked for beside the certificates and in
    --log-proof. The output says which log it is, and which witnesses signed.

    With --rigorous every epsilon of the round's queries is also proven, in arithmetic that cannot round the wrong way;
    totals are proven as far as possible. The output starts with what was proven: the stated epsilon, or at most 1 %
    more. After the verdict, a number that is not proven as stated is marked. With --json, epsilon_upper,
    epsilon_upper_alone and epsilon_local are then the proven numbers, or null if not proven; the stated number is
    epsilon_upper_stated. epsilon_upper_if_minimum_valid is checked but never proven, so it is null too. The exit status
    is 1 if a query's epsilon is not proven. It needs the extra hubbub[rigorous].

    Also give the round's results, as hubbub results --json prints them. The command then compares their counts with the
    digest in the certificate, and recomputes the estimates from the counts. A file of results contains its
    certificate, so it is enough by itself. Results of a longitudinal question need those of
    the earlier rounds too. The file of hubbub results --all --json has all rounds, and each of them is checked.

    A certificate states several epsilons for the same people. The command prints who must be honest for each, one
    sentence each; for a history, it prints this for all rounds together. With --json these are the rows of ladder,
    of the proven numbers alone if --rigorous is given.

    Give a folder or several files to check a history. Each certificate is checked. Together they must be the history
    of their tasks up to the last of them: one chain of releases without a gap, and no round with two certificates.
    Missing newer certificates cannot be seen. In a folder, the .json files are read.

    Example: hubbub verify certificate.json --operator-key operator.pub.pem --shuffler-key shuffler.pub.pem
    --analyzer-key analyzer.pub.pem
    """
    with failures(as_json):
        from hubbub.protos.errors import UsageError
        from hubbub.verification.results_files import one_round

        pins = _pinned((operator_key, shuffler_key, analyzer_key), hop_key, succession or [], task)
        pins = replace(pins, log_proofs=_proofs(certificates, log_proof or []))
        one = one_round(certificates)
        whole = one is None
        if whole and rigorous:
            raise UsageError("--rigorous proves one certificate at a time; name one file, of one round")
        problems = _verify_histories(certificates, pins, as_json) if whole else []
    if problems:
        raise typer.Exit(EXIT_FAILURE)
    if one is not None:
        _verify_one(one, pins, rigorous, as_json)


def _pinned(
    files: Sequence[KeyFile], hop_files: list[Path] | None, succession_files: list[Path], task: str | None
) -> Pins:
    """Read the given keys of operator, shuffler, analyzer and hops, and the given successions."""
    from hubbub.protos.identity.keys import load_public
    from hubbub.protos.identity.successions import load_succession
    from hubbub.verification.pins import Pins, task_id

    keys = [None if path is None else load_public(path) for path in files]
    hops = None if hop_files is None else tuple(map(load_public, hop_files))
    successions = tuple(map(load_succession, succession_files))
    return Pins(keys[0], keys[1], keys[2], hops, successions, task_id(task))


def _proofs(certificates: list[Path], given: list[Path]) -> LogProofs:
    from hubbub.protos.errors import UsageError
    from hubbub.verification.log_proofs import LogProofs

    for path in given:
        if not path.exists():
            raise UsageError(f"there is no {path}; give --log-proof a file of `hubbub log prove`, or a folder of them")
    return LogProofs.named(given).beside(certificates)


def _verify_histories(paths: list[Path], pins: Pins, as_json: bool) -> list[Problem]:
    """Check all certificates; print what is wrong, then what they state; return what is wrong."""
    from hubbub.cli.tables.history import document_of, epsilon_warnings, history_ladder, in_words, table_of
    from hubbub.cli.tables.printing import print_table
    from hubbub.verification.history import read_histories

    with working("verifying", as_json) as now:
        found = read_histories(paths, pins, lambda file: now(f"verifying {file}"))
    if found.problems:
        report(_told(found.problems))
    if as_json:
        print_json(document_of(found))
        return list(found.problems)
    out = console()
    out.print(_verdict(found), markup=False, soft_wrap=True)
    for history in found.histories:
        print_table(out, table_of(history))
        out.print(in_words(history), markup=False, soft_wrap=True)
        if (logged := history.last.verified.logged) is not None:
            out.print(f"each is logged; the last is {logged.words}", markup=False, soft_wrap=True)
        _warn(history.last.verified, epsilon_warnings(history))
        for line in history_ladder(history):
            out.print(line, markup=False, soft_wrap=True)
        _print_signers(history.last.verified)
    for again in found.results:
        out.print(again.as_text(), markup=False, soft_wrap=True)
    for path in found.skipped:
        out.print(f"skipped, not a certificate: {path}", markup=False, soft_wrap=True)
    return list(found.problems)


def _told(problems: Sequence[Problem]) -> str:
    if len(problems) == 1:
        return f"not verified: {problems[0]}"
    return "\n  ".join([f"not verified: {len(problems)} problems were found", *map(str, problems)])


def _verdict(found: Histories) -> str:
    """Return the first line: that all is valid, or that what follows is only valid by itself."""
    held = [each.verified for history in found.histories for each in history.certificates]
    if found.problems:
        return "what follows is valid by itself only:" if held else "nothing else was found"
    many = "1 certificate is valid" if len(held) == 1 else f"all {len(held)} certificates are valid"
    pins = {_pins_words(each) for each in held}
    return f"{many}; {'; '.join(sorted(pins))}"


def _pins_words(verified: Verified) -> str:
    """Return who is known to have signed."""
    parties, unpinned = list(verified.fingerprints), verified.unpinned
    pinned = [name for name in parties if name not in unpinned]
    if not pinned:
        return "anybody could have made it, as its signers are not pinned"
    told = f"{_listed(pinned)} {'is' if len(pinned) == 1 else 'are'} as pinned"
    return f"{told}, {_listed(unpinned)} not" if unpinned else told


def _listed(names: Sequence[str]) -> str:
    """Return names as people list them."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _verify_one(one: OneRound, pins: Pins, rigorous: bool, as_json: bool) -> None:
    with failures(as_json):
        from hubbub.deploy.files import naming
        from hubbub.verification.certificate import verify
        from hubbub.verification.results import RecomputedResults, recompute

        with working(f"verifying {one.path}", as_json) as now:
            with naming(one.path):
                verified = verify(one.certificate, pins)
            now("computing the estimates again")
            results = list(recompute(one.results, {one.certificate}))
        again = [each for each in results if isinstance(each, RecomputedResults)]
        wrong = [each for each in results if not isinstance(each, RecomputedResults)]
        if wrong and as_json:
            raise wrong[0]
        findings = _proven(verified, as_json) if rigorous else None
        failing = [finding.as_text() for finding in findings or () if finding.fails]
        for problem in wrong:
            report(f"not verified: {problem}. The certificate by itself is valid")
        for text in failing:
            report(f"not verified: {text}")
        if as_json:
            print_json(_document(verified, findings) | {"results": [each.as_json() for each in again]})
        else:
            # Proven numbers come before stated ones, so that nobody mistakes a stated number for a proven one.
            for finding in findings or ():
                console().print(finding.as_text(), markup=False, soft_wrap=True)
            _print(verified, findings)
            for each in again:
                console().print(each.as_text(), markup=False, soft_wrap=True)
    if wrong or failing:
        raise typer.Exit(EXIT_FAILURE)


def _proven(verified: Verified, as_json: bool) -> list[Finding]:
    """Prove the numbers; a terminal shows each step."""
    from hubbub.accountant.errors import needs_extra
    from hubbub.protos.errors import HubbubError

    try:
        import_module("flint")
    except ImportError as error:
        raise HubbubError(needs_extra("--rigorous", "python-flint", "rigorous")) from error
    from hubbub.verification.proof import prove_certificate

    with working("proving", as_json) as now:
        return list(prove_certificate(verified, lambda step: now(f"proving {step}")))


def _document(verified: Verified, findings: list[Finding] | None) -> dict[str, Any]:
    from hubbub.accountant.certificate.ladder import rows_of
    from hubbub.cli.tables.delta_warnings import epsilon_warning
    from hubbub.protos.task.delta_warnings import delta_warning

    content = verified.content
    document: dict[str, Any] = {
        "verified": True,
        "signers_pinned": verified.pinned,
        "signers": verified.fingerprints,
        "task": verified.task.name,
        "task_id": verified.task.id.hex(),
        "suite": verified.task.suite,
        "round": content["round"],
        "admission": verified.admission,
        "delta": content["delta"],
        "honest_share": content["honest_share"],
        "ladder": rows_of(content),
        "queries": content["queries"],
        "round_total": content["round_total"],
        "all_rounds": content["all_rounds"],
        "delta_warning": delta_warning(verified.task),
        "epsilon_warning": epsilon_warning(content),
        **{name: content[name] for name in ("counts_digest", "releases", "uncounted")},
    }
    if verified.logged is not None:
        document["log"] = verified.logged.as_json()
    if verified.task.identities.hops:
        document["hops"] = verified.hops
    if "horizon" in content:
        document["horizon"] = content["horizon"]
    if findings is not None:
        from hubbub.verification.proof import proven_content

        proven_members = proven_content(content, findings)
        document.update(proven_members)
        # Of the proven numbers alone, so that nobody mistakes a stated number for a proven one.
        document["ladder"] = rows_of({**content, **proven_members})
        proven = not any(finding.fails for finding in findings)
        document["rigorous"] = {"proven": proven, "claims": [finding.as_json() for finding in findings]}
    return document


def _print(verified: Verified, findings: list[Finding] | None) -> None:
    from hubbub.cli.tables.delta_warnings import epsilon_warning
    from hubbub.cli.tables.ladder import ladder_lines

    out, content = console(), verified.content
    marks, upper, local = _marks(content, findings)
    valid = f"the certificate is valid: task {verified.task.name}, round {content['round']}; {_pins_words(verified)}"
    out.print(valid, markup=False, soft_wrap=True)
    worthless = epsilon_warning(content)
    _warn(verified, [] if worthless is None else [worthless])
    given = ", as given with --task" if verified.pins.task_id is not None else ""
    out.print(f"  task id: {verified.task.id.hex()}{given}", markup=False, soft_wrap=True)
    admission = verified.admission
    out.print(f"  admission: {admission['mode']}. {admission['words']}", markup=False, soft_wrap=True)
    for query, of_upper, of_local in zip(content["queries"], upper, local, strict=True):
        out.print(
            f"  query {query['name']}: {query['valid']} valid reports of {query['reports']}, {query['state']}; "
            f"ε ≤ {query['epsilon_upper']} (bound: {query['bound']}{of_upper}), "
            f"ε ≤ {query['epsilon_local']} by the device alone{of_local}",
            markup=False,
            soft_wrap=True,
        )
    if verified.logged is not None:
        out.print(f"  {verified.logged.words}", markup=False, soft_wrap=True)
    uncounted = len(content["uncounted"])
    was = "1 round was" if uncounted == 1 else f"{uncounted} rounds were"
    never = f"; {was} never counted, as the analyzer claims, and charged at the minimum" * bool(uncounted)
    released = f"no released round is missing, by the shuffler's signed records{never}"
    out.print(f"  {released}", markup=False, soft_wrap=True)
    for line in ladder_lines(content, marks=marks):
        out.print(f"  {line}", markup=False, soft_wrap=True)
    _print_hops(verified)
    suite = verified.task.hpke
    out.print(f"  reports were sealed with {suite.name} ({suite.words})", markup=False, soft_wrap=True)
    _print_signers(verified)


def _marks(
    content: dict[str, Any], findings: list[Finding] | None
) -> tuple[dict[tuple[str, str], str], list[str], list[str]]:
    """Return what is said next to numbers that --rigorous did not prove: of the totals, and of both ε of each query."""
    if findings is None:
        nothing = [""] * len(content["queries"])
        return {}, nothing, nothing
    from hubbub.verification.proof import marks, query_marks

    def after(member: str) -> list[str]:
        return [f"; {mark}" * bool(mark) for mark in query_marks(content, findings, member)]

    return marks(content, findings), after("epsilon_upper"), after("epsilon_local")


def _warn(verified: Verified, others: Sequence[str]) -> None:
    from hubbub.protos.task.delta_warnings import delta_warning

    for warning in (delta_warning(verified.task), *others):
        if warning is not None:
            console().print(warning, markup=False, soft_wrap=True)


def _print_signers(verified: Verified) -> None:
    from hubbub.cli.tables.printing import print_columns

    out = console()
    if not verified.pinned:
        which = "" if len(verified.unpinned) == len(verified.fingerprints) else f" ({' and '.join(verified.unpinned)})"
        out.print(
            f"signers not pinned{which}: compare these with the fingerprints the parties gave you",
            markup=False,
            soft_wrap=True,
        )
    pinned = {role: "" if role in verified.unpinned else ", as pinned" for role in verified.fingerprints}
    print_columns(out, [(role + pinned[role], digits) for role, digits in verified.fingerprints.items()], "  ")


def _print_hops(verified: Verified) -> None:
    for each in verified.hops:
        reasons = ", ".join(f"{count} {reason}" for reason, count in each["left_out"].items())
        # Without noise a hop adds nothing; with it, it passes on more envelopes than it received.
        added = f", added {each['added']}" * bool(each["added"])
        left_out = f", left out {reasons}" * bool(reasons)
        passed = f"received {each['received']} envelopes{left_out}{added}, passed on {each['released']}"
        console().print(f"  {each['query']}: {each['hop']} {passed}", markup=False, soft_wrap=True)
