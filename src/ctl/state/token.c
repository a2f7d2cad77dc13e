#include "ctl/state/token.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* By the open descriptor: the file that is checked is the one that is read. */
static int check_file(int fd, const char *path, struct as_buf *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        as_buf_printf(err, "cannot look at the token file %s: %s", path, strerror(errno));
        return AS_EIO;
    }
    if (!S_ISREG(st.st_mode)) {
        as_buf_printf(err, "the token file %s is not a regular file", path);
        return AS_EINVALID;
    }
    if (st.st_uid != geteuid() && st.st_uid != 0) {
        as_buf_printf(err, "the token file %s belongs to user %u, not to this one", path,
                      (unsigned)st.st_uid);
        return AS_EDENIED;
    }
    if (st.st_mode & 077) {
        as_buf_printf(err,
                      "the token file %s may be used by others (mode %04o); make it private: "
                      "chmod 600 %s",
                      path, (unsigned)(st.st_mode & 07777), path);
        return AS_EDENIED;
    }
    return 0;
}

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
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc;
    ssize_t n;

    if (fd < 0) {
        as_buf_printf(err, "cannot open the token file %s: %s", path, strerror(errno));
        return errno == ENOENT ? AS_ENOTFOUND : errno == EACCES ? AS_EDENIED : AS_EIO;
    }
    rc = check_file(fd, path, err);
    n = rc ? 0 : read(fd, text, sizeof(text));
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
