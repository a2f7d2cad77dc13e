/* app/options/tls_conf.h — what the options say about TLS and about further listeners. */
#ifndef AS_APP_TLS_CONF_H
#define AS_APP_TLS_CONF_H

#include "conf/option/option.h"
#include "io/socket/listen.h"
#include "io/tls/tls_server.h"

/* The files of --tls-cert, --tls-key and --tls-client-ca. The texts are those of the options. */
struct as_tls_conf {
    const char *certs[AS_OPTION_ITEMS_MAX], *keys[AS_OPTION_ITEMS_MAX];
    struct as_tls_server_conf server; /* n == 0: no certificate is given; points into this struct */
};

/* Pairs the certificates with their keys; without any --tls-key each key is in the file of its
 * certificate. 0; AS_EINVALID: see err. */
int as_tls_conf_read(struct as_tls_conf *ret_c, const struct as_option_set *o, struct as_buf *err);

/* Loads the files and forgets them: for whoever starts a process that will load them. 0;
 * AS_EINVALID: see err. */
int as_tls_conf_check(const struct as_tls_conf *c, enum as_tls_expiry expiry, struct as_buf *err);

/* Where a --listen is: an address and a port, or the path of a unix socket. */
struct as_listen_spec {
    char host[AS_LISTEN_HOST_MAX]; /* "": a unix socket */
    uint16_t port;
    char path[108];
    bool tls;
};
/* "0.0.0.0:8443,tls", "[::1]:8000", "9000" (on `host`), "unix:/run/anyserve/http.sock". 0;
 * AS_EINVALID: see err. */
int as_listen_spec_parse(struct as_listen_spec *ret_s, const char *text, const char *host,
                         struct as_buf *err);

#endif
