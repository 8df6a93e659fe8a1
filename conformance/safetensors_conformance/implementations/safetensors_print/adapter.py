"""Adapter for the command ``safetensors-print``."""

import command
from safetensors_print.cli import main
from stc_host.library import marked


@marked
class Report:
    """An exit status of 0 means that the file conforms to the format."""

    def check(self, path: str) -> bool:
        command.run(main, path)
        return True
