"""`html` and `serve`: the exported page as a file, and on localhost only."""

import http.client
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image
from playwright.sync_api import Page

from command_line import COMMAND, run_command
from exported_html import read_export
from nbglcnn import Plan
from nbglcnn.cli.page_server import HEADERS, PageServer
from onnx_models import model_of, node, randn


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file whose convolution maps are a layer."""
    file = tmp_path_factory.mktemp("models") / "maps.onnx"
    nodes = [node("Conv", ["x", "w"], ["maps"], kernel_shape=[3, 3]), node("Relu", ["maps"], ["y"])]
    onnx.save(model_of(nodes, {"x": (1, 3, 8, 9)}, ["y"], constants={"w": randn(4, 3, 3, 3)}), file)
    return file


def accept_interrupts() -> None:
    """Restore Ctrl-C in the child: a shell that runs tests in the background has them ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def served_page(model: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that serves the model's page, and the address that it has printed."""
    command = [*COMMAND, "serve", str(model), "--no-browser"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=accept_interrupts,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def request_page(port: int, path: str, host: str | None = None, method: str = "GET") -> tuple:
    """Return status, headers and content."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    for one in [f"127.0.0.1:{port}"] if host is None else host.split("|") if host else []:
        connection.putheader("Host", one.format(port=port))
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def test_the_page_is_under_its_address_alone_and_ctrl_c_ends_it(
    served_page: tuple[subprocess.Popen[str], str], gl_page: Callable[..., Page]
) -> None:
    process, url = served_page
    assert process.stdout is not None
    assert process.stdout.readline() == "Press Ctrl-C to stop.\n"
    port, path = int(url.split(":")[2].split("/")[0]), "/" + url.split("/", 3)[3]
    assert url.startswith("http://127.0.0.1:") and len(path) > 30
    status, headers, content = request_page(port, path)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert b"<!doctype html>" in content[:200].lower() and b"maps" in content
    for other in ("/", path[:-1], path + "x", f"/x{path}", "/favicon.ico"):
        assert request_page(port, other)[0] == 404
    page = gl_page("llvmpipe", path="/")
    page.goto(url)
    page.wait_for_selector(".nbglcnn canvas[data-drawn]")
    os.kill(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=20)
    assert (process.returncode, told) == (0, "")


@pytest.fixture
def server() -> Iterator[PageServer]:
    """The server, run in a thread of this process."""
    with PageServer(b"<!doctype html>the page") as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join(10)


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}"])
def test_this_machines_names_are_answered(server: PageServer, host: str) -> None:
    status, headers, content = request_page(server.server_port, server.path, host)
    assert (status, content) == (200, server.content)
    assert headers.items() >= HEADERS.items()


@pytest.mark.parametrize(
    "host",
    ["evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example:{port}", "",
     "[::1]:{port}", "127.0.0.1:{port}|evil.example:{port}"],
)  # fmt: skip
def test_another_sites_name_for_this_machine_is_not_answered(server: PageServer, host: str) -> None:
    status, _, content = request_page(server.server_port, server.path, host)
    assert (status, content) == (404, b"Nothing is here.\n")


def test_nothing_but_the_page_is_there(server: PageServer) -> None:
    port, path = server.server_port, server.path
    for wrong in ("/", path.upper(), path + "?x", "/../" + path, "http://127.0.0.1" + path):
        assert request_page(port, wrong)[0] == 404
    for method in ("POST", "PUT", "OPTIONS", "TRACE"):
        assert request_page(port, path, method=method)[0] == 404
    status, headers, content = request_page(port, path, method="HEAD")
    assert (status, content) == (200, b"")
    assert headers["Content-Length"] == str(len(server.content))
    assert "Python" not in headers["Server"]
    with PageServer(b"") as other:
        assert other.path != path


def test_it_listens_on_this_machine_alone(server: PageServer) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_named(server: PageServer, model: Path) -> None:
    run = run_command("serve", model, "--port", server.server_port, "--no-browser")
    assert (run.returncode, run.stdout) == (1, "")
    assert f"port {server.server_port} is not available: " in run.stderr
    assert run_command("serve", model, "--port", 70_000).returncode == 2


def test_ctrl_c_while_it_works_leaves_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "slow.py"
    file.write_text("import time\nprint('begun', flush=True)\ntime.sleep(100)\n")
    process = subprocess.Popen(
        [*COMMAND, "verify", f"{file}:make"], stderr=subprocess.PIPE, text=True,
        stdout=subprocess.PIPE, preexec_fn=accept_interrupts,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=50)
    assert (process.returncode, told) == (130, "")


def test_html_writes_a_page_with_title_text_and_pictures(
    model: Path, tmp_path: Path, gl_page: Callable[..., Page]
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 9, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    (tmp_path / "lesson.md").write_text("Look for **edges**, in größe.", encoding="utf-8")
    run = run_command("html", model, "-o", "page.html", "--input", "a.png", "--title", "Maps & <b>",
                      "--text", "lesson.md", folder=tmp_path)  # fmt: skip
    assert run.returncode == 0, run.stderr
    size = (tmp_path / "page.html").stat().st_size
    assert run.stdout == f"page.html: {size:,} bytes\n"
    page = gl_page("llvmpipe", path="/")
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector(".nbglcnn canvas[data-drawn]")
    assert page.title() == page.inner_text("h1") == "Maps & <b>"
    assert page.inner_text("strong") == "edges"
    assert "größe" in page.inner_text("body")


def test_a_page_is_named_after_its_model_and_holds_the_precision_asked_for(
    model: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "net.onnx"
    copy.write_bytes(model.read_bytes())
    for precision, words in (("float32", ()), ("float16", ("--precision", "float16"))):
        run = run_command("html", copy, *words)
        assert run.stdout.startswith(f"{tmp_path / 'net.html'}: "), run.stderr
        _, [plan, *_] = read_export(tmp_path / "net.html")
        assert Plan.from_bytes(plan).precision == precision
