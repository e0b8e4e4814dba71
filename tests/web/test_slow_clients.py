"""Clients that send no question, or do not take the answer, are let go; others are not."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from sfumato.web.app import patient
from sfumato.web.command import bound

TICK, STALL = 0.3, 0.6
PIECE = b"x" * 2**18
HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


async def application(scope: Any, receive: Any, send: Any) -> None:
    """An endless answer to /endless, after a while a short one to everything else."""
    await receive()
    gone = asyncio.ensure_future(receive())
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while scope["path"] == "/endless" and not gone.done():
        await send({"type": "http.response.body", "body": PIECE, "more_body": True})
        await asyncio.sleep(0)
    await asyncio.sleep(3 * TICK)
    await send({"type": "http.response.body", "body": b"done"})
    gone.cancel()


@pytest.fixture
def server() -> Iterator[tuple[uvicorn.Server, int]]:
    """uvicorn with short limits, and its port."""
    listener = bound("127.0.0.1", 0)
    config = uvicorn.Config(
        application,
        http=patient(head_seconds=TICK, stall_seconds=STALL),
        lifespan="off",
        log_level="critical",
        timeout_keep_alive=60,
    )
    found = uvicorn.Server(config)
    thread = threading.Thread(target=asyncio.run, args=(found.serve(sockets=[listener]),))
    thread.start()
    yield found, listener.getsockname()[1]
    found.should_exit = found.force_exit = True
    thread.join(20)
    assert not thread.is_alive()


def connected(port: int) -> socket.socket:
    for _ in range(200):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=20)
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise ConnectionRefusedError


@pytest.mark.parametrize("begun", [b"", HEAD, HEAD + b"\r\n" + HEAD], ids=["silent", "half a head", "half a second"])
def test_half_a_request_is_not_waited_for(server: tuple[uvicorn.Server, int], begun: bytes) -> None:
    with connected(server[1]) as client:
        client.sendall(begun)
        heard = b""
        while piece := client.recv(4096):  # ends when the server closes, fails by a timeout when it does not
            heard += piece
    assert (b"done" in heard) == (begun.count(b"\r\n\r\n") == 1)  # a slow answer is not broken off


def test_an_answer_that_nobody_takes_is_dropped(server: tuple[uvicorn.Server, int]) -> None:
    with connected(server[1]) as client:
        client.sendall(HEAD.replace(b"/ ", b"/endless ", 1) + b"\r\n")
        assert client.recv(1)
        deadline = time.monotonic() + 20
        while server[0].server_state.connections:
            assert time.monotonic() < deadline
            time.sleep(0.05)
