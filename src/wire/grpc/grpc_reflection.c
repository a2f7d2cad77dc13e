#include "wire/grpc/grpc_reflection.h"

#include "wire/name_check.h"
#include "wire/protobuf/pb.h"
#include "wire/protobuf/pb_pack.h"
#include "wire/protobuf/pb_unpack.h"

#include <reflection.pb-c.h>

#define SERVICES_OF_OURS 64u  /* proto/ has about ten */
#define FILES_MAX        256u /* files of one answer; proto/ has about ten */

/* Generated: the FileDescriptorSets of proto/. */
extern const unsigned char as_grpc_reflection_clients[], as_grpc_reflection_management[];
extern const size_t as_grpc_reflection_clients_len, as_grpc_reflection_management_len;

typedef Grpc__Reflection__V1__ServerReflectionRequest request;
typedef Grpc__Reflection__V1__ServerReflectionResponse response;

/* --- descriptors; those of the user may be malformed, and are read up to there --- */

/* Field numbers of descriptor.proto. */
enum { SET_FILE = 1, NAME = 1, FILE_PACKAGE = 2, FILE_DEPENDENCY = 3, FILE_SERVICE = 6 };

/* Reads the length-delimited fields of a descriptor, one after the other. */
static bool next_field(struct as_pb *r, struct as_pb_field *f)
{
    int rc;

    while ((rc = as_pb_next(r, f)) == 1 && f->wire != AS_PB_LEN) {
    }
    return rc == 1;
}

/* The first field with this number; empty: there is none. */
static struct as_str get_field(struct as_str message, uint32_t number)
{
    struct as_pb r = as_pb_of(message);
    struct as_pb_field f;

    while (next_field(&r, &f)) {
        if (f.number == number)
            return f.s;
    }
    return (struct as_str){0};
}

static struct as_str descriptor_set(enum as_grpc_reflection_set set)
{
    if (set == AS_GRPC_REFLECTION_MANAGEMENT)
        return (struct as_str){(const char *)as_grpc_reflection_management,
                               as_grpc_reflection_management_len};
    return (struct as_str){(const char *)as_grpc_reflection_clients,
                           as_grpc_reflection_clients_len};
}

typedef struct as_grpc_reflection_source source;

/* The i-th set of a source: ours, then those of the user. */
static struct as_str set_of(const source *from, uint32_t i)
{
    return i ? from->sets[i - 1] : descriptor_set(from->set);
}

static struct as_str find_file(const source *from, struct as_str name)
{
    for (uint32_t i = 0; i <= from->n_sets; i++) {
        struct as_pb r = as_pb_of(set_of(from, i));
        struct as_pb_field f;

        while (next_field(&r, &f)) {
            if (f.number == SET_FILE && as_str_eq(get_field(f.s, NAME), name))
                return f.s;
        }
    }
    return (struct as_str){0};
}

/* For each kind of descriptor: what the field with number i contains. */
enum kind { A_FILE, A_MESSAGE, AN_ENUM, A_SERVICE, A_LEAF, KINDS };
static const enum kind children[KINDS][9] = {
    [A_FILE] = {[4] = A_MESSAGE, [5] = AN_ENUM, [6] = A_SERVICE, [7] = A_LEAF},
    [A_MESSAGE] = {[2] = A_LEAF, [3] = A_MESSAGE, [4] = AN_ENUM, [6] = A_LEAF, [8] = A_LEAF},
    [AN_ENUM] = {[2] = A_LEAF},
    [A_SERVICE] = {[2] = A_LEAF},
};

/* True: `name`, relative to this scope, is declared in the scope. */
static bool scope_declares(struct as_str scope, enum kind kind, struct as_str name)
{
    const char *dot = memchr(name.p, '.', name.n);
    struct as_str head = {name.p, dot ? (size_t)(dot - name.p) : name.n};
    struct as_str tail = {dot ? dot + 1 : NULL, dot ? name.n - head.n - 1 : 0};
    struct as_pb r = as_pb_of(scope);
    struct as_pb_field f;

    while (next_field(&r, &f)) {
        enum kind child = f.number < AS_COUNT(children[0]) ? children[kind][f.number] : A_FILE;

        if (child == A_FILE)
            continue;
        /* the values of an enum belong to the scope around the enum */
        if (child == AN_ENUM && scope_declares(f.s, AN_ENUM, name))
            return true;
        if (as_str_eq(get_field(f.s, NAME), head) &&
            (!dot ||
             (child != A_LEAF && child != AN_ENUM && tail.n && scope_declares(f.s, child, tail))))
            return true;
    }
    return false;
}

