"""Adapter for ``safetensors-print``. An exit status of 0 means that the file conforms to the format."""

import command
from safetensors_print.cli import main
from stc_host.library import marked


@marked
class Report:
    def check(self, path: str) -> bool:
        command.run(main, path)
        return True
