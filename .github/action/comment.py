"""Put report.md on the pull request: one comment for each ``name``, which later runs rewrite.

Its own few lines in place of another action or program: nothing else gets to see the token. It is run by
``python3 -I -S``, so that nothing a tested package has installed is imported, and what that package may have
written, the report, is only read.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # which -I leaves out

from common import NAME, annotate, event, stop

LIMIT = 65_000
"""Characters; the service takes 65,536."""
PAGE, PAGES = 100, 50
SECONDS = 30


def call(method: str, path: str, body: object = None) -> Any:
    """Send one request to the API of the service and return its answer. Raises OSError and ValueError."""
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
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
        return json.load(answer)


def find(number: int, marker: str) -> int | None:
    """Return the number of our comment on a pull request, None when there is none yet."""
    for page in range(1, PAGES + 1):
        rows = call("GET", f"issues/{number}/comments?per_page={PAGE}&page={page}")
        for row in rows:
            # Anybody may write the marker; only a comment of a program is taken for ours.
            if row["user"]["type"] == "Bot" and row["body"].startswith(marker):
                return int(row["id"])
        if len(rows) < PAGE:
            break
    return None


def report_text(path: Path) -> str:
    """Return what stands in the report, as far as it fits. Raises OSError.

    It lies where the tested package can write: a link would put another file into the comment, such as
    ``/proc/self/environ`` with the token.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(f"{path.name} is no regular file")
        return os.read(file, 4 * LIMIT).decode("utf-8", "replace")
    finally:
        os.close(file)


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
    """Rewrite our comment, or write it. Raises OSError and ValueError."""
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
    number = (event().get("pull_request") or {}).get("number")
    if not os.path.lexists(folder / "report.md") or not isinstance(number, int):
        annotate("warning", "no comment: there is no report or no pull request")
        return
    marker = f"<!-- safetensors-conformance: {name} -->"
    try:
        put(number, marker, comment_body(marker, report_text(folder / "report.md")))
    except urllib.error.HTTPError as err:
        rights = "; does the job have the permission pull-requests: write?"
        hint = rights if err.code in (401, 403, 404) else ""
        annotate("warning", f"no comment: the service answered {err.code}{hint}")
    except (OSError, ValueError, KeyError, TypeError) as err:
        annotate("warning", f"no comment: {err}")


if __name__ == "__main__":
    main()
