"""The files of TLS: what is wrong with them at the start, and what happens when they change."""

import fcntl
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import grpc
import httpx
import pytest

from security.certificates import Authority, Pair, encrypt
from support import paths, wait
from support.process.upgrading import Upgrade, wait_next
from support.protocol import oip, prometheus

pytestmark = pytest.mark.core


@pytest.fixture
def fresh(tmp_path):
    """An authority whose files this test may change."""
    return Authority(tmp_path)


def context(authority, **versions):
    return ssl.create_default_context(cafile=authority.cert)


def serial(server, authority, port=None):
    """Of the certificate that a new connection gets."""
    c = context(authority)
    with socket.create_connection(("127.0.0.1", port or server.port), oip.SECONDS) as raw, \
            c.wrap_socket(raw, server_hostname="localhost") as s:
        return s.getpeercert()["serialNumber"]


def handshakes(server):
    return prometheus.total(prometheus.parse(server.metrics()), "anyserve_tls_handshakes_total")


def anyserve(*arguments):
    return subprocess.run([str(a) for a in (paths.BINARY, *arguments)], capture_output=True, text=True, timeout=wait.SECONDS)


def reload(server, *options):
    return anyserve("reload", "--runtime-dir", server.runtime, "--port", server.port, *options)


def waiting_reload(server):
    return subprocess.Popen([str(a) for a in (paths.BINARY, "reload", "--runtime-dir", server.runtime, "--port", server.port)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class TestStart:
    def refused(self, *options, code=78):
        done = anyserve("run", paths.APPS / "echo.py", "--port", "0", *options)
        assert done.returncode == code, done
        return done.stderr

    def test_a_missing_file(self, authority, tmp_path):
        assert f"{tmp_path}/no.pem: No such file or directory" in self.refused("--tls-cert", tmp_path / "no.pem")

    def test_an_unreadable_kind_of_file(self, tmp_path):
        os.mkfifo(tmp_path / "fifo")
        assert "fifo is not a file" in self.refused("--tls-cert", tmp_path / "fifo")
        assert f"{tmp_path} is not a file" in self.refused("--tls-cert", tmp_path)

    def test_no_certificate_in_it(self, tmp_path):
        (tmp_path / "text").write_text("hello\n")
        assert "text holds no certificate in PEM" in self.refused("--tls-cert", tmp_path / "text")

    def test_no_key_in_it(self, authority):
        cert = authority.server("without_key").cert
        said = self.refused("--tls-cert", cert)
        assert f"--tls-cert {cert} holds no private key in PEM" in said and "if it is in another file: --tls-key FILE" in said

    def test_the_key_of_another_one(self, authority):
        a, b = authority.server("a"), authority.server("b")
        assert f"--tls-key {b.key} does not belong to the certificate {a.cert}" in self.refused("--tls-cert", a.cert, "--tls-key", b.key)

    def test_an_encrypted_key(self, authority, tmp_path):
        pair = authority.server("encrypted")
        encrypt(pair.key, tmp_path / "encrypted.key")
        assert "encrypted.key is encrypted" in self.refused("--tls-cert", pair.cert, "--tls-key", tmp_path / "encrypted.key")

    @pytest.mark.parametrize("start, end, text", [("20200101000000Z", "20210101000000Z", "has expired: 2021-01-01 00:00:00 UTC"),
                                                  ("20990101000000Z", "20990201000000Z", "is not valid before 2099-01-01")])
    def test_a_certificate_that_is_not_valid_now(self, authority, start, end, text):
        pair = authority.server(f"at{start}", not_before=start, not_after=end)
        assert f"{pair.cert}: the certificate {text}" in self.refused(*pair.options)

    def test_authorities_without_a_certificate(self, authority, tmp_path):
        (tmp_path / "ca").write_text("hello\n")
        for file in tmp_path / "ca", authority.revoked():
            said = self.refused(*authority.server("x").options, "--tls-client-ca", file)
            assert f"--tls-client-ca {file} holds no certificates of authorities" in said

    def test_an_expired_certificate_of_the_chain(self, authority, tmp_path):
        pair = authority.server("good")
        old = authority.server("old", not_after="20210101000000Z")
        chain = tmp_path / "chain.pem"
        chain.write_bytes(pair.cert.read_bytes() + old.cert.read_bytes())
        said = self.refused("--tls-cert", chain, "--tls-key", pair.key)
        assert f"--tls-cert {chain}: certificate 2 of the chain (old) has expired: 2021-01-01 00:00:00 UTC" in said

    @pytest.mark.parametrize("options, text", [
        (["--tls-key", "k"], "--tls-key needs a certificate: --tls-cert"),
        (["--tls-client-ca", "c"], "--tls-client-ca needs a certificate"),
        (["--status-tls"], "--status-tls needs a certificate"),
        (["--tls-cert", "a", "--tls-cert", "b", "--tls-key", "k"], "1 --tls-key for 2 --tls-cert"),
        (["--listen", "127.0.0.1:0,tls"], "--listen 127.0.0.1:0,tls needs a certificate"),
        (["--listen", "127.0.0.1"], "is not ADDRESS:PORT, PORT or unix:PATH"),
        (["--listen", "127.0.0.1:65536"], "is not ADDRESS:PORT, PORT or unix:PATH"),
        (["--listen", "127.0.0.1:1,ssl"], "',ssl' is not ',tls'"),
        (["--listen", "unix:/run/a,b"], "unix:/run/a,b': ',b' is not ',tls'"),
        (["--listen", "127.0.0.1:1,TLS"], "',TLS' is not ',tls'"),
        (["--listen", "unix:relative"], "the path of a unix socket is absolute"),
        (["--listen", "unix:/" + "x" * 107], "the path of a unix socket is absolute and has at most 107 bytes"),
        (["--max-handshakes", "0"], "max-handshakes"),
        (["--tls-min-version", "1.1"], "tls-min-version"),
    ])
    def test_options_that_do_not_fit(self, options, text):
        assert text in self.refused(*options, code=2)


class TestListen:
    def test_several_places(self, serve, authority, tmp_path):
        pair = authority.server("listen")
        path = f"/tmp/as-listen-{os.getpid()}.sock"
        server = serve("echo.py", *pair.options, "--listen", "127.0.0.1:0", "--listen", "0", "--listen", "127.0.0.1:0,tls",
                       "--listen", f"unix:{path}")
        clear = re.findall(r"http://127.0.0.1:(\d+)  the same", server.log.text())
        assert len(clear) == 2
        more = int(server.log.wait(r"https://127.0.0.1:(\d+)  the same")[1])
        for port in clear:
            assert httpx.get(f"http://localhost:{port}/v2/health/live").status_code == 200
        assert serial(server, authority, more) == serial(server, authority)
        with httpx.Client(transport=httpx.HTTPTransport(uds=path)) as client:
            assert client.get("http://x/v2/health/live").status_code == 200
        second = anyserve("run", paths.APPS / "echo.py", "--port", "0", "--listen", f"unix:{path}")
        assert second.returncode != 0 and "another process accepts connections there" in second.stderr
        assert os.path.exists(path)
        server.stop()
        assert not os.path.exists(path)

    def test_a_file_at_the_path_of_a_socket_stays(self, tmp_path):
        file = tmp_path / "file"
        file.write_text("mine")
        done = anyserve("run", paths.APPS / "echo.py", "--port", "0", "--listen", f"unix:{file}")
        assert done.returncode == 78 and "is not a socket" in done.stderr and file.read_text() == "mine"

    def test_as_many_addresses_as_there_may_be(self, serve, authority):
        """16 in clear text and 16 by TLS: each --listen here is one of either, and --port is one by TLS."""
        clear, tls = (["--listen", "127.0.0.1:0"], ["--listen", "127.0.0.1:0,tls"])
        pair = authority.server("many")
        server = serve("echo.py", *pair.options, *clear * 16, *tls * 15)
        ports = re.findall(r"http://127.0.0.1:(\d+)  the same", server.log.text())
        assert len(set(ports)) == 16
        for port in ports:
            assert httpx.get(f"http://127.0.0.1:{port}/v2/health/live").status_code == 200
        ports = re.findall(r"https://127.0.0.1:(\d+)  the same", server.log.text())
        assert len(set(ports)) == 15
        for port in ports:
            assert serial(server, authority, int(port))
        server.replace_dispatcher()
        server.expect_error("dispatcher")
        run = ["run", paths.APPS / "echo.py", "--port", "0", *pair.options]
        done = anyserve(*run, *clear * 17)
        assert done.returncode == 2 and "--listen 127.0.0.1:0 is too much" in done.stderr and "in clear text at most at 16 addresses" in done.stderr
        done = anyserve(*run, *tls * 16)
        assert done.returncode == 2 and "--listen 127.0.0.1:0,tls is too much" in done.stderr and "by TLS at most at 16 addresses" in done.stderr
        done = anyserve(*run, *clear * 16, "--listen", "unix:/tmp/as-too-many.sock")
        assert done.returncode == 2 and "--listen unix:/tmp/as-too-many.sock is too much" in done.stderr
        assert not os.path.exists("/tmp/as-too-many.sock")

    def test_the_place_is_named(self):
        def said(place):
            done = anyserve("run", paths.APPS / "echo.py", "--port", "0", "--listen", place)
            assert done.returncode != 0
            return done.stderr

        assert "--listen 192.0.2.1:9000: '192.0.2.1' is not an address of this machine" in said("192.0.2.1:9000")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            place = f"127.0.0.1:{taken.getsockname()[1]}"
            text = said(place)
            assert f"--listen {place}: port {place[10:]} on 127.0.0.1 is taken by" in text and "--listen ADDRESS:N" in text

    def test_a_socket_that_others_may_use_stays(self, tmp_path):
        """Whether anybody uses it cannot be seen: it is no stream, as for one that may not be connected to."""
        path = f"/tmp/as-datagrams-{os.getpid()}.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(path)
            try:
                done = anyserve("run", paths.APPS / "echo.py", "--port", "0", "--listen", f"unix:{path}")
                assert done.returncode == 75 and "another process may use" in done.stderr and os.path.exists(path)
            finally:
                os.unlink(path)

    def test_the_socket_of_another_process_stays(self, serve):
        """One that has taken the path meanwhile."""
        path = f"/tmp/as-taken-{os.getpid()}.sock"
        server = serve("echo.py", "--listen", f"unix:{path}")
        os.unlink(path)
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path)
            s.listen()
            server.stop()
            assert os.path.exists(path)
            os.unlink(path)

    def test_the_socket_of_a_killed_server_is_replaced(self, serve):
        path = f"/tmp/as-killed-{os.getpid()}.sock"
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path)
            s.listen()
        server = serve("echo.py", "--listen", f"unix:{path}")
        with httpx.Client(transport=httpx.HTTPTransport(uds=path)) as client:
            assert client.get("http://x/v2/health/live").status_code == 200
        with Upgrade(server) as upgrade:
            upgrade.finish()
        server.stop()
        assert not os.path.exists(path)


