"""Post report.md as a comment on the pull request. Later runs with the same ``name`` update the comment.

This code does not use other actions or programs, so nothing else can read the token. It is started with
``python3 -I -S``, so it cannot import anything that the tested package has installed. Code of the tested
package may have written the report, so the report is only read as text.
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

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the option -I removes this folder from the path

from common import LARGEST_JSON, annotate, checked_name, event, read_regular, step

LIMIT = 65_000
"""Maximum length of a comment in characters. GitHub accepts 65,536."""
PAGE, PAGES = 100, 50
SECONDS = 30
MENTION = re.compile("@|&(?:commat;|#0*64(?![0-9]);?|#x0*40(?![0-9a-f]);?)", re.IGNORECASE)
"""Matches an at sign or an HTML escape for it. GitHub treats either as a mention if a name follows."""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as an error, because the token must not be sent to another address."""

    def redirect_request(self, *args: object) -> None:
        pass


def call(method: str, path: str, body: object = None) -> Any:
    """Send a request to the GitHub API and return its answer.

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
    # The runner provides the address. With GitHub Enterprise Server, it can be any address.
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310
    with urllib.request.build_opener(NoRedirects).open(request, timeout=SECONDS) as answer:
        data = answer.read(LARGEST_JSON)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as err:
        raise ValueError(f"the answer to {method} is not JSON: {err}") from err


def find(number: int, marker: str) -> int | None:
    """Return the id of our comment on a pull request, or None if there is none yet.

    Raises OSError, HTTPException and ValueError.
    """
    for page in range(1, PAGES + 1):
        rows = call("GET", f"issues/{number}/comments?per_page={PAGE}&page={page}")
        if not isinstance(rows, list):
            raise ValueError("the answer is not a list of comments")
        for row in rows:
            match row:
                # Anyone can write the marker, so only the comment of a bot counts as ours.
                case {"id": int(ours), "user": {"type": "Bot"}, "body": str(body)} if body.startswith(marker):
                    return ours
        if len(rows) < PAGE:
            break
    return None


def report_text(path: Path) -> str:
    """Return the report without mentions, up to a maximum size. Raises OSError.

    Anyone who can change the tested package can write the report, and a mention in a comment sends mail.
    """
    text = read_regular(path, 4 * LIMIT).decode("utf-8", "replace")
    return MENTION.sub("@\N{ZERO WIDTH SPACE}", text)


def comment_body(marker: str, report: str) -> str:
    """Return the text of the comment, with a link to the run if the runner provides the run's address."""
    server, run = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_RUN_ID")
    link = ""
    if server and run:
        link = f"\n[Full report]({server}/{os.environ['GITHUB_REPOSITORY']}/actions/runs/{run})\n"
    room = LIMIT - len(marker) - len(link)
    if len(report) > room:
        report = report[: room - 20] + "\n\n(cut here)\n"
    return f"{marker}\n{report}{link}"


def put(number: int, marker: str, text: str) -> None:
    """Update our comment, or create it. Raises OSError, HTTPException and ValueError."""
    old = find(number, marker)
    if old is None:
        call("POST", f"issues/{number}/comments", {"body": text})
    else:
        call("PATCH", f"issues/comments/{old}", {"body": text})


def main() -> None:
    """Post the comment. A failure is only a warning, because the job summary contains the report too."""
    name, folder = checked_name(os.environ["STC_NAME"]), Path(os.environ["STC_REPORT"])
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
        annotate("warning", f"no comment: GitHub answered {err.code}{hint}")
    except (OSError, http.client.HTTPException, ValueError) as err:
        annotate("warning", f"no comment: {str(err) or type(err).__name__}")


if __name__ == "__main__":
    step(main)
