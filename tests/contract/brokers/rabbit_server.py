"""A private RabbitMQ for tests: one for a whole run, whichever of its processes asks first, and a virtual host for each
test. It listens on the loopback address only, and ends with the run.

Whoever does something to the broker itself, such as killing it, uses it `alone`; all others share it.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from urllib.parse import quote

import trustme

from tests.packages import need_program
from timebell.testing.fixtures import RUN_FOLDER

START_SECONDS = 120.0
QUESTION_SECONDS = 30.0
PASSWORD = "secret"
_KEEPER = Path(__file__).with_name("rabbit_keeper.py")

# Erlang, evaluated in the broker: answers whatever it is asked over a socket in a folder that is ours alone. The tool
# for operators would take two seconds of a processor for each question.
_QUESTIONS = """
spawn(fun() ->
    file:delete("{path}"),
    Options = [binary, {{packet, 4}}, {{active, false}}, {{backlog, 128}}],
    {{ok, Listener}} = gen_tcp:listen(0, [{{ifaddr, {{local, "{path}"}}}} | Options]),
    Answer = fun(Text) ->
        {{ok, Tokens, _}} = erl_scan:string(unicode:characters_to_list(Text)),
        {{ok, Expressions}} = erl_parse:parse_exprs(Tokens),
        {{value, Value, _}} = erl_eval:exprs(Expressions, []),
        Value
    end,
    Loop = fun Again() ->
        {{ok, Peer}} = gen_tcp:accept(Listener),
        case gen_tcp:recv(Peer, 0, 5000) of
            {{ok, Text}} ->
                Said = try {{ok, Answer(Text)}} catch Kind:Reason -> {{Kind, Reason}} end,
                gen_tcp:send(Peer, unicode:characters_to_binary(io_lib:format("~0tp", [Said])));
            _ ->
                nothing
        end,
        gen_tcp:close(Peer),
        Again()
    end,
    Loop()
end).
"""


class RabbitServer:
    """One running broker, known by its folder to all processes of the run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        known = json.loads((folder / "known.json").read_text())
        self.port: int = known["port"]
        self.tls_port: int = known["tls_port"]
        self.authority = folder / "authority.pem"
        self._numbers = count(1)

    def url(
        self, vhost: str = "/", *, user: str = "guest", password: str = "guest", port: int | None = None
    ) -> str:
        return f"amqp://{user}:{password}@127.0.0.1:{port or self.port}/{quote(vhost, safe='')}"

    def new_vhost(self) -> str:
        """A virtual host that nobody else has."""
        name = f"test-{os.getpid()}-{next(self._numbers)}"
        self.ask(f'ok = rabbit_vhost:add({_binary(name)}, <<"tests">>)')
        self.grant("guest", name)
        return name

    def new_user(self) -> str:
        """Somebody who may do nothing yet."""
        name = f"user-{os.getpid()}-{next(self._numbers)}"
        self.ask(
            f'ok = rabbit_auth_backend_internal:add_user({_binary(name)}, {_binary(PASSWORD)}, <<"tests">>)'
        )
        return name

    def grant(
        self, user: str, vhost: str, *, configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        rights = ", ".join(_binary(each) for each in (user, vhost, configure, write, read))
        self.ask(f'ok = rabbit_auth_backend_internal:set_permissions({rights}, <<"tests">>)')

    def cut(self, vhost: str) -> None:
        """End every connection to a virtual host."""
        self.ask(
            '[rabbit_networking:close_connection(element(2, lists:keyfind(pid, 1, Each)), "cut")'
            f" || Each <- rabbit_networking:connection_info_all([pid, vhost]),"
            f" lists:keyfind(vhost, 1, Each) == {{vhost, {_binary(vhost)}}}]"
        )

    def freeze(self, vhost: str, queue: str) -> None:
        """Have a queue stand still, as one that has lost its majority."""
        self.ask(f"sys:suspend({_process(vhost, queue)})")

    def thaw(self, vhost: str, queue: str) -> None:
        self.ask(f"sys:resume({_process(vhost, queue)})")

    def block(self) -> None:
        """Behave as if memory was short."""
        self.ask("rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []})")

    def unblock(self) -> None:
        self.ask("rabbit_alarm:clear_alarm({resource_limit, memory, node()})")

    def ask(self, expression: str) -> str:
        """What an expression in Erlang comes to, in the broker."""
        question = expression.encode() + b"."
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(QUESTION_SECONDS)
            peer.connect(str(self.folder / "questions"))
            peer.sendall(len(question).to_bytes(4, "big") + question)
            answer = b"".join(iter(lambda: peer.recv(65_536), b""))[4:].decode()
        assert answer.startswith("{ok,"), f"{expression}: {answer}"
        return answer.removeprefix("{ok,").removesuffix("}")

    def kill(self) -> None:
        """As when the machine fails: nobody is told."""
        self._order("kill")

    def stop(self) -> None:
        self._order("stop")

    def start(self) -> None:
        """Again, and wait until it is ready."""
        answer = self._order("start")
        assert answer == "ready", answer

    def wait(self) -> None:
        answer = self._order("wait")
        assert answer == "ready", f"{answer}:\n{(self.folder / 'log').read_text()[-4000:]}"

    def _order(self, order: str) -> str:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(START_SECONDS)
            peer.connect(str(self.folder / "orders"))
            peer.sendall(order.encode())
            return peer.recv(1000).decode()

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._held(fcntl.LOCK_SH):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._held(fcntl.LOCK_EX):
            yield

    @contextmanager
    def _held(self, how: int) -> Iterator[None]:
        """Whoever waits to be alone keeps those who come later from going before."""
        with ExitStack() as stack:
            use = stack.enter_context((self.folder / "use").open("ab"))
            with (self.folder / "turn").open("ab") as turn:
                fcntl.flock(turn, fcntl.LOCK_EX)
                fcntl.flock(use, how)
            yield


@cache
def shared_server() -> RabbitServer:
    """The one of this run, started by whoever asks first. One for a process: it counts the names that it has given."""
    need_program("rabbitmq-server")
    run = Path(os.environ[RUN_FOLDER])
    folder = run / "rabbit"
    with (run / "rabbit.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "known.json").exists():
            launch(folder)
        server = RabbitServer(folder)
        server.wait()
    return server


def launch(folder: Path) -> None:
    """Have a broker started that keeps its files in this folder, which is made. It may not be ready yet."""
    folder.mkdir(mode=0o700)
    port, tls_port, epmd_port, distribution_port = _free_ports(4)
    _write_certificates(folder)
    (folder / "questions.erl").write_text(_QUESTIONS.format(path=folder / "questions"))
    (folder / "broker.conf").write_text(_configuration(folder, port, tls_port))
    (folder / "plugins").write_text("[].\n")
    cookie = folder / ".erlang.cookie"
    cookie.write_text(secrets.token_hex(16))
    cookie.chmod(0o400)
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    (folder / "known.json").write_text(json.dumps({"port": port, "tls_port": tls_port}))
    subprocess.run(
        [sys.executable, "-I", "-S", str(_KEEPER), str(folder), str(owner)],
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=START_SECONDS,
        env=_environment(folder, epmd_port, distribution_port),
    )


def _configuration(folder: Path, port: int, tls_port: int) -> str:
    lines = {
        "listeners.tcp.default": f"127.0.0.1:{port}",
        "listeners.ssl.default": f"127.0.0.1:{tls_port}",
        "ssl_options.cacertfile": str(folder / "authority.pem"),
        "ssl_options.certfile": str(folder / "certificate.pem"),
        "ssl_options.keyfile": str(folder / "key.pem"),
        "ssl_options.verify": "verify_none",
        "log.console": "true",
        "log.console.level": "warning",
        "log.file": "false",
        "disk_free_limit.absolute": "10MB",
        "raft.wal_max_size_bytes": "64000000",
    }
    return "".join(f"{name} = {value}\n" for name, value in lines.items())


def _environment(folder: Path, epmd_port: int, distribution_port: int) -> dict[str, str]:
    """All that a broker would otherwise share with one that is installed here."""
    own = {
        "NODENAME": f"{folder.parent.name.replace('.', '-')}@localhost",
        "DIST_PORT": str(distribution_port),
        "CONF_ENV_FILE": "/dev/null",
        "CONFIG_FILE": str(folder / "broker.conf"),
        "ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
        "ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "MNESIA_BASE": str(folder / "data"),
        "LOG_BASE": str(folder / "logs"),
        "GENERATED_CONFIG_DIR": str(folder / "generated"),
        "SCHEMA_DIR": str(folder / "schema"),
        "PID_FILE": str(folder / "pid"),
        "SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 "
        f'-eval file:eval("{folder / "questions.erl"}")',
    }
    return {
        "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "ERL_EPMD_PORT": str(epmd_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_FLAGS": "-start_epmd false",
        "ERL_CRASH_DUMP_SECONDS": "0",
        # Without it a shell would stand between the keeper and the broker.
        "RUNNING_UNDER_SYSTEMD": "true",
        **{f"RABBITMQ_{name}": value for name, value in own.items()},
    }


def _write_certificates(folder: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(folder / "authority.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "certificate.pem")


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _process(vhost: str, queue: str) -> str:
    """What runs a quorum queue, by the name that the broker gives it."""
    return f'whereis(binary_to_atom(<<({_binary(vhost)})/binary, "_", ({_binary(queue)})/binary>>))'


def _binary(text: str) -> str:
    """As Erlang writes it."""
    return f'<<"{text}"/utf8>>'
