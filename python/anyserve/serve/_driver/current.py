"""The server that this process uses: found or started once, with the link by which calls leave."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import Any, Dict, List, Optional, Union

from .._calls.transport import Transport, set_driver
from ..config import ControllerOptions, HTTPOptions, LoggingConfig, gRPCOptions
from ..exceptions import RayServeException
from . import server as servers

logger = logging.getLogger("anyserve.serve")

LoggingOption = Union[Dict[str, Any], LoggingConfig, None]
ControllerOption = Union[None, Dict[str, Any], ControllerOptions]


def say(text: str) -> None:
    """A line for whoever runs the program."""
    try:
        sys.stderr.write("anyserve: %s\n" % text)
        sys.stderr.flush()
    except (ValueError, OSError, AttributeError):
        pass  # it is closed, or there is none


class Driver:
    """What this process knows of the server that it uses."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.server: Optional[servers.Server] = None
        self.applications: List[str] = []  # that this process has deployed
        self.grpc_servicer_functions: List[str] = []  # of those that it will deploy
        self._transport: Optional[Any] = None
        self._transport_folder = ""

    def transport(self) -> Transport:
        """Calls go to the server that is known, else to the one that is found."""
        with self.lock:
            folder = (self.server or self.need()).folder
            if self._transport is None or self._transport_folder != folder:
                from .._calls.native_transport import DriverTransport

                self._close_transport()
                self._transport = DriverTransport(path=os.path.join(folder, "link.sock"))
                self._transport_folder = folder
            transport: Transport = self._transport
            return transport

    def _close_transport(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self._transport = None

    def find(self) -> Optional[servers.Server]:
        """The server that was used before, else one that runs. In a replica: its own."""
        with self.lock:
            if self.server is not None and not self.server.is_alive():
                self.server = None
            if self.server is None:
                link = os.environ.get("ANYSERVE_LINK")
                if link:
                    self.server = servers.Server(os.path.dirname(link), int(os.path.basename(os.path.dirname(link))))
                else:
                    port = servers.default_port()
                    self.server = servers.find(port) if port else None
            return self.server

    def need(self) -> servers.Server:
        """RayServeException: there is none."""
        server = self.find()
        if server is None:
            raise RayServeException("There is no Serve instance running. serve.run() and serve.start() start one.")
        return server

    def find_or_start(self, options: servers.ServerOptions, detached: bool = False) -> servers.Server:
        with self.lock:
            if self.server is None and options.port is not None and options.port != 0:
                self.server = servers.find(options.port)
            server = self.find()
            if server is None:
                server = self.server = servers.start_detached(options) if detached else servers.start(options)
                say("the server is at %s, pid %s%s"
                     % (server.url, server.supervisor(), "; it stays when this program ends" if detached else ""))  # fmt: skip
            elif options != servers.ServerOptions():
                logger.warning("A server runs already (%s): the options of serve.start() have no effect.", server.url)
            return server

    def forget(self) -> None:
        with self.lock:
            self.server = None
            self.applications = []
            self._close_transport()

    def forked(self) -> None:
        """In the child of a fork: the server is the parent's. The transport makes a link of its own."""
        self.lock = threading.RLock()


driver = Driver()
set_driver(driver.transport)
os.register_at_fork(after_in_child=driver.forked)


def as_model(model: Any, value: Any) -> Any:
    return model() if value is None else model(**value) if isinstance(value, dict) else value


def no_effect(name: str, value: Any) -> None:
    if value:
        logger.warning("%s has no effect: there is one machine.", name)


def server_options(http: Union[None, Dict[str, Any], HTTPOptions], grpc: Union[None, Dict[str, Any], gRPCOptions],
                    logging_config: LoggingOption) -> servers.ServerOptions:  # fmt: skip
    fields: Dict[str, Any] = {}
    if http is not None:
        options = as_model(HTTPOptions, http)
        if options.ssl_keyfile_password:
            raise ValueError("http_options: ssl_keyfile_password is not supported: decrypt the key (openssl pkey -in FILE -out FILE)")
        given = options.model_fields_set
        fields["host"] = options.host if "host" in given else None
        fields["port"] = options.port if "port" in given else None
        fields["request_timeout_s"] = options.request_timeout_s
        # 0 of Ray is: at once, which the server's least value is
        fields["idle_timeout_s"] = max(options.keep_alive_timeout_s, 0.001) if "keep_alive_timeout_s" in given else None
        fields["root_path"] = options.root_path or None
        files = {"tls_cert": options.ssl_certfile, "tls_key": options.ssl_keyfile, "tls_client_ca": options.ssl_ca_certs}
        fields.update((name, os.path.abspath(path)) for name, path in files.items() if path)
        if options.root_url:
            logger.warning("http_options: root_url has no effect.")
    if grpc is not None:
        options = as_model(gRPCOptions, grpc)
        if "port" in options.model_fields_set:
            fields["grpc_port"] = options.port
        fields["grpc_reflection"] = None if options.enable_reflection else "off"
        if options.request_timeout_s is not None and fields.get("request_timeout_s") is None:
            fields["request_timeout_s"] = options.request_timeout_s
    if logging_config is not None:
        level = str(as_model(LoggingConfig, logging_config).log_level).lower()
        fields["log_level"] = {"warning": "warn", "critical": "error"}.get(level, level)
    return servers.ServerOptions(**fields)


def servicer_functions(grpc: Union[None, Dict[str, Any], gRPCOptions]) -> List[str]:
    """The import paths of `grpc_servicer_functions`. They are imported where an application's code is loaded."""
    functions = [] if grpc is None else as_model(gRPCOptions, grpc).grpc_servicer_functions
    return [f if isinstance(f, str) else "%s.%s" % (f.__module__, f.__qualname__) for f in functions]
