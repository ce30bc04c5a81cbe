/* Packets in bursts: mbufs become pieces of Quiver's buffers, and the other way round. Nothing is copied. */

#include "inside.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rte_epoll.h>

/* Bits that say what the device found out of the transport checksum. */
static inline uint16_t
checked(uint64_t ol_flags)
{
	switch (ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) {
	case RTE_MBUF_F_RX_L4_CKSUM_GOOD:
		return QD_CHECKED;
	case RTE_MBUF_F_RX_L4_CKSUM_NONE:
		return QD_PARTIAL;
	default:
		return 0;
	}
}

/* Another pool's mbuf, or one whose data lies elsewhere. */
static inline int
foreign(const struct qd_pool *pool, const struct rte_mbuf *m)
{
	return qd_number(pool, m) == UINT32_MAX || m->pool != pool->mempool ||
	       (m->ol_flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL)) != 0;
}

/* The pieces of a packet of several mbufs; 0 where it is none, which is freed then. */
static uint32_t
chain(const struct qd_pool *pool, struct rte_mbuf *head, struct qd_piece *pieces)
{
	uint32_t n = 0;

	for (struct rte_mbuf *m = head; m != NULL; m = m->next) {
		if (n == QD_CHAIN || n == head->nb_segs || foreign(pool, m)) {
			rte_pktmbuf_free(head);
			return 0;
		}
		pieces[n++] = (struct qd_piece){ .buf = qd_number(pool, m), .off = m->data_off, .len = m->data_len, .flags = QD_MORE };
	}
	if (n != head->nb_segs) {
		rte_pktmbuf_free(head);
		return 0;
	}
	pieces[0].flags |= checked(head->ol_flags);
	pieces[n - 1].flags &= ~QD_MORE;
	for (struct rte_mbuf *m = head, *next; m != NULL; m = next) {
		next = m->next;
		m->next = NULL;
		m->nb_segs = 1;
	}
	return n;
}

