#include "ctl/state/token.h"

#include "ctl/state/secret_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* b64token = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"=" */
static bool is_valid_token(struct as_str s)
{
    while (s.n && s.p[s.n - 1] == '=')
        s.n--;
    for (size_t i = 0; i < s.n; i++) {
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/",
                    s.p[i]) ||
            !s.p[i])
            return false;
    }
    return s.n > 0;
}

int as_token_read(const char *path, char ret_token[AS_TOKEN_MAX + 1], struct as_buf *err)
{
    char text[AS_TOKEN_MAX + 3]; /* and "\r\n", and one byte to see that it is too long */
    struct as_str token = {text, 0};
    ssize_t n;
    int fd, rc = as_secret_file_open(path, "token file", &fd, err);

    if (rc)
        return rc;
    n = read(fd, text, sizeof(text));
    if (n < 0) {
        as_buf_printf(err, "cannot read the token file %s: %s", path, strerror(errno));
        rc = AS_EIO;
    }
    close(fd);
    if (rc)
        return rc;
    token.n = (size_t)n;
    while (token.n && (text[token.n - 1] == '\n' || text[token.n - 1] == '\r'))
        token.n--;
    if (!token.n) {
        as_buf_printf(err, "the token file %s is empty", path);
        return AS_EINVALID;
    }
    if (token.n > AS_TOKEN_MAX || !is_valid_token(token)) {
        as_buf_printf(err,
                      "the token file %s must hold one line of at most %u of A-Za-z0-9-._~+/ with "
                      "= at the end",
                      path, AS_TOKEN_MAX);
        return AS_EINVALID;
    }
    memcpy(ret_token, text, token.n);
    ret_token[token.n] = 0;
    return 0;
}