/* The part of a name behind "package."; empty: it is not of the package. */
static struct as_str in_package(struct as_str name, struct as_str package)
{
    if (!package.n)
        return name;
    if (name.n <= package.n + 1 || name.p[package.n] != '.' ||
        memcmp(name.p, package.p, package.n) != 0)
        return (struct as_str){0};
    return (struct as_str){name.p + package.n + 1, name.n - package.n - 1};
}

static struct as_str find_symbol(const source *from, struct as_str name)
{
    for (uint32_t i = 0; i <= from->n_sets; i++) {
        struct as_pb r = as_pb_of(set_of(from, i));
        struct as_pb_field f;

        while (next_field(&r, &f)) {
            struct as_str inner = in_package(name, get_field(f.s, FILE_PACKAGE));

            if (f.number == SET_FILE && inner.n && scope_declares(f.s, A_FILE, inner))
                return f.s;
        }
    }
    return (struct as_str){0};
}

struct as_str as_grpc_reflection_find_symbol(enum as_grpc_reflection_set set, struct as_str name)
{
    return find_symbol(&(source){.set = set}, name);
}

/* --- answers --- */

/* A file and everything that it imports, each file once, imported files later. */
struct file_closure {
    const source *from;
    ProtobufCBinaryData files[FILES_MAX];
    size_t n;
};

static void add_file(struct file_closure *c, struct as_str file)
{
    struct as_pb r = as_pb_of(file);
    struct as_pb_field f;

    for (size_t i = 0; i < c->n; i++) {
        if (c->files[i].data == (const uint8_t *)file.p)
            return;
    }
    if (!file.n || c->n == FILES_MAX)
        return;
    c->files[c->n++] = (ProtobufCBinaryData){file.n, (uint8_t *)(uintptr_t)file.p};
    while (next_field(&r, &f)) {
        if (f.number == FILE_DEPENDENCY)
            add_file(c, find_file(c->from, f.s));
    }
}

/* Appends the response, or nothing if there is no memory: a response is never empty otherwise,
 * since it repeats the request. */
/* The caller's part of the response ends with the caller. */
static void put_response(struct as_buf *out, response *r)
{
    (void)as_pb_pack(&r->base, out);
    r->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE__NOT_SET;
    r->error_response = NULL;
}

static void put_error(struct as_buf *out, response *r, int err, const char *what, const char *name)
{
    Grpc__Reflection__V1__ErrorResponse e;
    char text[256];

    grpc__reflection__v1__error_response__init(&e);
    /* a name that is cut inside a character would make the response unreadable */
    snprintf(text, sizeof(text), strlen(name) < sizeof(text) / 2 ? "%s '%s'" : "%s", what, name);
    e.error_code = (int32_t)as_err_grpc(err);
    e.error_message = text;
    r->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    r->error_response = &e;
    put_response(out, r);
}

static void put_file(struct as_buf *out, response *r, const source *from, struct as_str file,
                     const char *what, const char *name)
{
    Grpc__Reflection__V1__FileDescriptorResponse d;
    struct file_closure c = {.from = from};

    if (!file.n) {
        put_error(out, r, AS_ENOTFOUND, what, name);
        return;
    }
    add_file(&c, file);
    grpc__reflection__v1__file_descriptor_response__init(&d);
    d.file_descriptor_proto = c.files;
    d.n_file_descriptor_proto = c.n;
    r->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    r->file_descriptor_response = &d;
    put_response(out, r);
}

/* No message here has extensions: proto3 has none; those of the user are not looked for. */
static void put_no_extensions(struct as_buf *out, response *r, const source *from, char *type)
{
    Grpc__Reflection__V1__ExtensionNumberResponse e;

    if (!find_symbol(from, as_str_of(type)).n) {
        put_error(out, r, AS_ENOTFOUND, "no type", type);
        return;
    }
    grpc__reflection__v1__extension_number_response__init(&e);
    e.base_type_name = type;
    r->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
    r->all_extension_numbers_response = &e;
    put_response(out, r);
}

