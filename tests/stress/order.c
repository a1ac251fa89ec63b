/* SPDX-License-Identifier: BSD-2-Clause */
#include "stress/order.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct message {
	int sender, recv;
	uint64_t match;
};

struct receive {
	uint64_t key, mask;
	int post, seen, cancel; /* calls; -1: never */
	int msg;
};

struct probe {
	uint64_t key, mask;
	int call, msg;
};

/* Things that happened: first the arrivals, then the calls. */
struct edge {
	int from, to, next; /* next: of those with the same from */
};

struct list {
	void *at;
	int n, room;
	size_t size;
};

struct order {
	struct list msgs, recvs, probes, edges;
	int calls;
	char text[1200];
};

static void *add(struct list *l)
{
	if (l->n == l->room) {
		l->room = l->room ? l->room * 2 : 64;
		l->at = realloc(l->at, (size_t)l->room * l->size);
		if (!l->at) {
			fprintf(stderr, "no memory for the order model\n");
			exit(1);
		}
	}
	return (char *)l->at + (size_t)l->n++ * l->size;
}

static struct message *msg_at(const struct order *o, int i)
{
	return (struct message *)o->msgs.at + i;
}

static struct receive *recv_at(const struct order *o, int i)
{
	return (struct receive *)o->recvs.at + i;
}

static struct edge *edge_at(const struct order *o, int i)
{
	return (struct edge *)o->edges.at + i;
}

struct order *order_new(void)
{
	struct order *o = calloc(1, sizeof(*o));

	if (!o)
		exit(1);
	o->msgs.size = sizeof(struct message);
	o->recvs.size = sizeof(struct receive);
	o->probes.size = sizeof(struct probe);
	o->edges.size = sizeof(struct edge);
	return o;
}

void order_free(struct order *o)
{
	free(o->msgs.at);
	free(o->recvs.at);
	free(o->probes.at);
	free(o->edges.at);
	free(o);
}

void order_reset(struct order *o)
{
	o->msgs.n = o->recvs.n = o->probes.n = o->edges.n = o->calls = 0;
}

int order_message(struct order *o, int sender, uint64_t match)
{
	struct message *m = add(&o->msgs);

	*m = (struct message){.sender = sender, .recv = -1, .match = match};
	return o->msgs.n - 1;
}

int order_post(struct order *o, uint64_t key, uint64_t mask)
{
	struct receive *r = add(&o->recvs);

	*r = (struct receive){key, mask, o->calls++, -1, -1, -1};
	return o->recvs.n - 1;
}

void order_cancelled(struct order *o, int recv)
{
	recv_at(o, recv)->cancel = o->calls++;
}

void order_taken(struct order *o, int recv)
{
	recv_at(o, recv)->seen = o->calls++;
}

void order_done(struct order *o, int recv, int msg)
{
	struct receive *r = recv_at(o, recv);
	int call = o->calls++;

	if (r->seen < 0)
		r->seen = call;
	r->msg = msg;
	msg_at(o, msg)->recv = recv;
}

void order_probe(struct order *o, uint64_t key, uint64_t mask, int msg)
{
	struct probe *p = add(&o->probes);

	*p = (struct probe){key, mask, o->calls++, msg};
}

int order_calls(const struct order *o)
{
	return o->calls;
}

int order_taker(const struct order *o, int msg)
{
	return msg_at(o, msg)->recv;
}

static void before(struct order *o, int from, int to)
{
	struct edge *e = add(&o->edges);

	*e = (struct edge){from, to, -1};
}

static int call_node(const struct order *o, int call)
{
	return o->msgs.n + call;
}

