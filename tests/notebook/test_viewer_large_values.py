"""Many values and large ones in real JupyterLab, within its server's default limits."""

from collections.abc import Callable

from playwright.sync_api import Browser

from jupyter_lab import LabServer, new_notebook
from viewer_models import IMPORTS_CELL

MANY_VALUES_CELL = """
torch.manual_seed(3)
layers = [nn.Conv2d(1, 16, 1), nn.ReLU()]
for _ in range(2): layers += [nn.Conv2d(16, 16, 1), nn.Sigmoid()]
model = nn.Sequential(*layers).eval()
x = np.random.default_rng(3).normal(size=(1, 1, 256, 256)).astype(np.float32)
viewer = Viewer(model, x)
start = time.monotonic()
values = viewer.activations.to_dict()
took = time.monotonic() - start
expected = hook_values(model, x)
"""
LARGE_VALUE_CELL = """
torch.manual_seed(4)
wide = nn.Sequential(nn.Conv2d(1, 60, 1)).eval()
picture = np.random.default_rng(4).normal(size=(1, 1, 500, 500)).astype(np.float32)
large = Viewer(wide, picture)
value = large.activations["0"]
with torch.no_grad(): true = wide(torch.from_numpy(picture)).numpy()
"""
PRINT_ERROR_CELL = "print(max(np.abs(a - b).max() / (np.abs(b).max() + 1e-6) for a, b in pairs))"


def test_megabytes_of_activations_arrive_whole(
    lab: LabServer, browser: Callable[[str], Browser]
) -> None:
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(IMPORTS_CELL)
        frames: list[int] = []
        notebook.page.on(
            "websocket", lambda ws: ws.on("framesent", lambda sent: frames.append(len(sent)))
        )
        notebook.page.reload()
        notebook.wait_ready()
        notebook.run(MANY_VALUES_CELL)
        text = notebook.run(
            "assert viewer.activations.source.startswith('page') and set(values) == set(expected)\n"
            "print(sum(v.nbytes for v in values.values()), round(took, 2), 'seconds')"
        ).text
        assert int(text.split()[0]) > 27_000_000, text
        error = notebook.run(
            "pairs = [(values[k], expected[k]) for k in expected]\n" + PRINT_ERROR_CELL
        ).text
        assert float(error) < 1e-5
        notebook.run(LARGE_VALUE_CELL)
        assert notebook.run("print(value.nbytes)").text == "60000000\n"
        assert float(notebook.run("pairs = [(value, true)]\n" + PRINT_ERROR_CELL).text) < 1e-5
        # Servers drop larger frames and close the socket.
        assert len(frames) > 20 and max(frames) < 10 * 2**20
        assert not [line for line in notebook.console if "Connection lost" in line]