struct services {
    Grpc__Reflection__V1__ServiceResponse *rows, **refs;
    size_t n, cap;
};

/* name: allocated, or NULL; ownership moves here. False: no memory. */
static bool add_service(struct services *s, char *name)
{
    if (!name || s->n == s->cap) {
        free(name);
        return false;
    }
    grpc__reflection__v1__service_response__init(&s->rows[s->n]);
    s->rows[s->n].name = name;
    s->refs[s->n] = &s->rows[s->n];
    s->n++;
    return true;
}

static bool add_services(struct services *s, struct as_str file)
{
    struct as_str package = get_field(file, FILE_PACKAGE), name;
    struct as_pb r = as_pb_of(file);
    struct as_pb_field f;

    while (next_field(&r, &f)) {
        if (f.number != FILE_SERVICE)
            continue;
        name = get_field(f.s, NAME);
        if (!add_service(s, as_str_format("%.*s.%.*s", AS_STR_FMT(package), AS_STR_FMT(name))))
            return false;
    }
    return true;
}

/* False: no memory. */
static bool add_all_services(struct services *s, const source *from)
{
    struct as_pb set = as_pb_of(descriptor_set(from->set));
    struct as_pb_field f;

    s->cap = SERVICES_OF_OURS + from->n_services;
    s->rows = calloc(s->cap, sizeof(*s->rows));
    s->refs = calloc(s->cap, sizeof(Grpc__Reflection__V1__ServiceResponse *));
    if (!s->rows || !s->refs)
        return false;
    while (next_field(&set, &f)) {
        if (!add_services(s, f.s))
            return false;
    }
    for (uint32_t i = 0; i < from->n_services; i++) {
        if (!add_service(s, as_str_dup(from->services[i])))
            return false;
    }
    return true;
}

static void put_services(struct as_buf *out, response *r, const source *from)
{
    Grpc__Reflection__V1__ListServiceResponse l;
    struct services s = {0};
    bool ok = add_all_services(&s, from);

    grpc__reflection__v1__list_service_response__init(&l);
    l.service = s.refs;
    l.n_service = s.n;
    r->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    r->list_services_response = &l;
    if (ok)
        put_response(out, r);
    r->list_services_response = NULL;
    for (size_t i = 0; i < s.n; i++)
        free(s.rows[i].name);
    free(s.rows);
    free(s.refs);
}

/* The response repeats the request, so every string of it must be UTF-8. */
static bool is_utf8(const request *q)
{
    const char *s = "";

    switch (q->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
        s = q->file_containing_extension->containing_type;
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST__NOT_SET:
        break;
    default: /* the other kinds are strings in the same union */
        s = q->file_by_filename;
    }
    return as_name_check_utf8(as_str_of(s)) && as_name_check_utf8(as_str_of(q->host));
}

static void answer_request(const source *from, request *q, struct as_buf *out)
{
    response r;

    grpc__reflection__v1__server_reflection_response__init(&r);
    r.valid_host = q->host;
    r.original_request = q;
    switch (q->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        put_file(out, &r, from, find_file(from, as_str_of(q->file_by_filename)), "no file",
                 q->file_by_filename);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        put_file(out, &r, from, find_symbol(from, as_str_of(q->file_containing_symbol)),
                 "no symbol", q->file_containing_symbol);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
        put_error(out, &r, AS_ENOTFOUND, "no extension of type",
                  q->file_containing_extension->containing_type);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
        put_no_extensions(out, &r, from, q->all_extension_numbers_of_type);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        put_services(out, &r, from);
        break;
    default:
        put_error(out, &r, AS_EINVALID, "unknown request to host", q->host);
    }
}

int as_grpc_reflection_answer(const struct as_grpc_reflection_source *from, const uint8_t *p,
                              size_t n, struct as_buf *out)
{
    struct as_pb_unpack mem;
    request *q =
        grpc__reflection__v1__server_reflection_request__unpack(as_pb_unpack_init(&mem), n, p);
    size_t had = out->n;
    int err = mem.out_of_memory ? AS_ENOMEM : AS_EPROTO;

    if (q && is_utf8(q)) {
        answer_request(from, q, out);
        err = out->n > had ? 0 : AS_ENOMEM;
    }
    grpc__reflection__v1__server_reflection_request__free_unpacked(q, &mem.allocator);
    return err;
}
