"""Ingot's board protocol: a network served by a process here, by QEMU's serial port, over wires that damage bytes."""
import os
import socket
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot import cli
from ingot.codegen.toolchain import missing_tools
from ingot.codegen.toolchains import TOOLCHAINS
from ingot.runtime import board as protocol
from ingot.runtime.binding import NetworkError
from ingot.runtime.board import Board, BoardError, BoardLibrary, open_port
from networks import conv_net, embedding_net, with_symbolic_batch

TARGET = "cortex-m4f"
HOST = Path(__file__).with_name("served.c")


def need_cc():
    if reason := missing_tools("c"):
        pytest.skip(reason)


def built(model, folder, *flags):
    """Where the network of a folder for TARGET runs: a process here, whose standard input and output are the port."""
    model.write(folder)
    return served(folder, *flags)


def served(folder, *flags):
    own = [p for p in folder.glob("*.c") if not p.stem.endswith(("_example", "_selftest", "_selftest_data", "_server"))]
    sources = [p for p in own if p.stem != "board"]
    name = next(p.stem for p in own if p.stem.endswith("_serve"))
    subprocess.run(["cc", "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-DINGOT_SIMD_SCALAR", f"-I{folder}",
                    f"-DSERVE={name}", *flags, *sources, HOST, "-lm", "-o", folder / "served"], check=True)
    return f"exec:{folder / 'served'}"


@pytest.fixture(scope="module")
def model():
    return ingot.compile(conv_net(), target=TARGET).model


@pytest.fixture(scope="module")
def where(model, tmp_path_factory):
    need_cc()
    return built(model, tmp_path_factory.mktemp("board") / "net", "-DINGOT_PROFILE")


@pytest.fixture
def x():
    return np.random.default_rng(0).random((1, 3, 13, 11), np.float32)


def test_runs_are_those_of_the_board(model, where, x):
    with BoardLibrary(model, where) as library:
        np.testing.assert_allclose(library(x), ingot.compile(conv_net(), target="c", threads="none")(x), rtol=1e-5)
        assert library.hello.name == model.name and library.hello.calls == len(model.program.calls)


def test_kernels_are_timed(model, where):
    with BoardLibrary(model, where, repeat=3) as library:
        count = library.count()
    assert [name for name, _ in count.calls] == [model.kernel_of[c.kernel] for c in model.program.calls]
    assert count.hz == 10**6 and count.unit == "ticks"


def test_every_tensor_is_compared(tmp_path):
    need_cc()
    folder = ingot.verified_folder(conv_net(), tmp_path / "net", target=TARGET)
    report = ingot.verify(conv_net(), target=TARGET, board=served(folder))
    assert report.ok and len(report.rows) > 3, report.summary()


def test_statuses_of_the_network_arrive(tmp_path):
    need_cc()
    model = ingot.compile(embedding_net(), target=TARGET).model
    with BoardLibrary(model, built(model, tmp_path / "net")) as library:
        arrays = [np.full([d for d in t.shape], 10**6, t.dtype.numpy) for t in model.inputs]
        with pytest.raises(NetworkError, match="status -7"):
            library(*arrays)


class Damaged:
    """A port that changes some bytes on the way there, others on the way back, and prints between frames."""

    def __init__(self, port, there=(), back=()):
        self.port, self.there, self.back, self.sent, self.got = port, there, back, 0, 0

    def write(self, data):
        self.sent += 1
        if self.sent in self.there:
            data = data[:-1] + bytes([data[-1] ^ 4])
        self.port.write(b"boot: ok\r\nI" * (self.sent == 1) + data)

    def read(self, count):
        data = self.port.read(count)
        self.got += 1
        return bytes([data[0] ^ 1]) + data[1:] if self.got in self.back else data

    def close(self):
        self.port.close()


def test_damaged_frames_are_sent_again(where, x):
    port = Damaged(open_port(where), there=(2, 3), back=(5,))
    board = Board(port)
    board.hello()
    board.write(0, x.tobytes())
    board.run()
    found = np.frombuffer(board.read(0, 20), np.float32)
    board.end()
    board.close()
    np.testing.assert_allclose(found, ingot.compile(conv_net(), target="c", threads="none")(x)[0], rtol=1e-5)
    assert port.sent > 5


def test_a_damaged_length(where):
    """The board waits for more, and takes what is sent again for that."""
    board = Board(port := open_port(where, 0.5))
    port.write(protocol.frame(protocol.RUN, bytes(99))[:8])
    assert board.hello().inputs == 1
    port.write(protocol.frame(protocol.RUN, bytes(9999))[:8])  # as no frame is
    assert board.hello().inputs == 1
    board.close()


