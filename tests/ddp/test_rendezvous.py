# SPDX-License-Identifier: MIT
"""Ranks that find each other, and strangers that come in between: test_rendezvous.py TOY_TRAIN.

Ranks are started by hand, as torchrun would: without our launcher's nets each must come to its own end.
"""
import os
import random
import signal
import socket
import sys
import threading
import time

from processes import SLACK, Run, by_hand, check, expect, free_port, links, listeners, run_tests, wait_listening

TOY = sys.argv[1]
T = 3
GREETING_BYTES = 24
HELLO_BYTES = 56


def toy(steps=20, rendezvous=20, options="lr=1"):
    return [TOY, 0, steps, T, rendezvous, options]


def expect_all(runs, code, text, limit=30.0):
    for run in runs.values():
        got = run.finish(limit)
        check(got == code, f"exit code {got}, expected {code}; stderr:\n{run.err}")
        check(text in run.err, f"stderr lacks \"{text}\":\n{run.err}")


def receive(connection, count, limit=2 + SLACK):
    """Exactly count bytes, or what came before the end."""
    connection.settimeout(limit)
    data = b""
    try:
        while len(data) < count:
            piece = connection.recv(count - len(data))
            if not piece:
                break
            data += piece
    except ConnectionError:
        pass
    return data


# ---- ranks by hand ---------------------------------------------------------------------------------------------------


def test_by_hand():
    for order in ((0, 1, 2, 3), (3, 2, 1, 0)):
        expect_all(by_hand(toy(), order, 4, free_port()), 0, "")


def test_schedulers():
    port = free_port()
    slurm = [Run(toy(), {"SLURM_PROCID": str(r), "SLURM_NTASKS": "2", "SLURM_LOCALID": str(r),
                         "MASTER_PORT": str(port)}) for r in range(2)]
    expect_all(dict(enumerate(slurm)), 0, "")
    mpi = [Run(toy(), {"OMPI_COMM_WORLD_RANK": str(r), "OMPI_COMM_WORLD_SIZE": "2", "MASTER_PORT": str(port)})
           for r in range(2)]
    expect_all(dict(enumerate(mpi)), 0, "")


def test_a_missing_rank():
    runs = by_hand(toy(rendezvous=1), (0, 1, 2), 4, free_port())
    expect_all(runs, 5, "missing ranks: 3", limit=2)


def test_several_missing():
    expect_all(by_hand(toy(rendezvous=0.5), (0, 3), 6, free_port()), 5, "missing ranks: 1, 2, 4, 5", limit=1.5)


def test_rank_0_is_missing():
    expect_all(by_hand(toy(rendezvous=0.5), (1, 2), 3, free_port()), 5, "missing ranks: 0", limit=1.5)


def test_a_rank_comes_twice():
    port = free_port()
    runs = by_hand(toy(), (0, 1, 2), 4, port)
    runs["again"] = by_hand(toy(), (2,), 4, port)[2]
    expect_all(runs, 5, "rank 2 came twice", limit=1)


def test_another_world_size():
    port = free_port()
    runs = by_hand(toy(), (0, 1, 2), 4, port)
    runs[3] = by_hand(toy(), (3,), 5, port)[3]
    expect_all(runs, 5, "world sizes differ: 4 on rank 0 and 5 on rank 3", limit=1)


def test_other_options():
    port = free_port()
    runs = by_hand(toy(), (0, 2, 3), 4, port)
    runs.update(by_hand(toy(options="lr=2"), (1,), 4, port))
    expect_all(runs, 2, "option lr is 1 on rank 0 and 2 on rank 1", limit=1)


def test_wrong_numbers():
    for rank, world, text in ((4, 4, "RANK=4, but WORLD_SIZE=4"), (-1, 4, "RANK=-1"), ("4x", 4, "RANK=4x"),
                              (0, -1, "WORLD_SIZE=-1"), (0, 10**9, "WORLD_SIZE=1000000000")):
        run = Run(toy(), {"RANK": str(rank), "WORLD_SIZE": str(world)})
        expect(run, 2, text, limit=1)


def test_a_rank_leaves_during_the_rendezvous():
    runs = by_hand(toy(), (0, 1, 2), 4, free_port())
    wait_established(runs[0].pid, 2)
    os.kill(runs[2].pid, signal.SIGKILL)
    check(runs.pop(2).finish() == -9, "rank 2 is not dead")
    expect_all(runs, 5, "rank 2 ", limit=1)


def test_rank_0_dies_during_the_rendezvous():
    runs = by_hand(toy(), (0, 1, 2), 4, free_port())
    wait_established(runs[0].pid, 2)
    os.kill(runs[0].pid, signal.SIGKILL)
    check(runs.pop(0).finish() == -9, "rank 0 is not dead")
    expect_all(runs, 5, "rank 0 left", limit=1)


