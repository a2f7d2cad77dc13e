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
    X(ROOT_PATH, "root-path", STRING, 0, 1024, "", "PATH", RD, "Listening",                        \
      "path below which clients see the server, without it in their requests: a proxy removes "    \
      "it; applications get it before root_path and path, as in Ray Serve")                        \
    X(STATUS_PORT, "status-port", INT, 0, 65535, "8002", "off", RDB, "Listening",                  \
      "/metrics, /status; if 8002 is in use, the next port")                                       \
    X(STATUS_HOST, "status-host", STRING, 1, 255, "127.0.0.1", "ADDRESS", RD, "Listening",         \
      "address of the status port; beyond loopback, whoever reaches it reads what is there, and "  \
      "any Host is accepted")                                                                      \
    X(METRICS_ON_CLIENT_PORT, "metrics-on-client-port", BOOL, 0, 1, "off", "", RD, "Listening",    \
      "also serve /metrics on the port of clients, to all of them, ahead of any application")      \
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