static const char *say(struct order *o, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static const char *say(struct order *o, const char *format, ...)
{
	size_t n = strlen(o->text);
	va_list ap;

	va_start(ap, format);
	vsnprintf(o->text + n, sizeof(o->text) - n, format, ap);
	va_end(ap);
	return o->text;
}

static void say_node(struct order *o, int node)
{
	int call = node - o->msgs.n;

	if (call < 0) {
		say(o, "arrival of %#llx", (unsigned long long)msg_at(o, node)->match);
		return;
	}
	for (int i = 0; i < o->recvs.n; i++) {
		const struct receive *r = recv_at(o, i);
		const char *what = r->post == call     ? "irecv"
				   : r->seen == call   ? "completion of irecv"
				   : r->cancel == call ? "cancel of irecv"
						       : NULL;

		if (what)
			say(o, "call %d, %s %d (%#llx mask %#llx)", call, what, r->post,
			    (unsigned long long)r->key, (unsigned long long)r->mask);
	}
	for (int i = 0; i < o->probes.n; i++) {
		const struct probe *p = (struct probe *)o->probes.at + i;

		if (p->call == call)
			say(o, "call %d, probe (%#llx mask %#llx)", call,
			    (unsigned long long)p->key, (unsigned long long)p->mask);
	}
}

/* What the receives say about the arrival of one message. */
static const char *facts_of_message(struct order *o, int m)
{
	const struct message *msg = msg_at(o, m);
	const struct receive *by;

	if (msg->recv < 0)
		return say(o, "%#llx was not received", (unsigned long long)msg->match);
	by = recv_at(o, msg->recv);
	if ((msg->match & by->mask) != by->key)
		return say(o, "%#llx was taken by a receive for %#llx mask %#llx",
			   (unsigned long long)msg->match, (unsigned long long)by->key,
			   (unsigned long long)by->mask);
	before(o, m, call_node(o, by->seen));
	for (int i = 0; i < msg->recv; i++) {
		const struct receive *r = recv_at(o, i);

		if ((msg->match & r->mask) != r->key)
			continue;
		if (r->msg >= 0)
			before(o, r->msg, m);
		else if (r->cancel >= 0)
			before(o, call_node(o, r->cancel), m);
		else
			return say(o, "receive %d is neither done nor cancelled", i);
	}
	return NULL;
}

static const char *facts_of_probe(struct order *o, const struct probe *p)
{
	for (int i = 0; i < o->msgs.n; i++) {
		const struct message *msg = msg_at(o, i);

		/* Only what no receive had taken by then was there to be seen. */
		if ((msg->match & p->mask) != p->key || recv_at(o, msg->recv)->post < p->call) {
			if (i == p->msg)
				return say(o, "call %d: a probe found %#llx, which it should not",
					   p->call, (unsigned long long)msg->match);
			continue;
		}
		if (p->msg < 0)
			before(o, call_node(o, p->call), i);
		else if (i == p->msg)
			before(o, i, call_node(o, p->call));
		else
			before(o, p->msg, i);
	}
	return NULL;
}

/* Takes away what nothing left precedes, again and again; what stays is circular. */
static int sort(const struct order *o, int nodes, int *preds, int *first, int *queue)
{
	int head = 0, tail = 0;

	for (int i = 0; i < nodes; i++) {
		preds[i] = 0;
		first[i] = -1;
	}
	for (int i = 0; i < o->edges.n; i++) {
		struct edge *e = edge_at(o, i);

		preds[e->to]++;
		e->next = first[e->from];
		first[e->from] = i;
	}
	for (int i = 0; i < nodes; i++)
		if (!preds[i])
			queue[tail++] = i;
	while (head < tail)
		for (int e = first[queue[head++]]; e >= 0; e = edge_at(o, e)->next)
			if (--preds[edge_at(o, e)->to] == 0)
				queue[tail++] = edge_at(o, e)->to;
	return tail == nodes;
}

static const char *say_circle(struct order *o, int nodes, const int *preds, int *visited)
{
	int node = 0, told = -1;

	memset(visited, 0, (size_t)nodes * sizeof(*visited));
	while (!preds[node])
		node++;
	/* Backwards from anything that is left we come into a circle; then once around. */
	for (int round = 0; round < 2; round++) {
		while (visited[node] == round) {
			int e = 0, pred;

			visited[node]++;
			while (edge_at(o, e)->to != node || !preds[edge_at(o, e)->from])
				e++;
			pred = edge_at(o, e)->from;
			/* Of calls in a row, only the first and the last. */
			if (round && (node < o->msgs.n || told < o->msgs.n || pred < o->msgs.n)) {
				say_node(o, node);
				say(o, " after ");
				told = node;
			}
			node = pred;
		}
	}
	say_node(o, node);
	return o->text;
}

const char *order_check(struct order *o)
{
	int nodes = o->msgs.n + o->calls;
	int *room = calloc((size_t)nodes * 3 + 1, sizeof(*room));
	const char *bad = NULL;

	if (!room)
		exit(1);
	o->text[0] = 0;
	o->edges.n = 0;
	for (int i = 1; i < o->calls; i++)
		before(o, call_node(o, i - 1), call_node(o, i));
	for (int i = 0, j; i < o->msgs.n; i++) {
		for (j = i + 1; j < o->msgs.n && msg_at(o, j)->sender != msg_at(o, i)->sender;)
			j++;
		if (j < o->msgs.n)
			before(o, i, j);
	}
	for (int i = 0; !bad && i < o->msgs.n; i++)
		bad = facts_of_message(o, i);
	for (int i = 0; !bad && i < o->probes.n; i++)
		bad = facts_of_probe(o, (struct probe *)o->probes.at + i);
	if (!bad && !sort(o, nodes, room, room + nodes, room + 2 * nodes)) {
		say(o, "no order of arrival explains it: ");
		bad = say_circle(o, nodes, room, room + nodes);
	}
	free(room);
	return bad;
}
