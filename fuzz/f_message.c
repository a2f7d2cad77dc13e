/* fuzz/f_message.c — what the processes of a server say to each other, from a hostile peer: the
 * first byte says whether the rest is a datagram, the text of LOAD, or the text of ASK. What is
 * accepted comes out the same when it is written and read again. */
#include "base/err.h"
#include "ctl/message/load.h"
#include "ctl/message/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sums {
    uint64_t n, numbers, requests;
    struct as_buf *text;
};

static void on_replica(void *arg, uint32_t number, uint32_t requests)
{
    struct sums *s = arg;

    s->n++;
    s->numbers += number;
    s->requests += requests;
    if (s->text)
        as_ctl_load_put_replica(number, requests, s->text);
}

static void check_load(struct as_str text)
{
    struct as_buf replicas, again;
    struct as_ctl_load l, back;
    struct sums a = {.text = &replicas}, b = {0};

    as_buf_init(&replicas);
    as_buf_init(&again);
    as_ctl_load_parse(text, &l, on_replica, &a);
    as_ctl_load_put(&l, &again);
    as_buf_add(&again, replicas.p, replicas.n);
    as_ctl_load_parse((struct as_str){(const char *)again.p, again.n}, &back, on_replica, &b);
    AS_ASSERT(back.slots == l.slots && back.has_times == l.has_times);
    AS_ASSERT(!l.has_times || memcmp(&back.times, &l.times, sizeof(l.times)) == 0);
    AS_ASSERT(replicas.n >= AS_CTL_LOAD_TEXT_MAX ||
              (a.n == b.n && a.numbers == b.numbers && a.requests == b.requests));
    as_buf_fini(&replicas);
    as_buf_fini(&again);
}

static void check_ask(struct as_str text)
{
    enum as_control_op op;
    struct as_str body;

    if (as_ctl_parse_ask(text, &op, &body))
        return;
    AS_ASSERT(body.n <= text.n && (!body.n || body.p + body.n <= text.p + text.n));
}

static void check_datagram(const uint8_t *p, size_t n)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    struct as_ctl_message m, again;

    if (n > AS_CTL_MESSAGE_MAX || as_ctl_decode(p, n, &m))
        return;
    AS_ASSERT(m.type > AS_CTL_NONE && m.type < AS_CTL_TYPES && m.state < AS_CTL_STATES);
    AS_ASSERT(m.replica.n <= AS_CTL_NAME_MAX && m.deployment.n <= AS_CTL_NAME_MAX &&
              m.token.n <= AS_CTL_NAME_MAX);
    AS_ASSERT(as_ctl_type_name(m.type) && as_ctl_senders(m.type) && as_ctl_receivers(m.type));
    AS_ASSERT(as_ctl_decode(buf, as_ctl_encode(&m, buf), &again) == 0);
    AS_ASSERT(again.type == m.type && again.state == m.state && again.pid == m.pid &&
              again.restarts == m.restarts && again.number == m.number && again.kind == m.kind &&
              again.id == m.id && again.ns == m.ns);
    AS_ASSERT(as_str_eq(again.replica, m.replica) && as_str_eq(again.deployment, m.deployment) &&
              as_str_eq(again.token, m.token));
    AS_ASSERT(m.text.n > AS_CTL_TEXT_MAX || as_str_eq(again.text, m.text));
    if (m.type == AS_CTL_LOAD)
        check_load(m.text);
    else if (m.type == AS_CTL_ASK)
        check_ask(m.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_str rest;

    if (!size)
        return 0;
    rest = (struct as_str){(const char *)data + 1, size - 1};
    if (data[0] == 'L')
        check_load(rest);
    else if (data[0] == 'A')
        check_ask(rest);
    else
        check_datagram(data + 1, size - 1);
    return 0;
}
