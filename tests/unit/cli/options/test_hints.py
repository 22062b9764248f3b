"""What a wrong word was probably meant to be: a name of a choice, or a file that exists."""

import os
from pathlib import Path

import pytest

from hubbub.cli.options import hints
from hubbub.cli.options.hints import meant, on_missing, with_nearest
from hubbub.queries.errors import did_you_mean
from support.cli import hubbub_here as hubbub

MECHANISM = ("account", "epsilon", "--reports", "100", "--delta", "1e-6", "--mechanism")


@pytest.mark.parametrize(
    ("word", "name"), [("unary", "rappor"), ("kRR", "krr"), ("GRR", "krr"), ("gaussain", "gaussian")]
)
def test_a_mechanism_that_is_none_is_answered_with_the_nearest_name_or_that_of_an_alias(word: str, name: str) -> None:
    assert f"{word!r} is not one of 'krr', " in hubbub(*MECHANISM, word).err
    assert f"; did you mean {name}?" in hubbub(*MECHANISM, word).err


def test_a_mechanism_like_no_other_is_answered_with_the_names_alone() -> None:
    assert "did you mean" not in hubbub(*MECHANISM, "zzzz").err


def test_the_mechanism_of_a_row_has_the_same_hint(tmp_path: Path) -> None:
    (tmp_path / "rounds.json").write_text('[{"mechanism": "unary", "categories": 4, "local_epsilon": 1, "reports": 9}]')
    ran = hubbub("account", "compose", tmp_path / "rounds.json", "--delta", "1e-6")
    assert "mechanism is 'unary'; did you mean rappor? choose one of: krr, " in ran.err


@pytest.mark.parametrize(
    ("bound", "name"), [("Blanket", "blanket"), ("hoeffding", "balle-hoeffding"), ("Best", "best"), ("clone", "clones")]
)
def test_a_bound_that_is_none_is_answered_with_the_nearest_name_and_no_list(bound: str, name: str) -> None:
    asked = (*MECHANISM, "krr", "--categories", "4", "--local-epsilon", "1", "--bound", bound)
    assert f"bound is '{bound}'; did you mean {name}? `hubbub account bounds` lists all\n" in hubbub(*asked).err


def test_other_messages_of_the_parser_stay_as_they_are() -> None:
    assert with_nearest("Missing option '--reports'.") == "Missing option '--reports'."
    assert with_nearest("Value error, 'a' is not one of 'b'.") == "'a' is not one of 'b'"


def test_a_name_is_meant_only_if_it_is_there() -> None:
    assert meant("unary", ["krr", "generic"]) == ""
    assert did_you_mean("x" * 10_000, ["krr"]) == ""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("certificate.json", "survey.toml", "sessions.csv", "survey.csv"):
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("verify", "certificat.json"),
            "did you mean certificate.json? Give as CERTIFICATE... [RESULTS...]: a certificate",
        ),
        (("plan", "survy.toml"), "did you mean survey.toml? Give as TASK.toml: the task as written by hand\n"),
        (
            ("plan", "other.toml"),
            "other.toml: No such file or directory; give as TASK.toml: the task as written by hand\n",
        ),
        (
            ("draft", "./session.csv"),
            "did you mean sessions.csv? Give as FILE: a CSV, TSV, JSON Lines or Parquet file, ",
        ),
        (("draft", "data/sessions.csv"), "there is no folder data; give as FILE: a CSV, "),
        (("account", "compose", "none.json", "--delta", "1e-6"), "give as ROUNDS.json: JSON file: a list of rows, "),
        (("simulate", "--data", "sesions.csv"), "did you mean sessions.csv? Give as --data: a CSV, TSV"),
        (("sign", "certificate.json", "--key", "x.pem"), "give as --key: PEM file of the signer's private key\n"),
    ],
)
def test_a_file_that_is_missing_is_answered_with_the_nearest_name_and_what_is_expected(
    words: tuple[str, ...], says: str
) -> None:
    ran = hubbub(*words)
    assert ran.status != 0
    assert "No such file or directory" in ran.err
    assert says in ran.err


def test_a_key_in_another_folder_is_found_there(here: Path) -> None:
    (here / "trust").mkdir()
    (here / "trust" / "operator.pub.pem").write_text("")
    ran = hubbub("verify", "certificate.json", "--operator-key", here / "trust" / "operater.pub.pem")
    assert f"; did you mean {here}/trust/operator.pub.pem? Give as --operator-key: PEM file of the " in ran.err


@pytest.mark.usefixtures("here")
def test_a_fingerprint_in_place_of_a_key_file_is_told_from_one() -> None:
    for digits in ("-".join(["0123abcd"] * 8), "0123ABCD" * 8, "0123abcd"):
        ran = hubbub("verify", "certificate.json", "--operator-key", digits)
        assert (
            "; a fingerprint is no key: give the key's file, *.pub.pem; get this public key from the party" in ran.err
        )
    assert "fingerprint" not in hubbub("verify", "certificate.json", "--operator-key", "facade.pem").err


def test_nothing_is_known_of_a_file_after_its_command(here: Path) -> None:
    assert hubbub("plan", "survy.toml").status != 0
    missing = FileNotFoundError(2, os.strerror(2), str(here / "zzzz.toml"))
    assert (on_missing(missing), on_missing(FileNotFoundError())) == ("", "")


def test_of_a_large_folder_some_files_are_looked_at(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "MOST_FILES", 0)
    assert on_missing(FileNotFoundError(2, os.strerror(2), str(here / "survy.toml"))) == ""


def test_an_address_in_the_place_of_a_file_is_to_be_downloaded() -> None:
    ran = hubbub("verify", "https://example.com/certificate.json")
    assert ran.status == 1
    assert ran.err.endswith("; it is an address: download it, and give the file\n")
