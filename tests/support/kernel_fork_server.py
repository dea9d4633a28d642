"""Jupyter kernels forked from one process that has imported the packages of the tests' notebooks.

A kernel that imports PyTorch and its exporter by itself is busy for six seconds before its first
Viewer. `kernel_fork_server.py SOCKET` forks kernels. Jupyter starts `kernel_fork_server.py SOCKET
FILE [OPTION …]` as a kernel with that connection file: this process requests a fork, relays signals
to it, and exits with it; if this process ends, the fork is killed. Requires POSIX and Linux's
pidfd.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys

MAX_MESSAGE_BYTES = 1 << 17  # bytes of a request, which holds a kernel's environment


def serve(socket_path: str) -> None:
    """Fork a kernel for each client until stdin closes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(socket_path)
        listener.listen(16)  # clients queue during the imports
        import_packages()
        kernels: dict[int, tuple[socket.socket, int, int]] = {}  # keyed by both descriptors
        while True:
            ready, _, _ = select.select([0, listener, *kernels], [], [])
            if 0 in ready:
                for _, pid, _ in kernels.values():
                    os.kill(pid, signal.SIGKILL)
                return
            if listener in ready:
                client = listener.accept()[0]
                pid = fork_kernel(client, [listener, *(kept for kept, _, _ in kernels.values())])
                one = (client, pid, os.pidfd_open(pid))
                kernels[client.fileno()] = kernels[one[2]] = one
            for number in ready:
                if number in kernels:
                    end_kernel(kernels, kernels[number])


def import_packages() -> None:
    """Import the kernels' packages, and the modules that PyTorch's exporter imports lazily."""
    import gc
    import importlib
    import warnings

    for name in ("ipykernel.kernelapp", "ipykernel.zmqshell", "ipywidgets", "anywidget", "PIL"):
        importlib.import_module(name)
    import numpy as np
    from torch import nn
    from tqdm import tqdm

    import nbglcnn

    tqdm.monitor_interval = 0  # else the exporter's progress bars start a thread

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()).eval()
        nbglcnn.compile(model, np.zeros((1, 1, 5, 5), np.float32))
    assert len(os.listdir("/proc/self/task")) == 1, "a fork has no threads but its own"
    gc.collect()
    gc.freeze()


def fork_kernel(client: socket.socket, other_sockets: list[socket.socket]) -> int:
    """Fork a kernel process that takes over the client's environment and standard streams."""
    request, streams, _, _ = socket.recv_fds(client, MAX_MESSAGE_BYTES, 3)
    pid = os.fork()
    if pid == 0:
        for other in (client, *other_sockets):
            other.close()
        run_kernel(streams, **json.loads(request))
    for stream in streams:
        os.close(stream)
    client.send(str(pid).encode())
    return pid


def run_kernel(
    streams: list[int], *, environment: dict[str, str], folder: str, arguments: list[str]
) -> None:
    """Run the kernel in this process until it ends."""
    status = 1
    try:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.argv = ["ipykernel_launcher", "-f", *arguments]
        import atexit

        from ipykernel.kernelapp import launch_new_instance

        launch_new_instance()
        status = 0
        atexit._run_exitfuncs()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def end_kernel(
    kernels: dict[int, tuple[socket.socket, int, int]], kernel: tuple[socket.socket, int, int]
) -> None:
    """End both the kernel and its client, because one of them has ended."""
    client, pid, descriptor = kernel
    os.kill(pid, signal.SIGKILL)  # not yet reaped, so the pid is still valid
    _, status = os.waitpid(pid, 0)
    del kernels[client.fileno()], kernels[descriptor]
    os.close(descriptor)
    with contextlib.suppress(OSError):  # if the client has already exited
        client.send(str(os.waitstatus_to_exitcode(status)).encode())
    client.close()


def relay_kernel(socket_path: str, *arguments: str) -> int:
    """Act as the kernel process for Jupyter; return the kernel's exit status."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(socket_path)
        request = {"environment": {**os.environ}, "folder": os.getcwd(), "arguments": arguments}
        socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
        pid = int(server.recv(16))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(pid, number))
        return abs(int(server.recv(16) or b"1"))


if __name__ == "__main__":
    del sys.path[0]  # this folder, which isn't on a kernel's path
    if len(sys.argv) > 2:
        sys.exit(relay_kernel(*sys.argv[1:]))
    serve(sys.argv[1])
