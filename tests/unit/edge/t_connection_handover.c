/* Specification of edge/conn/connection_handover: which connections of a former dispatcher are
 * served. The test plays the former one. */
#include "io/socket/rights.h"

#include "control_world.h"

/* A client whose connection the former dispatcher has sent to `former` in that state. */
static struct client *hand_over(int former, char state)
{
    struct client *c = as_xalloc(sizeof(*c));
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    c->fd = ends[0];
    assert_int_equal(as_rights_send(former, &state, 1, &ends[1], 1), 0);
    close(ends[1]);
    return c;
}

static int begin_handover(struct world *w)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends),
                     0);
    assert_int_equal(as_edge_adopt(w->edge, ends[1]), 0);
    return ends[0];
}

static void end_handover(struct world *w, int former)
{
    close(former);
    UNTIL(w, NULL, w->edge->handover.in.closing);
    close_world(w);
}

static void fresh_and_used_connections_are_served(void **state AS_UNUSED)
{
    struct world *w = open_world();
    int former = begin_handover(w);

    for (const char *kind = "fa"; *kind; kind++) {
        struct client *c = hand_over(former, *kind);

        send_request(c, "GET", "/api/serve/config", NULL);
        UNTIL(w, c, has_received(c, "\r\n\r\n"));
        assert_true(has_received(c, "HTTP/1.1 200"));
        free_client(c);
    }
    assert_null(strstr(text_of(&w->logged), "adopt_failed"));
    end_handover(w, former);
}

static void a_connection_of_an_unknown_kind_is_closed(void **state AS_UNUSED)
{
    struct world *w = open_world();
    int former = begin_handover(w);
    struct client *c = hand_over(former, 'h'), *next;

    UNTIL(w, c, c->eof);
    assert_int_equal(c->received.n, 0);
    assert_int_equal(w->edge->n_conns, 0);
    assert_non_null(strstr(text_of(&w->logged), "event=adopt_failed reason=\"connections of an "
                                                "unknown kind\" sent=1 adopted=0"));
    next = hand_over(former, 'f'); /* the others are served as ever */
    send_request(next, "GET", "/api/serve/config", NULL);
    UNTIL(w, next, has_received(next, "HTTP/1.1 200"));
    free_client(c);
    free_client(next);
    end_handover(w, former);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_and_used_connections_are_served),
        cmocka_unit_test(a_connection_of_an_unknown_kind_is_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