def wait_established(pid, count, limit=120):
    """Until the process holds this many connections besides its listening socket."""
    deadline = time.monotonic() + limit
    while sum("socket:" in target for target in links(pid)) < count + 1:
        check(time.monotonic() < deadline, f"process {pid} has not got {count} connections")
        time.sleep(0.005)
    time.sleep(0.1)   # for the hello behind the connection; too early only makes this the test of a stranger


def test_survivors_without_a_launcher():
    for number, limit in ((signal.SIGKILL, 1), (signal.SIGSTOP, T + 1)):
        runs = by_hand(toy(steps=100000), range(4), 4, free_port())
        wait_established(runs[0].pid, 3)
        os.kill(runs[2].pid, number)
        survivors = {rank: run for rank, run in runs.items() if rank != 2}
        expect_all(survivors, 1 if number == signal.SIGKILL else 6, "rank 2 ", limit=limit)
        if number == signal.SIGSTOP:
            os.kill(runs[2].pid, signal.SIGKILL)
        runs[2].finish()


# ---- where it listens, and ports -------------------------------------------------------------------------------------


def test_listens_on_127_0_0_1_only():
    run = Run([TOY, 2, 100000, T, 5, "lr=1"])
    run.wait_step(0, 1)
    port = port_of(run.ranks()[0])
    addresses = listeners(port)
    os.kill(run.pid, signal.SIGTERM)
    run.finish()
    check(addresses == ["0100007F"], f"listens on {addresses}")


def port_of(pid):
    with open(f"/proc/{pid}/environ") as environ:
        return next(int(v.split("=")[1]) for v in environ.read().split("\0") if v.startswith("MASTER_PORT="))


def test_two_launches_at_once():
    first, second = (Run([TOY, 4, 50, T, 5, "lr=1"]) for _ in range(2))
    expect(first, 0)
    expect(second, 0)


def test_two_launches_on_one_port():
    port = str(free_port())
    first = Run([TOY, 4, 100000, T, 5, "lr=1"], {"MASTER_PORT": port})
    first.wait_step(0, 1)
    expect(Run([TOY, 4, 5, T, 5, "lr=1"], {"MASTER_PORT": port}), 3, f"port {port}", limit=1)
    os.kill(first.pid, signal.SIGTERM)
    expect(first, 143)
    for _ in range(5):   # at once, again and again
        expect(Run([TOY, 4, 5, T, 5, "lr=1"], {"MASTER_PORT": port}), 0)


def test_a_port_held_by_a_stranger():
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = str(stranger.getsockname()[1])
        expect(Run([TOY, 4, 5, T, 5, "lr=1"], {"MASTER_PORT": port}), 3, f"port {port}", limit=1)
        runs = by_hand(toy(rendezvous=0.5), (0, ), 2, port)
        expect(runs[0], 3, f"port {port}", limit=1)
    expect(Run([TOY, 4, 5, T, 5, "lr=1"], {"MASTER_PORT": "70000"}), 2, "MASTER_PORT=70000", limit=1)


def test_another_program_answers():
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        runs = by_hand(toy(), (1,), 2, port)
        connection, _ = stranger.accept()
        connection.sendall(b"220 mail.example.org ESMTP ready\r\n")
        expect(runs[1], 5, "is not a rank 0 of this program", limit=1)
        connection.close()


# ---- strangers -------------------------------------------------------------------------------------------------------


def with_strangers(visit):
    """Ranks 0 to 2 of 4 wait; strangers visit; then rank 3 comes: the job must start at once, while they are there."""
    port = free_port()
    runs = by_hand(toy(), (0, 1, 2), 4, port)
    wait_listening(port)
    strangers = visit(port)
    started = time.monotonic()
    runs[3] = by_hand(toy(), (3,), 4, port)[3]
    expect_all(runs, 0, "")
    check(time.monotonic() - started < 1 + SLACK, "strangers held the job up")
    for stranger in strangers:
        stranger.close()


def connect(port):
    return socket.create_connection(("127.0.0.1", port), 5)


def saying(*messages):
    def visit(port):
        strangers = []
        for message in messages:
            strangers.append(connect(port))
            strangers[-1].sendall(message)
        return strangers
    return visit


def test_random_bytes():
    dice = random.Random(2)
    with_strangers(saying(*(dice.randbytes(size) for size in (1, 23, 55, 56, 57, 500, 100000))))


