"""Put report.md on the pull request: one comment for each ``name``, which later runs rewrite.

Its own few lines in place of another action or program: nothing else gets to see the token. It is run by
``python3 -I -S``, so that nothing a tested package has installed is imported, and what that package may have
written, the report, is only read.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # which -I leaves out

from common import LARGEST_JSON, NAME, annotate, event, read_regular, step, stop

LIMIT = 65_000
"""Characters; the service takes 65,536."""
PAGE, PAGES = 100, 50
SECONDS = 30
MENTION = re.compile("@|&(?:commat;|#0*64(?![0-9]);?|#x0*40(?![0-9a-f]);?)", re.IGNORECASE)
"""What the service makes a mention of, when a name follows."""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for the error that it is here: the token must not reach another address."""

    def redirect_request(self, *args: object) -> None:
        """Follow none."""


def call(method: str, path: str, body: object = None) -> Any:
    """Send one request to the API of the service and return its answer.

    Raises OSError, HTTPException and ValueError.
    """
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
        "Content-Type": "application/json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    data = None if body is None else json.dumps(body).encode()
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}"
    # The address is the runner's own; a server of a company may have any.
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310
    with urllib.request.build_opener(NoRedirects).open(request, timeout=SECONDS) as answer:
        data = answer.read(LARGEST_JSON)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as err:
        raise ValueError(f"the service answered {method} with no JSON: {err}") from err


def find(number: int, marker: str) -> int | None:
    """Return the number of our comment on a pull request, None when there is none yet.

    Raises OSError, HTTPException and ValueError.
    """
    for page in range(1, PAGES + 1):
        rows = call("GET", f"issues/{number}/comments?per_page={PAGE}&page={page}")
        if not isinstance(rows, list):
            raise ValueError("the service answered with no list of comments")
        for row in rows:
            match row:
                # Anybody may write the marker; only a comment of a program is taken for ours.
                case {"id": int(ours), "user": {"type": "Bot"}, "body": str(body)} if body.startswith(marker):
                    return ours
        if len(rows) < PAGE:
            break
    return None


def report_text(path: Path) -> str:
    """Return what the report holds, as far as it fits, without mentions. Raises OSError.

    Whoever can change the tested package can write it, and a mention in a comment sends mail.
    """
    text = read_regular(path, 4 * LIMIT).decode("utf-8", "replace")
    return MENTION.sub("@\N{ZERO WIDTH SPACE}", text)


def comment_body(marker: str, report: str) -> str:
    """Return the text of the comment, with a link to the run when the runner says where it is."""
    server, run = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_RUN_ID")
    link = ""
    if server and run:
        link = f"\n[Full report]({server}/{os.environ['GITHUB_REPOSITORY']}/actions/runs/{run})\n"
    room = LIMIT - len(marker) - len(link)
    if len(report) > room:
        report = report[: room - 20] + "\n\n(cut here)\n"
    return f"{marker}\n{report}{link}"


def put(number: int, marker: str, text: str) -> None:
    """Rewrite our comment, or write it. Raises OSError, HTTPException and ValueError."""
    old = find(number, marker)
    if old is None:
        call("POST", f"issues/{number}/comments", {"body": text})
    else:
        call("PATCH", f"issues/comments/{old}", {"body": text})


def main() -> None:
    """Comment; one that cannot be written is a warning, the report is in the summary all the same."""
    name, folder = os.environ["STC_NAME"], Path(os.environ["STC_REPORT"])
    if not NAME.fullmatch(name):
        stop(f"input name: letters, digits, blanks, dots, hyphens, at most 64 of them, got {name!r}")
    marker = f"<!-- safetensors-conformance: {name} -->"
    try:
        match event():
            case {"pull_request": {"number": int(number)}} if os.path.lexists(folder / "report.md"):
                put(number, marker, comment_body(marker, report_text(folder / "report.md")))
            case _:
                annotate("warning", "no comment: there is no report or no pull request")
    except urllib.error.HTTPError as err:
        rights = "; does the job have the permission pull-requests: write?"
        hint = rights if err.code in (401, 403, 404) else ""
        annotate("warning", f"no comment: the service answered {err.code}{hint}")
    except (OSError, http.client.HTTPException, ValueError) as err:
        annotate("warning", f"no comment: {str(err) or type(err).__name__}")


if __name__ == "__main__":
    step(main)
