"""A kernel's first Viewer: its imports are done in advance, and the cell reports its progress."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

from nbglcnn.load.torch.preimport import MODULES

IMPORTS_CELL = "import asyncio, gc, sys, warnings\nimport torch\nfrom nbglcnn import Viewer"
MODEL_CELL = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
    def forward(self, x):
        return torch.relu(self.conv(x))
"""


class KernelClient:
    """A kernel client whose cells have an ID, as JupyterLab's do."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def run(self, code: str) -> list[tuple[str, Any]]:
        """All messages of a cell, with their types."""
        client = self.client
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        message = client.session.msg("execute_request", content, metadata={"cellId": "a cell"})
        client.shell_channel.send(message)
        told = []
        while True:
            got = client.get_iopub_msg(timeout=120)
            if got["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
                return told
            told.append((got["msg_type"], got["content"]))

    def run_printed(self, code: str) -> str:
        """The text that a cell printed."""
        return "".join(c["text"] for kind, c in self.run(code) if kind == "stream")


@pytest.fixture(scope="module")
def kernel() -> Iterator[KernelClient]:
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        yield KernelClient(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_an_idle_kernel_imports_what_an_export_needs_and_says_nothing(kernel: KernelClient) -> None:
    assert kernel.run_printed(IMPORTS_CELL) == ""
    needed = f"all(name in sys.modules for name in {MODULES!r})"
    assert kernel.run_printed(f"print({needed})") == "False\n", (
        "the cell that imports waits for none"
    )
    until = time.monotonic() + 90
    while kernel.run_printed(f"print({needed})") != "True\n":
        assert time.monotonic() < until
        time.sleep(0.5)
    assert kernel.run_printed("print(gc.isenabled())") == "True\n"


def test_a_cell_says_which_network_it_is_and_what_is_done(kernel: KernelClient) -> None:
    kernel.run(IMPORTS_CELL + MODEL_CELL)
    told = kernel.run("viewer = Viewer(Net().eval(), torch.zeros(1, 3, 8, 8))")
    shown = [c["data"]["text/plain"] for kind, c in told if kind.endswith("display_data")]
    assert shown[0] == "Net: 1 layer, 112 parameters\nConv2d"
    assert [text.removeprefix(f"{shown[0]}\n") for text in shown[1:-1]] == [
        "recording it …", "running it once …", "translating it to ONNX …", "compiling it …",
    ]  # fmt: skip
    assert shown[-1] == "", "nothing is left of it beside the Viewer"
    assert len({c["transient"]["display_id"] for kind, c in told if kind.endswith("_data")}) == 1


def test_nothing_is_left_of_it_behind_an_error(kernel: KernelClient) -> None:
    kernel.run(IMPORTS_CELL + MODEL_CELL)
    told = kernel.run("Viewer(Net().eval(), torch.zeros(1, 4, 8, 8))")
    shown = [c["data"]["text/plain"] for kind, c in told if kind.endswith("display_data")]
    assert shown[0].startswith("Net: ")
    assert shown[-1] == ""
    assert [kind for kind, _ in told][-1] == "error"


def test_a_script_is_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    from nbglcnn import Viewer

    Viewer(torch.nn.Conv2d(3, 4, 3).eval(), torch.zeros(1, 3, 8, 8)).close()
    assert capsys.readouterr().out == ""
