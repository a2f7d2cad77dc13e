/* fuzz/link_calls.h — of f_link.c: a worker or a driver that makes and answers calls, also its own.
 */
#ifndef AS_FUZZ_LINK_CALLS_H
#define AS_FUZZ_LINK_CALLS_H

static void say_calling_hello(struct world *w, uint8_t how)
{
    bool driver = how & 1;
    struct as_frame_hello h = {.max_message = 2 << 20,
                               .lo = 1,
                               .hi = 1,
                               .capabilities = AS_CAP_CALLS | (driver ? AS_CAP_DRIVER : 0) |
                                               (how & 4 ? 0 : AS_CAP_RESERVE),
                               .token = how & 2  ? AS_STR("join")
                                        : driver ? AS_STR("drive")
                                                 : AS_STR("secret"),
                               .replica = AS_STR("r")};

    as_frame_put_hello(&w->out, &h);
}

static void say_opaque_register(struct world *w, uint8_t how)
{
    struct as_frame_register r = {.model = how,
                                  .name = how & 1 ? AS_STR("other") : AS_STR("app"),
                                  .version = AS_STR("1"),
                                  .max_ongoing = 2,
                                  .budget = 4,
                                  .max_queued = 8,
                                  .opaque = true};

    as_frame_put_register(&w->out, &r);
    as_frame_put_credit(&w->out, 0, &(struct as_frame_credit){.slots = how % 4, .prefetch = 8});
}

/* A body of any size around the limits, of a codec that may be wrong, with a buffer. */
static struct as_body call_body(const struct world *w, uint8_t how)
{
    static const size_t sizes[] = {0, 40, AS_COPY_MAX + 1, 70000};
    static struct as_str buffer;

    buffer = (struct as_str){(const char *)w->big->data, sizes[how >> 2 & 3]};
    return (struct as_body){.codec = (how & 31) == 31 ? 3 : AS_BODY_BYTES,
                            .data = {(const char *)w->big->data, sizes[how & 3]},
                            .n_buffers = how >> 5 & 1,
                            .buffers = &buffer};
}

static void say_open(struct world *w, struct script *s)
{
    uint8_t how = byte(s), size = byte(s), flags = byte(s);
    struct as_body body = call_body(w, size);
    struct as_frame_call c = {.priority = how & 3,
                              .target = how >> 2 & 3,
                              .timeout = how & 16 ? AS_US * size : 0,
                              .parent = how & 32 ? stream_id(s) | 1 : 0,
                              .flags = flags & 0x37,
                              .more = how & 64};
    uint64_t stream = how & 128 ? byte(s) : w->even;

    if (c.flags & AS_CALL_F_USE && flags & 0x40) { /* of one that may have a slot */
        as_frame_put_call(&w->out, AS_FRAME_OPEN, 2 * (uint64_t)(flags >> 7) + 2, &c, &body, NULL);
        return;
    }

    as_frame_put_call(&w->out, AS_FRAME_OPEN, stream, &c, &body, NULL);
    w->even = stream + 2;
}

static void say_call_answer(struct world *w, struct script *s)
{
    uint8_t how = byte(s);
    struct as_body body = call_body(w, byte(s));

    body.flags = how & 1;
    as_frame_put_call(&w->out, AS_FRAME_DATA, stream_id(s),
                      &(struct as_frame_call){.more = how & 2}, &body, NULL);
}

static void say_call(struct world *w, struct script *s)
{
    static const char *const reports[] = {"", "[\"a\"]", "{}", "F a gauge \"\"\nS a {} 1\n", "F"};
    uint8_t what = byte(s) % 10, how = byte(s);
    struct as_frame_target t = {how % 4, AS_STR("a"), how & 4 ? AS_STR("nobody") : AS_STR("app")};
    struct as_frame_report r = {how % 6u + (how == 255 ? 1u : 0u), as_str_of(reports[how / 6 % 5])};
    struct as_frame_credit credit = {.messages = how, .bytes = (uint64_t)how << 8};

    switch (what) {
    case 0:
        say_calling_hello(w, how);
        break;
    case 1:
        say_opaque_register(w, how);
        break;
    case 2:
        as_frame_put_target(&w->out, &t);
        break;
    case 3:
        as_frame_put_cancel(&w->out, 2 * (uint64_t)(how % 16), 1);
        break;
    case 4:
        as_frame_put_credit(&w->out, 2 * (uint64_t)(how % 16), &credit);
        break;
    case 5:
        as_frame_put_report(&w->out, &r);
        break;
    case 6:
        say_call_answer(w, s);
        break;
    default:
        say_open(w, s);
    }
}

#endif
