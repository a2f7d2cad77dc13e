/* io/socket/folder_socket.h — a connection to a unix socket that must lie below a folder of ours.
 *
 * The path is somebody else's word. It is walked below the folder without following a symlink, at
 * each connection anew, so that what was checked is what is connected to: the socket is opened
 * first, looked at, and connected to through that descriptor. Paths may be longer than a socket
 * address holds. Linux only (openat2 where the kernel has it, else a walk). Does not wait.
 */
#ifndef AS_IO_SOCKET_FOLDER_SOCKET_H
#define AS_IO_SOCKET_FOLDER_SOCKET_H

#include "base/err.h"
#include "base/str.h"

#define AS_FOLDER_SOCKET_PATH_MAX 1024u

/* Cuts the folder off an absolute path: 0 and the rest ("a/b.sock"), which has no empty, "." or
 * ".." segment. AS_EDENIED: it is not below the folder; AS_EINVALID: not absolute, too long, with
 * such a segment or a byte 0. *ret_why: static text. */
int as_folder_socket_relative_path(const char *folder, struct as_str path, struct as_str *ret_rest,
                                   const char **ret_why);

/* 0: a connected stream socket, non-blocking, close-on-exec, the caller's, and the pid of who
 * listened. AS_EDENIED: not a socket, not ours, behind a symlink, or listened at by another user;
 * AS_EUNAVAILABLE: nothing is there, or nobody listens; AS_EAGAIN: the listener's backlog is full;
 * AS_ENOMEM: no descriptor is left; AS_EIO: the folder is gone. *ret_why: static text. */
int as_folder_socket_connect(const char *folder, struct as_str rest, int *ret_fd, uint32_t *ret_pid,
                             const char **ret_why);

#endif
