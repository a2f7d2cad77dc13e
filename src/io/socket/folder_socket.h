/* io/socket/folder_socket.h — connects to a unix socket that must be below a given folder.
 *
 * The path comes from a peer that is not trusted. Each connection resolves it anew below the
 * folder, without following symlinks: the socket is opened with O_PATH, checked, and connected to
 * through that descriptor, so that the socket that was checked is the one that is connected to.
 * Paths may be longer than a socket address. Linux only (openat2, or on older kernels one openat
 * per segment). Does not block.
 */
#ifndef AS_IO_FOLDER_SOCKET_H
#define AS_IO_FOLDER_SOCKET_H

#include "base/err.h"
#include "base/str.h"

#define AS_FOLDER_SOCKET_PATH_MAX 1024u

/* The part of an absolute path behind the folder ("a/b.sock"), a slice of `path` without an empty,
 * "." or ".." segment. 0; AS_EDENIED: the path is not below the folder; AS_EINVALID: it is not
 * absolute, too long, or has such a segment or a byte 0. *ret_why: a static text. */
int as_folder_socket_relative_path(const char *folder, struct as_str path, struct as_str *ret_rest,
                                   const char **ret_why);

/* 0: *ret_fd is a connected stream socket (non-blocking, close-on-exec) that the caller owns,
 * *ret_pid the process that listens. AS_EDENIED: not a socket, the socket or the listener belongs
 * to another user, or the path has a symlink; AS_EUNAVAILABLE: there is no socket, or nobody
 * listens; AS_EAGAIN: the listener's backlog is full; AS_ENOMEM: out of descriptors. *ret_why: a
 * static text. */
int as_folder_socket_connect(const char *folder, struct as_str rest, int *ret_fd, uint32_t *ret_pid,
                             const char **ret_why);

#endif
