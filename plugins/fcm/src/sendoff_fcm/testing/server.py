"""The sockets: :class:`Server` listens on loopback, closes a door and opens it again. All in the loop's thread."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from attrs import define, field

from sendoff_fcm.testing.http1 import Http1
from sendoff_fcm.testing.http2 import PREFACE, Http2
from sendoff_fcm.testing.link import Link
from sendoff_fcm.testing.site import Site

__all__ = ["HOST", "Door", "Server"]

#: Never another: what is served here hands out credentials to whoever asks.
HOST: Final = "127.0.0.1"
BACKLOG: Final = 1024


def _bound(port: int) -> socket.socket:
    """A socket that holds the port. Until it listens, the kernel refuses connections to it."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port))
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


@define(eq=False)
class Door:
    """One port, for as long as the server lives. ``socket``: always bound, so that nobody else gets the port."""

    port: int
    socket: socket.socket
    listening: bool = False
    links: set[Link] = field(factory=set)


class Server:
    """``doors``: the first for sending, the second for the token endpoint (each serves every path)."""

    def __init__(self, site: Site, loop: asyncio.AbstractEventLoop) -> None:
        self._site = site
        self._loop = loop
        self._greeting: set[asyncio.Task[None]] = set()
        self.doors: list[Door] = []

    def start(self, ports: tuple[int, ...]) -> None:
        """Listens on ``ports`` (0: any that is free). :class:`OSError` where one is taken."""
        for port in ports:
            held = _bound(port)
            door = Door(held.getsockname()[1], held)
            self.doors.append(door)
            self.open(door)

    def open(self, door: Door) -> None:
        """Accepts connections (again), from when this returns."""
        if not door.listening:
            door.socket.listen(BACKLOG)
            self._loop.add_reader(door.socket, self._accept, door)
            door.listening = True

    def refuse(self, door: Door) -> None:
        """Connections are refused from when this returns, open ones are reset; the port stays ours."""
        if door.listening:
            self._close(door)
            door.socket = _bound(door.port)
        self._hang_up([link for link in door.links if not link.spared])

    def stop(self) -> None:
        """Everything is closed, at once."""
        for door in self.doors:
            self._close(door)
            self._hang_up(list(door.links))

    async def stopped(self) -> None:
        """Once :meth:`stop` was called: waits, a turn or two, for connections that were just being accepted."""
        await asyncio.gather(*self._greeting)
        # Transports tell their protocols that they are closed in a turn of their own.
        await asyncio.sleep(0)

    def _close(self, door: Door) -> None:
        self._loop.remove_reader(door.socket)
        door.socket.close()
        door.listening = False

    @staticmethod
    def _hang_up(links: list[Link]) -> None:
        for link in links:
            link.abort()

    def _accept(self, door: Door) -> None:
        """Takes all that wait. No task waits on the socket: closing it is one call."""
        for _ in range(BACKLOG):
            try:
                connection, _address = door.socket.accept()
            except OSError:
                # Nobody left, gone meanwhile, or no file descriptor free: those who wait are tried again.
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._greet(door, connection))
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)

    async def _greet(self, door: Door, connection: socket.socket) -> None:
        _, link = await self._loop.connect_accepted_socket(
            lambda: Link(self._site, self._loop, door.links, (Http1, Http2), PREFACE), connection
        )
        if not door.listening:
            link.abort()
