/* conf/option/option_listening.h — the options that say where a server listens, and to whom: rows
 * of the table in conf/option/option.h, which also explains their columns.
 */
#ifndef AS_CONF_OPTION_LISTENING_H
#define AS_CONF_OPTION_LISTENING_H

#define AS_OPTION_LISTENING_TABLE(X)                                                               \
    X(HOST, "host", STRING, 1, 255, "127.0.0.1", "ADDRESS", RDB, "Listening",                      \
      "address to listen on; 0.0.0.0 or :: for all")                                               \
    X(PORT, "port", INT, 0, 65535, "8000", "",                                                     \
      RDB | AS_SCOPE_CONTROLLER | AS_SCOPE_FIND | AS_SCOPE_IB, "Listening",                        \
      "-p N: gRPC and HTTP port; 0 takes any free port")                                           \
    X(GRPC_PORT, "grpc-port", INT, 0, 65535, "off", "off", RDB, "Listening",                       \
      "an additional port, for clients that expect gRPC on 8001")                                  \
    X(LISTEN, "listen", LIST, 0, 512, "", "ADDRESS:PORT[,tls]", RD, "Listening",                   \
      "one more place for clients: ADDRESS:PORT, PORT or unix:PATH; ',tls' for TLS; repeatable")   \
    X(TLS_CERT, "tls-cert", LIST, 0, 4095, "", "FILE", RD, "TLS",                                  \
      "certificate chain in PEM; --port and --grpc-port then speak TLS; several: by server name")  \
    X(TLS_KEY, "tls-key", LIST, 0, 4095, "", "FILE", RD, "TLS",                                    \
      "its private key in PEM; one for each --tls-cert; without: in the certificate's file")       \
    X(TLS_CLIENT_CA, "tls-client-ca", STRING, 0, 4095, "", "FILE", RD, "TLS",                      \
      "clients must send a certificate that one of these authorities (PEM) has signed")            \
    X(TLS_MIN_VERSION, "tls-min-version", ENUM, 0, 1, "1.2", "1.2|1.3", RD, "TLS",                 \
      "clients that speak only an older version are refused")                                      \
    X(TLS_TICKET_LIFETIME, "tls-ticket-lifetime", DURATION, 0, 86400 * AS_SEC, "1h", "off", RD,    \
      "TLS", "time in which a client can resume a session without a full handshake")               \
    X(TLS_HANDSHAKE_TIMEOUT, "tls-handshake-timeout", DURATION, AS_MS, 3600 * AS_SEC, "10s", "",   \
      RD, "TLS", "time from the connection to the end of its handshake")                           \
    X(MAX_HANDSHAKES, "max-handshakes", INT, 1, 1000000, "1024", "", RD, "TLS",                    \
      "handshakes in progress; a further client replaces the one that is silent for longest")      \
    X(STATUS_TLS, "status-tls", BOOL, 0, 1, "off", "", RD, "TLS",                                  \
      "the status port speaks TLS, too, and asks for the same certificate of clients")             \
    X(STATUS_KEYS, "status-keys", BOOL, 0, 1, "off", "", RD, "Listening",                          \
      "the status port asks for an API key that may use everything, but for /-/healthz")           \
    X(ROOT_PATH, "root-path", STRING, 0, 1024, "", "PATH", RD, "Listening",                        \
      "path below which clients see the server, without it in their requests: a proxy removes "    \
      "it; applications get it before root_path and path, as in Ray Serve")                        \
    X(STATUS_PORT, "status-port", INT, 0, 65535, "8002", "off", RDB, "Listening",                  \
      "/metrics, /status; if 8002 is in use, the next port")                                       \
    X(STATUS_HOST, "status-host", STRING, 1, 255, "127.0.0.1", "ADDRESS", RD, "Listening",         \
      "address of the status port; beyond loopback, whoever reaches it reads what is there, if "   \
      "there are no --status-keys, and any Host is accepted")                                      \
    X(METRICS_ON_CLIENT_PORT, "metrics-on-client-port", BOOL, 0, 1, "off", "", RD, "Listening",    \
      "also serve /metrics on the port of clients, to all of them, ahead of any application")      \
    X(CORS_ORIGIN, "cors-origin", STRING, 0, 4095, "", "ORIGINS", RD, "Listening",                 \
      "web pages of these sites may call models and applications and read the answers: "           \
      "https://HOST[:PORT], separated by commas")                                                  \
    X(CORS_MAX_AGE, "cors-max-age", DURATION, 0, 86400 * AS_SEC, "10m", "", RD, "Listening",       \
      "time for which a browser may remember that it may send such a request")                     \
    X(MANAGEMENT, "management", STRING, 0, 262, "", "ADDRESS:PORT", RB, "Listening",               \
      "also let workers register over TCP; they can always use management.sock")                   \
    X(MANAGEMENT_TOKEN_FILE, "management-token-file", STRING, 0, 4095, "", "PATH", RD,             \
      "Listening",                                                                                 \
      "file with the token of those workers; required with --management, readable only by its "    \
      "owner")                                                                                     \
    X(CONTROL, "control", STRING, 0, 262, "", "ADDRESS:PORT", RCB | AS_SCOPE_REMOTE, "Listening",  \
      "server: also serve the control API here; command: server to talk to")                       \
    X(CONTROL_TOKEN_FILE, "control-token-file", STRING, 0, 4095, "", "PATH", RC | AS_SCOPE_REMOTE, \
      "Listening",                                                                                 \
      "file with the token of the control API; required with --control, readable only by its "     \
      "owner")                                                                                     \
    X(RUNTIME_DIR, "runtime-dir", STRING, 0, 80, "", "DIR",                                        \
      RDB | AS_SCOPE_CONTROLLER | AS_SCOPE_FIND | AS_SCOPE_IB, "Listening",                        \
      "sockets and locks; default $XDG_RUNTIME_DIR/anyserve; docs/OPERATING.md")

#endif
