"""Certificates of tests, by the `openssl` program: an authority, and what it signs."""

import subprocess
from pathlib import Path


def _openssl(*arguments, text=""):
    done = subprocess.run(["openssl", *map(str, arguments)], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Pair:
    """The files of a certificate and its key."""

    def __init__(self, cert: Path, key: Path):
        self.cert, self.key = cert, key

    @property
    def options(self):
        return ["--tls-cert", self.cert, "--tls-key", self.key]

    def replace_by(self, other):
        """As a tool does that renews certificates: two renames."""
        for mine, its in (self.cert, other.cert), (self.key, other.key):
            fresh = mine.with_suffix(".new")
            fresh.write_bytes(its.read_bytes())
            fresh.rename(mine)


class Authority:
    def __init__(self, folder: Path, name="authority"):
        self.folder, self.name = folder, name
        self.cert, self._key = folder / f"{name}.pem", folder / f"{name}.key"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 30, "-subj",
                 f"/CN={name}", "-keyout", self._key, "-out", self.cert)

    def sign(self, name, *names, addresses=(), rsa=False, not_after=None, not_before=None):
        """A certificate for these DNS names and addresses; without any it is a client's. Times: YYYYMMDDHHMMSSZ."""
        pair = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        request = self.folder / f"{name}.csr"
        kind = ["rsa:2048"] if rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        _openssl("req", "-newkey", *kind, "-nodes", "-subj", f"/CN={name}", "-keyout", pair.key, "-out", request)
        alternative = ",".join([f"DNS:{n}" for n in names] + [f"IP:{a}" for a in addresses])
        extensions = self.folder / f"{name}.ext"
        extensions.write_text((f"subjectAltName={alternative}\n" if alternative else "") + "basicConstraints=CA:FALSE\n")
        if not_after:
            database = self.folder / f"{name}.db"
            database.mkdir()
            (database / "index.txt").touch()
            (database / "ca.cnf").write_text(
                f"[ca]\ndefault_ca=a\n[a]\ndatabase={database}/index.txt\nnew_certs_dir={database}\nrand_serial=yes\n"
                "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
            _openssl("ca", "-batch", "-config", database / "ca.cnf", "-cert", self.cert, "-keyfile", self._key, "-in", request,
                     "-out", pair.cert, "-extfile", extensions, "-startdate", not_before or "20200101000000Z", "-enddate", not_after,
                     "-notext")
        else:
            _openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self._key, "-CAcreateserial", "-days", 20,
                     "-extfile", extensions, "-out", pair.cert)
        return pair

    def revoked(self):
        """A file with the list of its revoked certificates, which is empty."""
        config, crl = self.folder / f"{self.name}.crl.cnf", self.folder / f"{self.name}.crl"
        (self.folder / f"{self.name}.index").touch()
        config.write_text(f"[ca]\ndefault_ca=a\n[a]\ndatabase={self.folder}/{self.name}.index\ndefault_md=sha256\ndefault_crl_days=7\n")
        _openssl("ca", "-gencrl", "-config", config, "-cert", self.cert, "-keyfile", self._key, "-out", crl)
        return crl

    def below(self, name="below"):
        """An authority that this one has signed."""
        other = Authority(self.folder, name)
        extensions = self.folder / f"{name}.ext"
        extensions.write_text("basicConstraints=critical,CA:TRUE\n")
        _openssl("x509", "-in", other.cert, "-CA", self.cert, "-CAkey", self._key, "-CAcreateserial", "-days", 20,
                 "-extfile", extensions, "-out", other.cert)
        return other

    def server(self, name="server", **kwargs):
        return self.sign(name, "localhost", addresses=["127.0.0.1"], **kwargs)


def encrypt(key: Path, to: Path):
    _openssl("pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", to)