class TestReload:
    def test_renewed_files(self, serve, fresh):
        pair = fresh.server()
        server = serve("echo.py", *pair.options)
        first = serial(server, fresh)
        with httpx.Client(verify=context(fresh)) as client:  # an open connection goes on
            assert client.get(f"https://localhost:{server.port}/v2/health/live").status_code == 200
            pair.replace_by(fresh.server("renewed"))
            wait.until(lambda: serial(server, fresh) != first, "the new certificate is used")
            before = handshakes(server)
            assert client.get(f"https://localhost:{server.port}/v2/health/live").status_code == 200
            assert handshakes(server) == before
        server.log.wait("event=certificates_reloaded")

    def test_files_behind_links(self, serve, fresh, tmp_path):
        """As certbot leaves them: `live` has links to `archive`."""
        (tmp_path / "live").mkdir()
        pair = fresh.server()
        links = Pair(tmp_path / "live/cert.pem", tmp_path / "live/cert.key")
        links.cert.symlink_to(pair.cert), links.key.symlink_to(pair.key)
        server = serve("echo.py", *links.options)
        first = serial(server, fresh)
        pair.replace_by(fresh.server("renewed"))
        wait.until(lambda: serial(server, fresh) != first, "the new certificate is used")
        server.expect_error("certificates_reload_failed")  # of the watch, which may come between two renames

    def test_a_secret_of_kubernetes(self, serve, fresh, tmp_path):
        volume = tmp_path / "volume"
        for version in "12":
            pair = fresh.server(f"v{version}")
            (volume / f"..{version}").mkdir(parents=True)
            pair.cert.rename(volume / f"..{version}" / "tls.crt")
            pair.key.rename(volume / f"..{version}" / "tls.key")
        (volume / "..data").symlink_to("..1")
        for name in "tls.crt", "tls.key":
            (volume / name).symlink_to(f"..data/{name}")
        server = serve("echo.py", "--tls-cert", volume / "tls.crt", "--tls-key", volume / "tls.key")
        first = serial(server, fresh)
        (volume / "..data_tmp").symlink_to("..2")
        (volume / "..data_tmp").rename(volume / "..data")
        wait.until(lambda: serial(server, fresh) != first, "the new certificate is used")

    @pytest.mark.parametrize("break_it", ["cert", "key", "gone"])
    def test_broken_files_leave_the_former_ones(self, serve, fresh, break_it):
        pair = fresh.server()
        server = serve("echo.py", *pair.options)
        server.expect_error("certificates_reload_failed")
        first = serial(server, fresh)
        if break_it == "gone":
            pair.key.unlink()
        else:
            getattr(pair, break_it).write_text("hello")
        done = reload(server)
        assert done.returncode == 1 and done.stderr.startswith("anyserve: not reloaded: ") and str(fresh.folder) in done.stderr, done
        assert serial(server, fresh) == first
        pair.replace_by(fresh.server("mended"))
        assert (reload(server).returncode, reload(server).stdout) == (0, "reloaded\n")
        assert serial(server, fresh) != first

    def test_authorities_that_cannot_be_used(self, serve, fresh):
        """The former ones stay, and the dispatcher too."""
        me = fresh.sign("me")
        authorities = fresh.folder / "clients.pem"
        authorities.write_bytes(fresh.cert.read_bytes())
        server = serve("echo.py", *fresh.server().options, "--tls-client-ca", authorities)
        server.expect_error("certificates_reload_failed")
        dispatcher = server.dispatcher
        c = context(fresh)
        c.load_cert_chain(me.cert, me.key)
        for text in fresh.revoked().read_bytes(), b"", fresh.cert.read_bytes()[:300]:
            authorities.write_bytes(text)
            done = reload(server)
            assert done.returncode == 1 and f"--tls-client-ca {authorities} holds no certificates of authorities" in done.stderr, done
            with httpx.Client(verify=c) as client:
                assert client.get(f"https://localhost:{server.port}/v2/health/live").status_code == 200
        assert server.dispatcher == dispatcher

    def test_an_intermediate_authority(self, serve, fresh):
        """Clients that it has signed come in, and those of the authority above it do not."""
        below = fresh.below()
        server = serve("echo.py", *fresh.server().options, "--tls-client-ca", below.cert)
        c = context(fresh)
        mine = below.sign("mine")
        c.load_cert_chain(mine.cert, mine.key)
        with httpx.Client(verify=c) as client:
            assert client.get(f"https://localhost:{server.port}/v2/health/live").status_code == 200
        c = context(fresh)
        other = fresh.sign("other")
        c.load_cert_chain(other.cert, other.key)
        with httpx.Client(verify=c) as client, pytest.raises(httpx.TransportError):
            client.get(f"https://localhost:{server.port}/v2/health/live")

    def test_hangup(self, serve, fresh):
        pair = fresh.server()
        server = serve("echo.py", *pair.options)
        os.kill(server.supervisor, signal.SIGHUP)
        server.log.wait("event=certificates_reloaded")
        assert serial(server, fresh)

    def test_an_expired_certificate_is_taken_and_said(self, serve, fresh):
        """It is the clients that decide: a server that is started again must not stay away for it."""
        pair = fresh.server()
        server = serve("echo.py", *pair.options)
        old = fresh.server("old", not_after="20210101000000Z")
        pair.replace_by(old)
        assert reload(server).returncode == 0
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            serial(server, fresh)

    def test_without_certificates_there_is_nothing_to_read(self, serve):
        done = reload(serve("echo.py"))
        assert (done.returncode, done.stdout) == (0, "nothing to reload: the server has neither certificates nor API keys\n")

    def test_the_dispatcher_dies_before_it_has_read_them(self, serve, fresh):
        """The next one says whether they can be used."""
        pair = fresh.server()
        server = serve("echo.py", *pair.options)
        server.expect_error("dispatcher")
        for wrong in False, True:
            former, since = server.dispatcher, len(server.log.lines)
            os.kill(former, signal.SIGSTOP)
            with waiting_reload(server) as process:
                server.log.wait("event=reload ", since)
                if wrong:
                    server.expect_error("no_certificates|certificates_reload_failed")
                    pair.cert.write_text("hello")
                os.kill(former, signal.SIGKILL)
                out, err = process.communicate(timeout=wait.SECONDS)
            assert (process.returncode, out) == ((1, "") if wrong else (0, "reloaded\n")), err
            if not wrong:
                wait_next(server, former)

    def test_commands_wait_for_each_other(self, serve, fresh):
        """Else one could take the outcome of another one, which asked before a file had changed."""
        server = serve("echo.py", *fresh.server().options)
        assert reload(server).stdout == "reloaded\n"
        since = len(server.log.lines)
        with open(os.path.join(server.runtime, str(server.port), "reload.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = reload(server, "--timeout", "100ms")
            assert done.returncode == 4 and "another command waits for the server" in done.stderr, done
            assert "event=reload " not in server.log.text(since)
        assert reload(server).stdout == "reloaded\n"

    def test_while_there_is_no_dispatcher(self, serve, fresh):
        server = serve("echo.py", *fresh.server().options)
        server.expect_error("dispatcher")
        os.kill(server.dispatcher, signal.SIGKILL)
        done = reload(server)
        assert (done.returncode, done.stdout) == (0, "reloaded\n"), done

    def test_a_new_dispatcher_without_certificates(self, serve, fresh):
        """It says so, and that it is not ready, until there are some."""
        pair = fresh.server()
        server = serve("echo.py", *pair.options, "--listen", "127.0.0.1:0", "--threads", "2")
        clear = server.log.wait(r"http://127.0.0.1:(\d+)  the same")[1]
        server.expect_error("dispatcher")
        server.expect_error("no_certificates")
        text = pair.cert.read_bytes()
        pair.cert.write_text("hello")
        server.log.wait("event=certificates_reload_failed")
        server.expect_error("certificates_reload_failed")
        former = server.dispatcher
        os.kill(former, signal.SIGKILL)
        server.log.wait('event=no_certificates .*server.pem holds no certificate.*action="clients of ports with TLS are refused')
        server.wait_new_dispatcher(former)
        wait.until(lambda: server.status()["replicas"][0]["state"] == "ready", "the worker is back")
        assert not server.status()["server"]["ready"]
        assert httpx.get(f"http://localhost:{clear}/v2/health/ready").status_code != 200
        assert httpx.get(f"http://localhost:{clear}/v2/health/live").status_code == 200
        with grpc.insecure_channel(f"localhost:{clear}") as channel:
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=oip.SECONDS)
            assert next(watch) == b"\x08\x02"  # NOT_SERVING
            pair.cert.write_bytes(text)
            assert next(watch) == b"\x08\x01"  # SERVING
        assert server.status()["server"]["ready"]
        assert httpx.get(f"http://localhost:{clear}/v2/health/ready").status_code == 200
        assert serial(server, fresh)

    def test_files_that_come_back_with_their_folder(self, serve, tmp_path):
        """Which no watch of the folder tells: the files are read again from time to time."""
        folder, away = tmp_path / "etc", tmp_path / "away"
        folder.mkdir()
        authority = Authority(folder)
        assert anyserve("keys", "add", "me", "--file", folder / "keys").returncode == 0
        server = serve("echo.py", *authority.server().options, "--api-keys", folder / "keys")
        ca = Path(shutil.copy(authority.cert, tmp_path))
        for event in ("dispatcher", "no_certificates", "no_api_keys"):
            server.expect_error(event)
        former = server.dispatcher
        folder.rename(away)
        os.kill(former, signal.SIGKILL)
        for event in ("no_certificates", "no_api_keys"):
            server.log.wait(f"event={event} ")
        away.rename(folder)
        for event in ("certificates_reloaded", "keys_reloaded"):
            server.log.wait(f"event={event} ")
        with httpx.Client(verify=ssl.create_default_context(cafile=ca), base_url=f"https://localhost:{server.port}") as client:
            wait.until(lambda: client.get("/v2/health/ready").status_code == 200, "ready again")

    def test_under_load(self, serve, fresh):
        pair = fresh.server()
        server = serve("echo.py", *pair.options)
        server.expect_error("certificates_reload_failed")  # of the watch, which may come between two renames
        errors, stop = [], threading.Event()

        def work(http2):
            try:
                while not stop.is_set():
                    with httpx.Client(http2=http2, verify=context(fresh), timeout=wait.SECONDS) as client:
                        for _ in range(10):
                            assert client.get(f"https://localhost:{server.port}/v2/health/ready").status_code == 200
            except Exception as e:
                errors.append(repr(e))

        threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
        for t in threads:
            t.start()
        for i in range(8):
            before = serial(server, fresh)
            pair.replace_by(fresh.server(f"next{i}"))
            assert reload(server).returncode == 0
            assert serial(server, fresh) != before
        stop.set()
        for t in threads:
            t.join()
        assert not errors


class TestUpgrade:
    def test_files_that_cannot_be_used(self, serve, fresh):
        """The new dispatcher would refuse the clients of the former one."""
        pair = fresh.server()
        server = serve("echo.py", *pair.options)
        server.expect_error("certificates_reload_failed|upgrade_failed")
        first, former = serial(server, fresh), server.dispatcher
        pair.cert.write_text("hello")
        with Upgrade(server) as upgrade:
            said = upgrade.fail()
        assert f"the certificates cannot be loaded: --tls-cert {pair.cert} holds no certificate in PEM" in said
        assert serial(server, fresh) == first and server.dispatcher == former
        pair.replace_by(fresh.server("old", not_after="20210101000000Z"))  # clients decide about these
        with Upgrade(server) as upgrade:
            upgrade.finish()

    def test_keys_that_cannot_be_used(self, serve, tmp_path):
        keys = tmp_path / "keys"
        assert anyserve("keys", "add", "someone", "--file", keys).returncode == 0
        server = serve("echo.py", "--api-keys", keys)
        server.expect_error("keys_reload_failed|upgrade_failed")
        keys.write_text("name\n")
        with Upgrade(server) as upgrade:
            said = upgrade.fail()
        assert f"the API keys cannot be loaded: {keys}" in said

    def test_a_reload_meanwhile(self, serve, fresh):
        server = serve("echo.py", *fresh.server().options)
        with Upgrade(server) as upgrade:
            while upgrade.process.poll() is None:
                assert reload(server).stdout == "reloaded\n"
            upgrade.finish()

    def test_nothing_is_lost(self, serve, authority):
        """Connections end as in a drain: the answer says so, or GOAWAY; the client opens the next one."""
        server = serve("echo.py", *authority.server("upgraded").options)
        errors, done, stop = [], [0] * 4, threading.Event()

        def http(i):
            with httpx.Client(verify=context(authority), timeout=wait.SECONDS) as client:
                while not stop.is_set():
                    assert client.get(f"https://localhost:{server.port}/v2/health/live").status_code == 200
                    done[i] += 1

        def over_grpc(i):
            credentials = grpc.ssl_channel_credentials(authority.cert.read_bytes())
            with grpc.secure_channel(f"localhost:{server.port}", credentials, oip.TRANSPARENT) as channel:
                call = channel.unary_unary(f"/{oip.SERVICE}/ServerLive", request_serializer=lambda m: m.SerializeToString(),
                                           response_deserializer=oip.messages()["ServerLiveResponse"].FromString)
                while not stop.is_set():
                    assert call(oip.message("ServerLiveRequest"), timeout=oip.SECONDS).live
                    done[i] += 1

        def work(i):
            try:
                (over_grpc if i % 2 else http)(i)
            except Exception as e:
                errors.append(repr(e))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        wait.until(lambda: all(done), "every client was answered")
        with Upgrade(server) as upgrade:
            upgrade.finish()
        seen = list(done)
        wait.until(lambda: errors or all(a > b for a, b in zip(done, seen)), "every client is answered afterwards")
        stop.set()
        for t in threads:
            t.join()
        assert not errors

    def test_an_idle_connection_is_told(self, serve, authority):
        server = serve("echo.py", *authority.server("idle").options)
        with socket.create_connection(("127.0.0.1", server.port), oip.SECONDS) as raw, \
                context(authority).wrap_socket(raw, server_hostname="localhost") as s:
            s.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in s.recv(65536)
            with Upgrade(server) as upgrade:
                assert s.recv(65536) == b""  # close_notify
                upgrade.finish()

    def test_a_new_dispatcher_after_a_kill(self, serve, authority):
        server = serve("echo.py", *authority.server("killed").options)
        server.expect_error("dispatcher")
        first = serial(server, authority)
        server.replace_dispatcher()
        wait.until(server.all_ready, "the replica is back")
        assert serial(server, authority) == first
