"""Bundles the front-end into every wheel and editable install, so that no stale one ships."""

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FrontEnd(BuildHookInterface):
    """Runs `bundle` before hatchling collects the files of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Bundle js/src; a source distribution carries the sources instead."""
        if self.target_name != "wheel":
            return
        sys.path.insert(0, str(Path(self.root, "scripts")))
        from bundle import bundle

        bundle(Path(self.root), os.environ["PATH"])