def test_http():
    with_strangers(saying(b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: stranger\r\nAccept: */*\r\n\r\n"))


def test_silence_and_64_sockets():
    with_strangers(lambda port: [connect(port) for _ in range(64)])


def test_300_sockets():
    """More than are kept at a time: the longest there make room."""
    with_strangers(lambda port: [connect(port) for _ in range(300)])


def test_half_a_message_and_lengths():
    """Heads of hellos with mad lengths and no right tag: nothing in them is believed."""
    heads = []
    for length in (0, 1, 2**31, 2**32 - 1):
        heads.append(b"DDPHEL1\0" + bytes(16) + bytes(16) + (3).to_bytes(4, "little") + (4).to_bytes(4, "little") +
                     (1).to_bytes(4, "little") + length.to_bytes(4, "little"))
    check(all(len(head) == HELLO_BYTES for head in heads), "a hello has another size")
    with_strangers(saying(heads[0][:30], *heads))


def test_strangers_are_dropped():
    """Within 2 s: one that is silent, one that doles out a byte each 100 ms. And at once: one with a wrong tag."""
    port = free_port()
    runs = by_hand(toy(rendezvous=20), (0, 1), 3, port)
    wait_listening(port)
    silent, slow, wrong = connect(port), connect(port), connect(port)
    for stranger in (silent, slow, wrong):
        check(receive(stranger, GREETING_BYTES)[:7] == b"DDPRDV1", "no greeting")
    wrong.sendall(bytes(HELLO_BYTES))
    check(len(receive(wrong, 1000)) == 24, "no refusal")
    started = time.monotonic()
    try:
        while time.monotonic() - started < 2 + SLACK:
            slow.sendall(b"D")
            time.sleep(0.1)
    except ConnectionError:
        pass
    check(time.monotonic() - started < 2 + SLACK, "the slow one was kept")
    check(receive(silent, 1) == b"", "the silent one was kept")
    runs.update(by_hand(toy(), (2,), 3, port))
    expect_all(runs, 0, "")


def test_a_wrong_token():
    port = free_port()
    runs = by_hand(toy(), (0, 1), 3, port)
    wait_listening(port)
    wrong = by_hand(toy(), (2,), 3, port, {"TORCHELASTIC_RUN_ID": "another job"})[2]
    expect(wrong, 5, "belongs to another launch", limit=1)
    runs.update(by_hand(toy(), (2,), 3, port))
    expect_all(runs, 0, "")


def test_a_replayed_hello():
    """Rank 2's hello, recorded by a false rank 0, then played to the true one before rank 2 itself has come."""
    with socket.socket() as false_rank_0:
        false_rank_0.bind(("127.0.0.1", 0))
        false_rank_0.listen()
        victim = by_hand(toy(), (2,), 3, false_rank_0.getsockname()[1])[2]
        connection, _ = false_rank_0.accept()
        connection.sendall(b"DDPRDV1\0" + bytes(16))
        hello = receive(connection, HELLO_BYTES + len("lr=1"))
        connection.close()
    check(victim.finish(1) == 5, "the victim went on")
    port = free_port()
    runs = by_hand(toy(), (0, 1), 3, port)
    wait_listening(port)
    with connect(port) as stranger:
        receive(stranger, GREETING_BYTES)
        stranger.sendall(hello)
        refusal = receive(stranger, 1000)
        check(len(refusal) == 24 and refusal[:16] == bytes(16), f"not turned away: {refusal!r}")
    runs.update(by_hand(toy(), (2,), 3, port))
    expect_all(runs, 0, "")


def test_a_rank_that_is_turned_out_comes_again():
    """Greeted, then lost in a rush of strangers; and when nobody listens any more, it gives up at once."""
    with socket.socket() as false_rank_0:
        false_rank_0.bind(("127.0.0.1", 0))
        false_rank_0.listen()
        rank = by_hand(toy(), (2,), 3, false_rank_0.getsockname()[1])[2]
        for _ in range(3):
            connection, _ = false_rank_0.accept()
            connection.sendall(b"DDPRDV1\0" + bytes(16))
            check(len(receive(connection, HELLO_BYTES)) == HELLO_BYTES, "no hello")
            connection.close()
    expect(rank, 5, "rank 0 left during the rendezvous", limit=1)


def test_a_token_is_not_shown():
    """The command line, which everybody can read, is the launcher's own."""
    command = [TOY, "2", "100000", str(T), "5", "lr=1"]
    run = Run(command)
    run.wait_step(0, 1)
    for pid in run.ranks():
        with open(f"/proc/{pid}/cmdline") as cmdline:
            check(cmdline.read().split("\0")[:-1] == command, "the command line is another one")
    os.kill(run.pid, signal.SIGTERM)
    run.finish()


def test_bytes_come_one_by_one():
    """Rank 1 behind a proxy that passes single bytes both ways: short reads everywhere, the same result."""
    port = free_port()
    with socket.socket() as proxy:
        proxy.bind(("127.0.0.1", 0))
        proxy.listen()
        runs = by_hand(toy(steps=3), (0, 2), 3, port)
        wait_listening(port)
        runs.update(by_hand(toy(steps=3), (1,), 3, proxy.getsockname()[1]))
        rank, _ = proxy.accept()
        rank_0 = connect(port)
        threads = [threading.Thread(target=pass_bytes, args=pair) for pair in ((rank, rank_0), (rank_0, rank))]
        for thread in threads:
            thread.start()
        expect_all(runs, 0, "")
        for thread in threads:
            thread.join()
        rank.close()
        rank_0.close()


def pass_bytes(source, target):
    target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while piece := source.recv(4096):
            for byte in piece:
                target.sendall(bytes([byte]))
                time.sleep(0.0005)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


run_tests([function for name, function in list(globals().items()) if name.startswith("test_")])
