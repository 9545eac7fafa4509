"""What the local FCM does to connections, seen by an ordinary client."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import h2.connection
import httpx
import pytest

from plugins.fcm.tests.test_local_fcm import HTTP1, HTTP2, client_for, send
from sendoff_fcm.testing import Answer, Fault, LocalFCM

pytest_plugins = ["sendoff_fcm.testing.fixtures"]

BROKEN = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


@pytest.mark.parametrize("protocol", [HTTP1, HTTP2])
@pytest.mark.parametrize(
    ("fault", "accepted"),
    [
        (Fault.DROP, True),
        (Fault.CLOSE, True),
        (Fault.DROP_MID_BODY, True),
        (Fault.RST_STREAM, False),
        (Fault.GOAWAY, False),
    ],
)
def test_an_answer_that_does_not_come_whole(fault: Fault, accepted: bool, protocol: str, local_fcm: LocalFCM) -> None:
    local_fcm.answer("phone", fault, "accepted")
    with client_for(local_fcm, protocol) as client:
        with pytest.raises(BROKEN):
            send(client, local_fcm, "phone")
        (request,) = local_fcm.requests
        assert (fault, accepted) == (request.fault, request.accepted)
        assert (200 if fault is Fault.DROP_MID_BODY else None) == request.status
    with client_for(local_fcm, protocol) as client:
        assert 200 == send(client, local_fcm, "phone").status_code


@pytest.mark.parametrize("protocol", [HTTP1, HTTP2])
def test_dropped_before_the_request_is_read(protocol: str, local_fcm: LocalFCM) -> None:
    local_fcm.answer_next(Fault.DROP_UNREAD)
    with client_for(local_fcm, protocol) as client:
        with pytest.raises(BROKEN):
            send(client, local_fcm, "phone")
        assert [] == local_fcm.requests
        assert 200 == send(client, local_fcm, "phone").status_code


@pytest.mark.parametrize("protocol", [HTTP1, HTTP2])
@pytest.mark.parametrize("fault", [Fault.HANG, Fault.HANG_MID_BODY])
def test_an_answer_that_hangs(fault: Fault, protocol: str, local_fcm: LocalFCM) -> None:
    local_fcm.answer("phone", fault, "accepted")
    with client_for(local_fcm, protocol) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post(local_fcm.send_url, json={"message": {"token": "phone"}}, timeout=0.1)
        assert 200 == send(client, local_fcm, "phone").status_code
    assert [True, True] == [request.accepted for request in local_fcm.requests]


def test_a_stream_that_is_reset_leaves_the_others_alone(local_fcm: LocalFCM) -> None:
    local_fcm.answer("reset", Fault.RST_STREAM)
    with client_for(local_fcm) as client:
        send(client, local_fcm, "phone")
        with pytest.raises(httpx.RemoteProtocolError, match="error_code:7"):
            send(client, local_fcm, "reset")
        send(client, local_fcm, "phone")
    assert 1 == local_fcm.counters.connections


def test_goaway_leaves_out_the_stream_that_was_not_processed(local_fcm: LocalFCM) -> None:
    """The client (httpcore) sends such a request again by itself, on another connection, unless it was the first."""
    local_fcm.answer("third", Fault.GOAWAY, "accepted")
    with client_for(local_fcm) as client:
        assert [200, 200, 200] == [send(client, local_fcm, token).status_code for token in ("first", "second", "third")]
    assert [(1, 1, True), (1, 3, True), (1, 5, False), (2, 1, True)] == [
        (request.connection, request.stream, request.accepted) for request in local_fcm.requests
    ]


def test_goaway_after_the_answer(local_fcm: LocalFCM) -> None:
    local_fcm.answer("phone", Fault.GOAWAY_AFTER)
    for protocol in (HTTP1, HTTP2):
        with client_for(local_fcm, protocol) as client:
            assert 200 == send(client, local_fcm, "phone").status_code
    assert 2 == local_fcm.counters.connections


def test_goaway_before_the_answer(local_fcm: LocalFCM) -> None:
    """The answer comes, on a stream that the GOAWAY counts in. What a client makes of that is its own affair."""
    local_fcm.answer("phone", Fault.GOAWAY_BEFORE)
    client = h2.connection.H2Connection()
    client.initiate_connection()
    body = b'{"message": {"token": "phone"}}'
    head = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "127.0.0.1"),
        (":path", httpx.URL(local_fcm.send_url).path),
        ("authorization", f"Bearer {local_fcm.access_token()}"),
    ]
    client.send_headers(1, head)
    client.send_data(1, body, end_stream=True)
    with socket.create_connection(("127.0.0.1", httpx.URL(local_fcm.endpoint).port), timeout=10) as connection:
        connection.sendall(client.data_to_send())
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    frames = [frame for frame in frames_in(received) if frame[0] in {DATA, HEADERS, GOAWAY}]
    assert [(GOAWAY, 0), (HEADERS, 1), (DATA, 1)] == [frame[:2] for frame in frames]
    assert (1).to_bytes(4, "big") + bytes(4) == frames[0][2]


DATA, HEADERS, GOAWAY = 0, 1, 7


def frames_in(received: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Type, stream and payload of each frame: RFC 9113, 4.1."""
    while received:
        length = int.from_bytes(received[:3], "big")
        yield received[3], int.from_bytes(received[5:9], "big"), received[9 : 9 + length]
        received = received[9 + length :]


@pytest.mark.parametrize("protocol", [HTTP1, HTTP2])
def test_a_large_answer_passes_the_clients_window(protocol: str, local_fcm: LocalFCM) -> None:
    body = bytes(range(256)) * 4096
    local_fcm.answer("phone", Answer(200, {"content-type": "application/octet-stream"}, body))
    with client_for(local_fcm, protocol) as client:
        assert body == send(client, local_fcm, "phone").content
        assert body == send(client, local_fcm, "phone").content


@pytest.mark.parametrize("protocol", [HTTP1, HTTP2])
def test_a_large_request_is_read_and_one_that_is_too_large_refused(protocol: str, local_fcm: LocalFCM) -> None:
    with client_for(local_fcm, protocol) as client:
        answer = client.post(local_fcm.send_url, content=b" " * 1_000_000 + b"{}")
        assert (400, "INVALID_ARGUMENT") == (answer.status_code, answer.json()["error"]["status"])
        answer = client.post(local_fcm.send_url, content=b" " * 3_000_000)
        assert (413, "text/html; charset=UTF-8") == (answer.status_code, answer.headers["content-type"])
        assert 200 == send(client, local_fcm, "phone").status_code


def test_an_http1_request_in_chunks_and_one_that_asks_first(local_fcm: LocalFCM) -> None:
    with client_for(local_fcm, HTTP1) as client:
        parts = [b'{"message": ', b'{"token": "phone"}}']
        assert 200 == client.post(local_fcm.send_url, content=iter(parts)).status_code
        answer = client.post(local_fcm.send_url, content=b"".join(parts), headers={"expect": "100-continue"})
        assert 200 == answer.status_code
    assert 1 == local_fcm.counters.connections
