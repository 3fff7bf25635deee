"""Networks on a board: Ingot's board protocol (docs/board-protocol.md) over a serial port, a socket or a process."""
from __future__ import annotations

import shlex
import socket
import struct
import subprocess
import time
import zlib
from dataclasses import dataclass

import numpy as np

from ..codegen.target import Target
from .binding import NetworkError
from .emulated import Count
from .library import CompiledLibrary

VERSION = 1
HELLO, WRITE, RUN, READ, PROFILE, NAMES, END = range(1, 8)
BAD_CRC, BAD_COMMAND, BAD_RANGE = -100, -101, -102
MAGIC, HEAD, SUM, REPLY = b"Ig", 8, 4, 0x80
MOST = 4096         # bytes of data that a board takes in a request
CHUNK = 1024        # bytes of a tensor in a frame: what is damaged is sent once more
RETRIES = 4         # of a frame
ANSWER = 2          # seconds that all but a run may take to be answered
BAUD = 115200
TIMEOUT = 60        # seconds that a run may take
_STATUS = {BAD_CRC: "it received a damaged frame", BAD_COMMAND: "it does not know the command",
           BAD_RANGE: "it has no such tensor, or a smaller one"}


class BoardError(RuntimeError):
    """A board that cannot be reached, does not answer, or runs another network."""


class _Silence(Exception):
    """Nothing comes from the port."""


# ---- ports ----------------------------------------------------------------------------------------------------------

def open_port(where, timeout=ANSWER):
    """What carries bytes, with read(n), which returns at most n bytes, none after `timeout` seconds, write(data) and
    close(). where: "tcp:HOST:PORT"; "exec:COMMAND", a process' standard input and output; else a serial port,
    "/dev/ttyACM0" or "COM3@921600" with its rate. Raises BoardError."""
    kind, _, rest = where.partition(":")
    try:
        if kind == "tcp":
            host, _, number = rest.rpartition(":")
            if not host or not number.isdigit():
                raise BoardError(f"{where!r} names no port: write tcp:HOST:PORT")
            return _Socket(host, int(number), timeout)
        return _Process(shlex.split(rest), timeout) if kind == "exec" else _serial(where, timeout)
    except OSError as error:
        raise BoardError(f"{where} cannot be opened: {error}") from error


class _Socket:
    def __init__(self, host, port, timeout):
        end = time.monotonic() + timeout
        while True:
            try:
                self.socket = socket.create_connection((host, port), timeout)
                return
            except ConnectionRefusedError:  # what listens there begins later
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def read(self, count):
        try:
            data = self.socket.recv(count)
        except TimeoutError:
            return b""
        if not data:
            raise ConnectionError("the other end is closed")
        return data

    def write(self, data):
        self.socket.sendall(data)

    def close(self):
        self.socket.close()


class _Process:
    """A process, whose pipes are a socket: its reads have a timeout everywhere."""

    def __init__(self, command, timeout):
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(timeout)
        with theirs:
            self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs)

    read, write = _Socket.read, _Socket.write

    def close(self):
        self.socket.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _serial(where, timeout):
    try:
        import serial
    except ImportError:
        raise BoardError("serial ports need pyserial: pip install ingot[serial]") from None
    name, _, rate = where.partition("@")
    if rate and not rate.isdigit():
        raise BoardError(f"{rate!r} is no rate of a serial port: write {name}@{BAUD}")
    return serial.Serial(name, int(rate or BAUD), timeout=timeout)


# ---- the protocol ---------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Hello:
    """What a board says of the network that it runs. hz: ticks in a second, 0 without a clock."""

    version: int
    big_endian: bool
    inputs: int
    outputs: int
    calls: int
    hz: int
    name: str
    source_hash: str
    target: str


def frame(command, data=b"", sequence=0, status=0):
    """A frame as bytes."""
    body = MAGIC + struct.pack("<BBI", command, status & 0xFF, len(data) << 8 | sequence) + data
    return body + struct.pack("<I", zlib.crc32(body))


