"""TLS of hostile clients: sessions over which attacks of HTTP are sent, and what attacks TLS itself.

    tests/attack/attacks.py NAME HOST:PORT --tls

RECORDS: name → what makes, once a session is there, the bytes that are sent in bulk. They are encrypted by hand with the keys that the
session logs, as no library sends these messages without end: RFC 5246 §6.3 and RFC 5288 for TLS 1.2, RFC 8446 §5 and §7 for TLS 1.3.
"""

import ctypes
import ctypes.util
import hmac
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

SECONDS = 30     # until a handshake has to be done
MANY = 5000      # messages of a connection
RECORD = 0x17    # application data
ALERT = 0x15
HANDSHAKE = 0x16
GCM_GET_TAG = 0x10


def context(alpn=(), version=None):
    """A client's that trusts everybody."""
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
    if alpn:
        c.set_alpn_protocols(list(alpn))
    if version:
        c.minimum_version = c.maximum_version = version
    return c


def wrap(sock, alpn):
    """The connected socket as one of TLS, its handshake done."""
    sock.settimeout(SECONDS)
    return context(alpn).wrap_socket(sock)


def hello():
    """The first bytes of a client."""
    out = ssl.MemoryBIO()
    session = context().wrap_bio(ssl.MemoryBIO(), out)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        return out.read()


# --- records made by hand ---

def _crypto():
    lib = ctypes.CDLL(ctypes.util.find_library("crypto"))
    lib.EVP_CIPHER_CTX_new.restype = lib.EVP_aes_128_gcm.restype = lib.EVP_aes_256_gcm.restype = ctypes.c_void_p
    lib.EVP_EncryptInit_ex.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_char_p] * 2
    lib.EVP_EncryptUpdate.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
    lib.EVP_EncryptFinal_ex.argtypes = [ctypes.c_void_p] * 3
    lib.EVP_CIPHER_CTX_ctrl.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    return lib


CRYPTO = _crypto()
CONTEXT = CRYPTO.EVP_CIPHER_CTX_new()


def seal(key, nonce, plain, extra):
    """AES-GCM: what is encrypted, and its tag."""
    out, tag, n = ctypes.create_string_buffer(len(plain) + 16), ctypes.create_string_buffer(16), ctypes.c_int()
    cipher = CRYPTO.EVP_aes_128_gcm() if len(key) == 16 else CRYPTO.EVP_aes_256_gcm()
    ok = CRYPTO.EVP_EncryptInit_ex(CONTEXT, cipher, None, key, nonce) == 1 \
        and CRYPTO.EVP_EncryptUpdate(CONTEXT, None, ctypes.byref(n), extra, len(extra)) == 1 \
        and CRYPTO.EVP_EncryptUpdate(CONTEXT, out, ctypes.byref(n), plain, len(plain)) == 1 \
        and CRYPTO.EVP_EncryptFinal_ex(CONTEXT, ctypes.byref(out, len(plain)), ctypes.byref(n)) == 1 \
        and CRYPTO.EVP_CIPHER_CTX_ctrl(CONTEXT, GCM_GET_TAG, 16, tag) == 1
    assert ok, "libcrypto has refused to encrypt"
    return out.raw[:len(plain)] + tag.raw


