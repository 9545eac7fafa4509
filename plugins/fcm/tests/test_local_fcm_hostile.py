"""Bytes that no client should send: the local FCM answers or hangs up, and serves the next one."""

from __future__ import annotations

import contextlib
import random
import socket

import h2.config
import h2.connection
import httpx
import pytest

from plugins.fcm.tests.test_local_fcm import HTTP1, HTTP2, client_for, send
from sendoff_fcm.testing import LocalFCM, case
from sendoff_fcm.testing.http2 import PREFACE

pytest_plugins = ["sendoff_fcm.testing.fixtures"]

SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def connected(fcm: LocalFCM) -> socket.socket:
    return socket.create_connection(("127.0.0.1", httpx.URL(fcm.endpoint).port or 0), timeout=10)


def told(fcm: LocalFCM, sent: bytes) -> bytes:
    """Everything that comes back to ``sent`` until the server hangs up; the client says that it has no more."""
    with connected(fcm) as connection:
        received = b""
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                received += part
        except (ConnectionResetError, BrokenPipeError):
            pass
        return received


def still_serves(fcm: LocalFCM) -> None:
    for protocol in (HTTP1, HTTP2):
        with client_for(fcm, protocol) as client:
            assert 200 == send(client, fcm, "phone").status_code


HTTP1_WRONG = [
    b"\r\n\r\nnonsense\r\n\r\n",
    b"GET\r\n\r\n",
    b"POST / HTTP/1.1\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"POST / HTTP/1.1\r\nhost: a\r\n" + b"x: " + b"y" * 200_000 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]


@pytest.mark.parametrize("sent", HTTP1_WRONG)
def test_what_is_not_http(sent: bytes, local_fcm: LocalFCM) -> None:
    assert told(local_fcm, sent)[:10] in {b"HTTP/1.1 4", b""}
    still_serves(local_fcm)


def test_a_malformed_request_is_answered_with_400(local_fcm: LocalFCM) -> None:
    assert told(local_fcm, b"nonsense nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert 1 == local_fcm.counters.broken


def test_a_length_beyond_all_bounds_is_refused_unread(local_fcm: LocalFCM) -> None:
    head = b"POST /token HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999\r\n\r\n"
    with connected(local_fcm) as connection:
        connection.sendall(head)
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")


HTTP2_WRONG = [
    PREFACE[:10],
    PREFACE,
    PREFACE + b"\xff" * 100,
    PREFACE + SETTINGS + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
    # HEADERS with an index that no table has; DATA on a stream that was never opened; a window of 0 more.
    PREFACE + SETTINGS + b"\x00\x00\x03\x01\x05\x00\x00\x00\x01\xff\xff\xff",
    PREFACE + SETTINGS + b"\x00\x00\x04\x00\x00\x00\x00\x00\x01abcd",
    PREFACE + SETTINGS + b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    # An even stream; GOAWAY; CONTINUATION from nowhere.
    PREFACE + SETTINGS + b"\x00\x00\x01\x01\x05\x00\x00\x00\x02\x82",
    PREFACE + SETTINGS + b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + b"\x00" * 8,
    PREFACE + SETTINGS + b"\x00\x00\x01\x09\x04\x00\x00\x00\x01\x82",
]


@pytest.mark.parametrize("sent", HTTP2_WRONG)
def test_what_is_not_http2(sent: bytes, local_fcm: LocalFCM) -> None:
    told(local_fcm, sent)
    still_serves(local_fcm)


@pytest.mark.parametrize("start", [b"", PREFACE, PREFACE + SETTINGS, b"POST / HTTP/1.1\r\nhost: a\r\n"])
def test_noise(start: bytes, local_fcm: LocalFCM) -> None:
    noise = random.Random(len(start))
    for _ in range(40):
        told(local_fcm, start + noise.randbytes(noise.randrange(1, 400)))
    still_serves(local_fcm)


def test_bytes_that_come_one_by_one(local_fcm: LocalFCM) -> None:
    body = b'{"message": {"token": "phone"}}'
    access = local_fcm.access_token()
    path = httpx.URL(local_fcm.send_url).path
    head = f"POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {access}\r\ncontent-length: {len(body)}\r\n\r\n"
    with connected(local_fcm) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(len(head)):
            connection.sendall(head[place : place + 1].encode())
        connection.sendall(body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_requests_sent_ahead_are_answered_in_order(local_fcm: LocalFCM) -> None:
    access = local_fcm.access_token()
    path = httpx.URL(local_fcm.send_url).path
    local_fcm.answer("first", case("internal", delay=0.05))
    sent = b""
    for token in ("first", "second"):
        body = f'{{"message": {{"token": "{token}"}}}}'
        sent += (
            f"POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {access}\r\n"
            f"content-length: {len(body)}\r\n\r\n{body}"
        ).encode()
    with connected(local_fcm) as connection:
        connection.sendall(sent)
        received = b""
        while received.count(b"HTTP/1.1") < 2:
            received += connection.recv(65536)
    assert received.index(b"HTTP/1.1 500") < received.index(b"HTTP/1.1 200")


def test_a_client_that_never_stops_sending_ahead_is_cut_off(local_fcm: LocalFCM) -> None:
    local_fcm.answer("phone", "hang")
    access = local_fcm.access_token()
    path = httpx.URL(local_fcm.send_url).path
    body = b'{"message": {"token": "phone"}}'
    head = f"POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {access}\r\ncontent-length: {len(body)}\r\n\r\n"
    with connected(local_fcm) as connection:
        connection.sendall(head.encode() + body)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            connection.sendall(b"x" * 64 * 1024 * 1024)


def test_streams_given_up_while_they_are_answered(local_fcm: LocalFCM) -> None:
    """Headers, data and reset in one write: the answer finds the stream gone."""
    access = local_fcm.access_token()
    client = h2.connection.H2Connection(h2.config.H2Configuration())
    client.initiate_connection()
    path = httpx.URL(local_fcm.send_url).path
    head = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", path)]
    for number in range(1, 400, 2):
        client.send_headers(number, [*head, ("authorization", f"Bearer {access}")])
        client.send_data(number, b'{"message": {"token": "phone"}}', end_stream=True)
        client.reset_stream(number)
    told(local_fcm, client.data_to_send())
    assert 200 == local_fcm.counters.requests
    assert 0 == local_fcm.counters.broken
    still_serves(local_fcm)


@pytest.mark.parametrize("head", [[], [(":method", "POST")], [(":path", "/")], [("x", "y")]])
def test_a_request_without_a_path_or_method(head: list[tuple[str, str]], local_fcm: LocalFCM) -> None:
    client = h2.connection.H2Connection(h2.config.H2Configuration(validate_outbound_headers=False))
    client.initiate_connection()
    client.send_headers(1, [*head, (":scheme", "http")], end_stream=True)
    told(local_fcm, client.data_to_send())
    still_serves(local_fcm)


def test_a_client_that_reads_nothing_holds_up_no_other(local_fcm: LocalFCM) -> None:
    ping = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + b"12345678"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", httpx.URL(local_fcm.endpoint).port or 0))
        connection.setblocking(False)
        connection.send(PREFACE + SETTINGS)
        with contextlib.suppress(BlockingIOError):
            # Until our own buffers, and those of the server that waits for us to read, are full.
            for _ in range(200):
                connection.send(ping * 500)
        still_serves(local_fcm)
