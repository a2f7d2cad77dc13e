"""Proxies before a server: each with the least configuration that its manual gives for the purpose.

A Proxy is a program with its configuration in a folder of its own; it listens on a port of 127.0.0.1.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from support import wait


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


HAPROXY = """
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend front
    bind 127.0.0.1:{port}{h2_bind}
    default_backend models
backend models
    option httpchk
    http-check send meth GET uri /v2/health/ready{check}
    server s {address} check inter 200ms{h2_server}
"""
NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    client_max_body_size 64m;
    upstream models {{ server {address}; keepalive 4; }}
    server {{
        listen 127.0.0.1:{port}{h2};
        location / {{ {location} }}
    }}
}}
"""
APACHE = """
ServerRoot {folder}
ServerName localhost
PidFile {folder}/pid
ErrorLog {folder}/error.log
Listen 127.0.0.1:{port}
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule {module}_module /usr/lib/apache2/modules/mod_{module}.so
ProxyPass / {scheme}://{address}/
"""
LIGHTTPD = """
server.document-root = "{folder}"
server.port = {port}
server.bind = "127.0.0.1"
server.modules = ("mod_proxy")
server.stream-response-body = 2
proxy.server = ("" => (("host" => "{host}", "port" => {upstream})))
"""
SQUID = """
http_port 127.0.0.1:{port} accel defaultsite=localhost no-vhost
cache_peer {host} parent {upstream} 0 no-query originserver
http_access allow all
pid_filename none
access_log none
cache_log {folder}/error.log
coredump_dir {folder}
netdb_filename none
pinger_enable off
shutdown_lifetime 0 seconds
"""
VARNISH = 'vcl 4.1; backend default {{ .host = "{host}"; .port = "{upstream}"; .probe = {{ .url = "/v2/health/ready"; .interval = 1s; }} }}'
CADDY = """
{{
    admin off
    auto_https off
    storage file_system {folder}/data
    servers {{
        protocols h1 h2c
    }}
}}
http://127.0.0.1:{port} {{
    bind 127.0.0.1
    reverse_proxy {scheme}{address}
}}
"""
# name: (file, its text, values of its own, command, what it speaks to clients: 1, 2)
PROXIES = {
    "haproxy": ("conf", HAPROXY, {"h2_bind": "", "h2_server": "", "check": " ver HTTP/1.1 hdr Host localhost"},
                ["haproxy", "-q", "-db", "-f", "conf"], 1),
    "haproxy-h2": ("conf", HAPROXY, {"h2_bind": " proto h2", "h2_server": " proto h2", "check": ""},
                   ["haproxy", "-q", "-db", "-f", "conf"], 2),
    "nginx": ("conf", NGINX, {"h2": "", "location": "proxy_pass http://models; proxy_buffering off; "
                                                    'proxy_http_version 1.1; proxy_set_header Connection "";'},
              ["nginx", "-c", "{folder}/conf"], 1),
    "nginx-1.0": ("conf", NGINX, {"h2": "", "location": "proxy_pass http://models;"}, ["nginx", "-c", "{folder}/conf"], 1),
    "nginx-grpc": ("conf", NGINX, {"h2": " http2", "location": "grpc_pass grpc://models;"}, ["nginx", "-c", "{folder}/conf"],
                   2),
    "apache": ("conf", APACHE, {"module": "proxy_http", "scheme": "http"},
               ["/usr/sbin/apache2", "-D", "FOREGROUND", "-f", "{folder}/conf"], 1),
    "apache-h2": ("conf", APACHE, {"module": "proxy_http2", "scheme": "h2c"},
                  ["/usr/sbin/apache2", "-D", "FOREGROUND", "-f", "{folder}/conf"], 1),
    "lighttpd": ("conf", LIGHTTPD, {}, ["lighttpd", "-D", "-f", "conf"], 1),
    "squid": ("conf", SQUID, {}, ["squid", "-N", "-n", "as{port}", "-f", "{folder}/conf"], 1),
    "varnish": ("conf", VARNISH, {}, ["varnishd", "-F", "-a", "127.0.0.1:{port}", "-f", "{folder}/conf", "-n", "{folder}/n"], 1),
    "caddy": ("Caddyfile", CADDY, {"scheme": ""}, ["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"], 1),
    "caddy-h2": ("Caddyfile", CADDY, {"scheme": "h2c://"},
                 ["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"], 2),
}


class Proxy:
    def __init__(self, name, address):
        file, text, values, command, self.speaks = PROXIES[name]
        self.name, self.port = name, free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.folder = tempfile.mkdtemp(prefix="as-", dir="/tmp")
        os.chmod(self.folder, 0o777)  # squid and varnish become users of their own
        host, _, upstream = address.rpartition(":")
        values = {**values, "port": self.port, "folder": self.folder, "address": address, "host": host, "upstream": upstream}
        path = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])  # where Debian has servers
        program = shutil.which(command[0], path=path)
        assert program, f"{command[0]} is not installed: tools/setup.sh compat"
        Path(self.folder, file).write_text(text.format(**values))
        with Path(self.folder, "out").open("w") as out:
            self.process = subprocess.Popen([program, *(word.format(**values) for word in command[1:])], cwd=self.folder,
                                            stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                            env={**os.environ, "HOME": self.folder})
        wait.until(self.listens, lambda: f"{name} does not listen:\n{self.text()}")

    def listens(self):
        assert self.process.poll() is None, f"{self.name} ended:\n{self.text()}"
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def text(self):
        return "\n".join(p.read_text(errors="replace") for p in (Path(self.folder, "out"), Path(self.folder, "error.log"))
                         if p.exists())

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(wait.SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