uint32_t
qd_rx(uint16_t port, uint16_t queue, struct qd_lane *lane, struct qd_piece *pieces, uint32_t most, uint32_t *lost)
{
	const struct qd_pool *pool = lane->pool;
	struct rte_mbuf *got[QD_BURST];
	uint32_t n = 0;

	qd_current = lane;
	uint16_t count = rte_eth_rx_burst(port, queue, got, (uint16_t)RTE_MIN(most, (uint32_t)QD_BURST));

	for (uint16_t i = 0; i < count; i++) {
		struct rte_mbuf *m = got[i];

		if (i + 4 < count)
			rte_prefetch0(got[i + 4]);
		if (unlikely((m->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0) && !foreign(pool, m)) {
			/* The graph reads tags where they stand in frames. */
			m->ol_flags &= ~RTE_MBUF_F_RX_VLAN_STRIPPED;
			if (rte_vlan_insert(&m) != 0) {
				(*lost)++;
				rte_pktmbuf_free(m);
				continue;
			}
		}
		if (likely(m->nb_segs == 1 && !foreign(pool, m))) {
			pieces[n++] = (struct qd_piece){
				.buf = qd_number(pool, m), .off = m->data_off, .len = m->data_len, .flags = checked(m->ol_flags)
			};
			continue;
		}
		uint32_t more = chain(pool, m, pieces + n);

		*lost += more == 0;
		n += more;
	}
	qd_current = NULL;
	return n;
}

static inline void
fill(struct rte_mbuf *m, const struct qd_piece *p)
{
	m->data_off = p->off;
	m->data_len = p->len;
	m->pkt_len = p->len;
	m->ol_flags = 0;
}

/* What the device is to do for a packet. */
static void
offloads(struct rte_mbuf *m, const struct qd_piece *p)
{
	uint64_t flags = (p->flags & QD_IP4) != 0 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6;

	m->l2_len = p->l2;
	m->l3_len = p->l3;
	m->l4_len = p->l4;
	if ((p->flags & QD_TCP) != 0)
		flags |= RTE_MBUF_F_TX_TCP_CKSUM;
	else
		flags |= RTE_MBUF_F_TX_UDP_CKSUM;
	if ((p->flags & QD_SEGMENT) != 0) {
		flags |= (p->flags & QD_TCP) != 0 ? RTE_MBUF_F_TX_TCP_SEG : RTE_MBUF_F_TX_UDP_SEG;
		/* Each segment has a header of its own. */
		if ((p->flags & QD_IP4) != 0)
			flags |= RTE_MBUF_F_TX_IP_CKSUM;
		m->tso_segsz = p->segment;
	}
	m->ol_flags = flags;
}

/* Makes a chain of the pieces of a packet; how many there are. */
static uint32_t
link_pieces(const struct qd_pool *pool, struct rte_mbuf *head, const struct qd_piece *p)
{
	struct rte_mbuf *last = head;
	uint32_t n = 1;

	while ((p[n - 1].flags & QD_MORE) != 0) {
		struct rte_mbuf *m = qd_mbuf(pool, p[n].buf);

		fill(m, &p[n]);
		head->pkt_len += p[n].len;
		last->next = m;
		last = m;
		n++;
	}
	head->nb_segs = (uint16_t)n;
	return n;
}

static void
unlink_pieces(struct rte_mbuf *head)
{
	for (struct rte_mbuf *m = head, *next; m != NULL; m = next) {
		next = m->next;
		m->next = NULL;
		m->nb_segs = 1;
	}
}

uint32_t
qd_tx(uint16_t port, uint16_t queue, struct qd_lane *lane, const struct qd_piece *pieces, uint32_t n, uint32_t *bad)
{
	const struct qd_pool *pool = lane->pool;
	struct rte_mbuf *all[QD_BURST];
	uint32_t packets = 0, prepared = 0;
	int chained = 0, asked = 0;

	for (uint32_t i = 0; i < RTE_MIN(n, 4u); i++)
		rte_prefetch0(qd_mbuf(pool, pieces[i].buf));
	for (uint32_t at = 0; at < n && packets < QD_BURST; packets++) {
		const struct qd_piece *p = &pieces[at];
		struct rte_mbuf *m = qd_mbuf(pool, p->buf);

		if (at + 4 < n)
			rte_prefetch0(qd_mbuf(pool, pieces[at + 4].buf));
		fill(m, p);
		if (unlikely((p->flags & QD_OFFLOADS) != 0)) {
			offloads(m, p);
			asked = 1;
		}
		if (likely((p->flags & QD_MORE) == 0)) {
			at++;
		} else {
			at += link_pieces(pool, m, p);
			chained = 1;
		}
		all[packets] = m;
	}
	qd_current = lane;
	prepared = packets;
	if (unlikely(asked))
		prepared = rte_eth_tx_prepare(port, queue, all, (uint16_t)packets);
	uint32_t sent = rte_eth_tx_burst(port, queue, all, (uint16_t)prepared);

	qd_current = NULL;
	*bad = sent == prepared && prepared < packets;
	if (unlikely(chained)) {
		for (uint32_t i = sent; i < packets; i++)
			unlink_pieces(all[i]);
	}
	return sent;
}

/* A descriptor of Quiver's own, behind which the device's interrupt stands: how that is read only DPDK knows. */
int
qd_rx_fd(uint16_t port, uint16_t queue)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd < 0)
		return -errno;
	int failed = rte_eth_dev_rx_intr_ctl_q(port, queue, fd, RTE_INTR_EVENT_ADD, NULL);

	if (failed != 0) {
		close(fd);
		return -ENOTSUP;
	}
	return fd;
}

int
qd_rx_arm(uint16_t port, uint16_t queue, int fd, int on)
{
	if (on)
		/* Some have nothing to enable: their descriptor tells of every packet. */
		return rte_eth_dev_rx_intr_enable(port, queue);
	struct rte_epoll_event event;

	rte_eth_dev_rx_intr_disable(port, queue);
	return rte_epoll_wait(fd, &event, 1, 0);
}

int
qd_rx_waiting(uint16_t port, uint16_t queue)
{
	return rte_eth_rx_queue_count(port, queue);
}