class Session:
    """A handshake over a connected socket, and the secret that the client encrypts by."""

    def __init__(self, sock, version):
        with tempfile.NamedTemporaryFile("r") as log:
            c = context(version=version)
            c.keylog_filename = log.name
            if version == ssl.TLSVersion.TLSv1_2:
                c.set_ciphers("ECDHE+AESGCM")
            incoming, outgoing, heard = ssl.MemoryBIO(), ssl.MemoryBIO(), b""
            session = c.wrap_bio(incoming, outgoing)
            sock.settimeout(SECONDS)
            while True:
                try:
                    session.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    sock.sendall(outgoing.read())
                    data = sock.recv(65536)
                    if not data:
                        raise ConnectionResetError("the server has ended the handshake") from None
                    heard += data
                    incoming.write(data)
            sock.sendall(outgoing.read())
            lines = [line.split() for line in log.read().splitlines()]
        self.number = 0  # of the next record
        suite = session.cipher()[0]
        assert "GCM" in suite, suite
        self.hash = "sha384" if suite.endswith("SHA384") else "sha256"
        self.key_size, self.server_random = 32 if "256_GCM" in suite or "AES256" in suite else 16, heard[11:43]
        label = "CLIENT_RANDOM" if version == ssl.TLSVersion.TLSv1_2 else "CLIENT_TRAFFIC_SECRET_0"
        self.client_random, self.secret = next((bytes.fromhex(row[1]), bytes.fromhex(row[2])) for row in lines if row[0] == label)

    def expand(self, label, n):
        """HKDF-Expand-Label with an empty context, of at most one hash."""
        label = b"tls13 " + label
        return hmac.digest(self.secret, n.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0\1", self.hash)[:n]

    def record(self, kind, content):
        """Of TLS 1.3."""
        plain = content + bytes([kind])
        head = bytes([RECORD, 3, 3]) + (len(plain) + 16).to_bytes(2, "big")
        nonce = (int.from_bytes(self.expand(b"iv", 12), "big") ^ self.number).to_bytes(12, "big")
        self.number += 1
        return head + seal(self.expand(b"key", self.key_size), nonce, plain, head)

    def key_update(self):
        """One that asks for an answer; the next record is by the new keys."""
        out = self.record(HANDSHAKE, b"\x18\0\0\1\1")
        self.secret, self.number = self.expand(b"traffic upd", len(self.secret)), 0
        return out

    def prf(self, label, n):
        """Of TLS 1.2."""
        seed, out = label + self.server_random + self.client_random, b""
        a = seed
        while len(out) < n:
            a = hmac.digest(self.secret, a, self.hash)
            out += hmac.digest(self.secret, a + seed, self.hash)
        return out[:n]


def key_updates(sock, n=MANY, ends=False):
    """TLS 1.3: n times new keys, each of which the server has to derive, and to answer by new ones of its own; ends: then close_notify."""
    s = Session(sock, ssl.TLSVersion.TLSv1_3)
    out = [s.key_update() for _ in range(n)]
    if ends:
        out.append(s.record(ALERT, b"\1\0"))
    return b"".join(out)


def key_updates_and_data(sock, n=200_000, row=32):
    """The same with a byte of a body between as many as may come in a row: more answers than sockets take (net.ipv4.tcp_wmem)."""
    s = Session(sock, ssl.TLSVersion.TLSv1_3)
    out = [s.record(RECORD, b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")]
    for _ in range(n // row):
        out += [s.key_update() for _ in range(row)]
        out.append(s.record(RECORD, b" "))
    return b"".join(out)


def renegotiations(sock, n=MANY):
    """TLS 1.2: n times the beginning of another handshake in the same session."""
    s = Session(sock, ssl.TLSVersion.TLSv1_2)
    keys = s.prf(b"key expansion", 2 * s.key_size + 8)
    key, salt, plain, out = keys[:s.key_size], keys[2 * s.key_size:][:4], hello()[5:], []
    for at in range(1, n + 1):  # the client's Finished was record 0
        number = at.to_bytes(8, "big")
        extra = number + bytes([HANDSHAKE, 3, 3]) + len(plain).to_bytes(2, "big")
        out.append(bytes([HANDSHAKE, 3, 3]) + (len(plain) + 24).to_bytes(2, "big") + number + seal(key, salt + number, plain, extra))
    return b"".join(out)


def broken_record(sock):
    """A session, and then what nobody has encrypted."""
    Session(sock, ssl.TLSVersion.TLSv1_3)
    return bytes([RECORD, 3, 3, 0, 64]) + bytes(64)


RECORDS = {"key_updates": key_updates, "key_updates_and_data": key_updates_and_data, "renegotiations": renegotiations, "broken": broken_record}


# --- handshakes ---

def shake_hands(address, seconds):
    """Full handshakes one behind the other: how long each took."""
    c, end, times = context(), time.monotonic() + seconds, []
    while (began := time.monotonic()) < end:
        with socket.socket() as s:
            s.settimeout(SECONDS)
            s.bind((f"127.0.1.{os.getpid() % 250 + 1}", 0))
            s.connect(address)
            with c.wrap_socket(s):
                times.append(time.monotonic() - began)
    return times


def flood_of_handshakes(address, seconds, processes):
    """As attacks.Gang.run; a handshake that fails is an error."""
    command = [sys.executable, __file__, address[0], str(address[1]), str(seconds)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    times = [float(t) for p in running for t in p.communicate()[0].split()]
    assert not any(p.returncode for p in running), "a handshake has failed"
    return {"made": len(times), "closed": 0, "goaways": {}, "slowest_close_s": 0, "median_close_s": 0, "oldest_open_s": 0,
            "handshakes_per_s": round(len(times) / seconds), "handshake_p50_ms": round(1e3 * statistics.median(times), 2)}


if __name__ == "__main__":
    print(*shake_hands((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])))
