/* io/tls/tls_memory.h — where OpenSSL's memory lies.
 *
 * A connection costs it 10 KiB, and one in its handshake 50 KiB: of such there may be thousands at
 * once and then none, so larger blocks lie in slabs (base/memory/slab.h). In malloc's heap the
 * pages would stay.
 */
#ifndef AS_IO_TLS_MEMORY_H
#define AS_IO_TLS_MEMORY_H

/* A small block that cannot be had ends the process (as_fatal_memory). For the whole process. It
 * has no effect when OpenSSL has allocated before. Any thread. */
void as_tls_memory_use(void);
/* How many larger blocks could not be had so far. Any thread. */
unsigned as_tls_memory_failures(void);

#endif