def test_a_wire_that_damages_everything(where):
    board = Board(Damaged(open_port(where), there=range(1, 9)))
    with pytest.raises(BoardError, match="4 frames were damaged"):
        board.hello()
    board.close()


@pytest.mark.parametrize("request_, status", [
    (lambda b: b.write(9, bytes(8)), "no such tensor"),
    (lambda b: b._ask(protocol.WRITE, bytes(2)), "no such tensor"),
    (lambda b: b._ask(protocol.WRITE, bytes(4) + b"\xf0\xff\xff\xff" + bytes(64)), "no such tensor"),
    (lambda b: b.read(0, 24), "no such tensor"), (lambda b: b.read(1, 4), "no such tensor"),
    (lambda b: b._ask(protocol.READ, bytes(3)), "no such tensor"),
    (lambda b: b._ask(99, bytes(5)), "does not know the command")])
def test_what_a_board_refuses(where, request_, status):
    """And it answers what comes next."""
    board = Board(open_port(where))
    with pytest.raises(BoardError, match=status):
        request_(board)
    assert board.hello().inputs == 1
    board.close()


def test_boards_that_do_not_fit(model, where, tmp_path):
    other = ingot.compile(embedding_net(), target=TARGET).model
    with BoardLibrary(other, where) as library, pytest.raises(BoardError, match="runs another network: its network"):
        library.build()
    with BoardLibrary(model, "exec:cat /dev/null", timeout=1) as library, pytest.raises(BoardError, match="not answer"):
        library.build()
    with pytest.raises(BoardError, match="cannot be opened"):
        open_port("exec:./no_such_program")
    with pytest.raises(BoardError, match="write tcp:HOST:PORT"):
        open_port("tcp:5555")
    symbolic = ingot.compile(with_symbolic_batch(conv_net()), target=TARGET).model
    with BoardLibrary(symbolic, where) as library, pytest.raises(BoardError, match="give batch by --dim"):
        library.build()


def test_a_serial_port(model, where, x):
    """A pseudo-terminal stands for the wire."""
    pytest.importorskip("serial")
    host, device = os.openpty()
    import tty
    tty.setraw(device)
    process = subprocess.Popen(where.removeprefix("exec:").split(), stdin=host, stdout=host)
    try:
        with BoardLibrary(model, f"{os.ttyname(device)}@115200", timeout=10) as library:
            np.testing.assert_allclose(library(x), ingot.compile(conv_net(), target="c", threads="none")(x), rtol=1e-5)
    finally:
        process.kill()
        process.wait()
        os.close(host)
        os.close(device)


def test_a_socket():
    """The reply to hello of a board of another version."""
    with socket.create_server(("localhost", 0)) as server:
        def answer():
            with server.accept()[0] as link:
                link.recv(100)
                link.sendall(protocol.frame(protocol.HELLO | protocol.REPLY, bytes([9] * 18) + b"a\0b\0c\0", 1))
        thread = threading.Thread(target=answer)
        thread.start()
        board = Board(open_port(f"tcp:localhost:{server.getsockname()[1]}", 5))
        with pytest.raises(BoardError, match="speaks version 9 of the protocol"):
            board.hello()
        board.close()
        thread.join()


@pytest.mark.parametrize("target", ["cortex-m4f", "cortex-m33", "cortex-m55"])
def test_the_serial_port_of_qemu(tmp_path, capsys, target):
    """Its folder's program, built as its Makefile says; what verify and bench print of it."""
    if reason := missing_tools(target):
        pytest.skip(reason)
    path = tmp_path / "net.onnx"
    path.write_bytes(conv_net().SerializeToString())
    emulator = " ".join(TOOLCHAINS[target].board.emulator).replace("-serial none", "-serial stdio").replace(
        "-nographic", "-display none")
    common = [str(path), "--target", target]
    assert cli.main(["verify", *common, "--folder", str(tmp_path / "verified")]) == 0
    strict = f"CFLAGS={' '.join(TOOLCHAINS[target].cflags)} -pedantic -Wall -Wextra -Wconversion -Wshadow -Werror"
    subprocess.run(["make", "-s", "server", strict], cwd=tmp_path / "verified", check=True)
    assert cli.main(["verify", *common, "--board", f"exec:{emulator} {tmp_path}/verified/server"]) == 0
    assert "tensors agree" in capsys.readouterr().out
    if target == "cortex-m4f":
        assert cli.main(["compile", *common, "-o", str(tmp_path / "plain")]) == 0
        subprocess.run(["make", "-s", "PROFILE=1", "server", strict], cwd=tmp_path / "plain", check=True)
        assert cli.main(["bench", *common, "--repeat", "2", "--board", f"exec:{emulator} {tmp_path}/plain/server"]) == 0
        assert "ticks" in (said := capsys.readouterr().out) and "conv1" in said
