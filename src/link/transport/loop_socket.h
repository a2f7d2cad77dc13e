/* link/transport/loop_socket.h — a unix socket as a transport, watched by a loop. */
#ifndef AS_LINK_LOOP_SOCKET_H
#define AS_LINK_LOOP_SOCKET_H

#include "io/loop/sock.h"
#include "link/transport/transport.h"

struct as_loop_socket {
    struct as_transport transport;
    struct as_sock sock;
    /* events: UV_READABLE, UV_WRITABLE; an error is reported as both */
    void (*on_event)(struct as_loop_socket *s, int events);
    void (*on_closed)(struct as_loop_socket *s); /* the memory may be freed */
};

/* Owns fd from here on. 0; AS_EIO: fd is closed, and no callback will come. */
int as_loop_socket_open(struct as_loop_socket *s, struct as_loop *l, int fd,
                        void (*on_event)(struct as_loop_socket *s, int events),
                        void (*on_closed)(struct as_loop_socket *s));

#endif