class Board:
    """A host's end of a port."""

    def __init__(self, port, timeout=TIMEOUT):
        """timeout: seconds that a run may take."""
        self._port, self._timeout, self._sequence, self._until = port, timeout, 0, 0.0

    def hello(self):
        """The Hello of the board. Raises BoardError where it speaks another version of the protocol."""
        data = self._ask(HELLO)
        version, big, inputs, outputs, calls, hz = struct.unpack_from("<BBIIII", data)
        if version != VERSION:
            raise BoardError(f"the board speaks version {version} of the protocol, this Ingot {VERSION}: build its "
                             "program from a folder of this version")
        texts = [text.decode() for text in data[18:].split(b"\0")[:3]]
        return Hello(version, bool(big), inputs, outputs, calls, hz, *texts)

    def write(self, index, data):
        """Set input number `index`."""
        for start in range(0, len(data), CHUNK):
            self._ask(WRITE, struct.pack("<II", index, start) + data[start:start + CHUNK])

    def run(self):
        """Run the network; returns the ticks that it took. Raises NetworkError for a status but INGOT_OK."""
        return struct.unpack("<Q", self._ask(RUN))[0]

    def read(self, index, count):
        """The first `count` bytes of output number `index`."""
        return b"".join(self._ask(READ, struct.pack("<III", index, start, min(CHUNK, count - start)))
                        for start in range(0, count, CHUNK))

    def profile(self):
        """[(kernel, ticks)] of the last run; empty in a build without profiling."""
        ticks, names = self._ask(PROFILE), self._ask(NAMES)
        return list(zip((n.decode() for n in names.split(b"\0")), struct.unpack(f"<{len(ticks) // 4}I", ticks)))

    def end(self):
        """Let the board's program end."""
        self._ask(END)

    def close(self):
        self._port.close()

    def _ask(self, command, data=b""):
        """The data of the reply to a request, which is sent again where either of them comes damaged."""
        for _ in range(RETRIES):
            self._sequence = (self._sequence + 1) & 0xFF
            self._until = time.monotonic() + (self._timeout if command == RUN else ANSWER)
            try:
                self._port.write(frame(command, data, self._sequence))
                status, found = self._reply(command)
                if status is None and command != RUN:
                    self._port.write(bytes(MOST + SUM))  # the end of a frame whose length came damaged
            except OSError as error:
                raise BoardError(f"the board does not answer: {error}") from error
            if command == RUN and status is None:
                break
            if status is not None and status != BAD_CRC:
                break
        if status is None:
            raise BoardError("the board does not answer" + (f" within {self._timeout} s" if command == RUN else ""))
        if status == BAD_CRC:
            raise BoardError(f"{RETRIES} frames were damaged on the way: check the port's rate and wires")
        if status:
            said = _STATUS.get(status)
            raise BoardError(f"the board refuses: {said}") if said else NetworkError(
                f"the network on the board returned status {status}", status)
        return found

    def _reply(self, command):
        """(status, data) of the reply to a command: BAD_CRC for a damaged one, None where none comes."""
        try:
            return self._next_reply(command)
        except _Silence:
            return None, b""

    def _next_reply(self, command):
        while True:
            while (first := self._take(1)) != MAGIC[:1] or self._take(1) != MAGIC[1:]:
                pass  # what a program prints, or a part of a frame
            head = self._take(HEAD - len(MAGIC))
            answered, status, rest = struct.unpack("<BbI", head)
            data = self._take(rest >> 8)
            if struct.unpack("<I", self._take(SUM))[0] != zlib.crc32(first + MAGIC[1:] + head + data):
                return BAD_CRC, b""
            if answered == command | REPLY and rest & 0xFF == self._sequence:
                return status, data

    def _take(self, count):
        data = b""
        while len(data) < count:
            part = self._port.read(count - len(data))
            if not part and time.monotonic() > self._until:
                raise _Silence
            data += part
        return data


class BoardLibrary(CompiledLibrary):
    """A CompiledLibrary whose runs are those of the same network on a board, for static shapes."""

    def __init__(self, model, where, timeout=TIMEOUT, repeat=1):
        """where: see open_port; repeat: runs that count measures."""
        super().__init__(model)
        self._where, self._timeout, self._repeat, self._board = where, timeout, repeat, None

    def build(self):
        """Connect, and check that the board runs this network. Raises BoardError."""
        with self._lock:
            self._check_open()
            if self._dims:
                raise BoardError(f"boards run networks of constant shapes: give {', '.join(self._dims)} by --dim")
            if self._board is None:
                board = Board(open_port(self._where), self._timeout)
                try:
                    self.hello = self._checked_hello(board)
                except BaseException:
                    board.close()
                    raise
                self._board = board

    def _checked_hello(self, board):
        hello, model = board.hello(), self.model
        for what, there, here in (("network", hello.source_hash, model.model_hash), ("target", hello.target,
                                  Target.get(model.target).name), ("inputs", hello.inputs, len(model.inputs)),
                                  ("outputs", hello.outputs, len(model.outputs))):
            if there != here:
                raise BoardError(f"the board runs another network: its {what}: {there}, here: {here}; build its "
                                 "program from what verify --folder, for bench compile, writes with the same options")
        return hello

    def _run(self, dims, arrays, outputs):
        self._check_undecided(BoardError, "a board")
        with self._lock:
            self.build()
            order = ">" if self.hello.big_endian else "<"
            for n, array in enumerate(arrays):
                self._board.write(n, array.astype(array.dtype.newbyteorder(order)).tobytes())
            self._board.run()
            for n, output in enumerate(outputs):
                found = np.frombuffer(self._board.read(n, output.nbytes), output.dtype.newbyteorder(order))
                output[...] = found.reshape(output.shape)
        return outputs

    def count(self):
        """The Count of a run on what the inputs hold: the least of several; kernels of the last one, in a build with
        profiling. Raises BoardError where the board has no clock."""
        with self._lock:
            self.build()
            if not self.hello.hz:
                raise BoardError("the board has no clock: give its ingot_port one")
            least = min(self._board.run() for _ in range(self._repeat))
            return Count(tuple(self._board.profile() if self.hello.calls else ()), least, "ticks", self.hello.hz)

    def close(self):
        with self._lock:
            if self._board is not None:
                self._board.close()
                self._board = None
            super().close()
