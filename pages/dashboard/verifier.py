"""The verifier for browsers, beside the other pages: one file that `clients/typescript` builds, and that checks alone.

It is the one page with a script, which reads files that anybody may have made. So it is served in a sandbox: it has an
origin of its own, no cookie, no network, and cannot reach the other pages. Its policy has the digests of its one script
and its one style; a file whose own policy says otherwise is not served.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from hubbub.protos.errors import UsageError

ADDRESS = "/verifier"
"""Where the dashboard serves it."""

BUILT = "clients/typescript/dist/verify/index.html"
"""Where the build puts it in a checkout."""

LARGEST_PAGE = 4 * 1024 * 1024
"""Most bytes of its file, which has some 160 thousand."""

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')

_SANDBOX = "frame-ancestors 'none'; sandbox allow-scripts allow-forms"
"""Without `allow-forms` its button does nothing; `form-action` lets no form out all the same."""


@dataclass(frozen=True)
class VerifierPage:
    """The page, and the policy that it states itself."""

    text: str = field(repr=False)
    policy: str

    @property
    def served_policy(self) -> str:
        """Its policy as a header, which no other page has: a header can also say that it is in a sandbox."""
        return f"{self.policy}; {_SANDBOX}"


def verifier_in(path: Path) -> VerifierPage:
    """Read the page's file.

    Raises:
        UsageError: if it cannot be read, or is not what the build makes.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_PAGE + 1)
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise _no_verifier(path, f"cannot be read: {error}") from error
    if len(content) > LARGEST_PAGE:
        raise _no_verifier(path, f"has more than {LARGEST_PAGE >> 20} MiB")
    stated = _POLICY.findall(text)
    if stated != [_policy_of(text)]:
        raise _no_verifier(path, "is not the verifier's page, or was changed: its policy does not allow what is in it")
    return VerifierPage(text, stated[0])


def _policy_of(text: str) -> str:
    """Return the policy of a page with one script and one style: these alone, no form, and no other host."""
    rules = [f"{element}-src {_digest_of(element, text)}" for element in ("script", "style")]
    none = ["base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"]
    return "; ".join(["default-src 'none'", *rules, *none])


def _digest_of(element: str, text: str) -> str:
    found = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
    digest = hashlib.sha256("".join(found).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _no_verifier(path: Path, problem: str) -> UsageError:
    return UsageError(
        f"--verifier {path}: the file {problem}; in clients/typescript, `npm ci && npm run build` makes it, as {BUILT}"
    )
