/* What the files of quiver-dpdk.so share. */
#ifndef QD_INSIDE_H
#define QD_INSIDE_H

#include "quiver_dpdk.h"

#include <string.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

/* An mbuf in the memory of a pool's: the mempool's header in front of it, one for each of Quiver's buffers, in their order. */
#define QD_HEADER RTE_CACHE_LINE_SIZE
#define QD_ELEMENT (QD_HEADER + sizeof(struct rte_mbuf))

struct qd_pool {
	struct qd_memory memory;
	struct rte_mempool *mempool;
	char *mbufs;
	size_t bytes;
	int registered;
	/* It is taken apart: nothing is taken any more. */
	int ends;
};

/* The lane of the call that this thread is in. */
extern __thread struct qd_lane *qd_current __attribute__((tls_model("initial-exec")));

static inline struct rte_mbuf *
qd_mbuf(const struct qd_pool *pool, uint32_t buf)
{
	return (struct rte_mbuf *)(pool->mbufs + QD_HEADER + (size_t)buf * QD_ELEMENT);
}

/* The buffer of an mbuf; not less than the pool's count where it is another pool's. */
static inline uint32_t
qd_number(const struct qd_pool *pool, const struct rte_mbuf *m)
{
	size_t at = (size_t)((const char *)m - (pool->mbufs + QD_HEADER));
	size_t n = at / QD_ELEMENT;

	return n < pool->memory.count ? (uint32_t)n : UINT32_MAX;
}

/* A text of fewer than QD_NAME bytes, the rest of it zeros. */
static inline void
qd_name(char *to, const char *from)
{
	size_t n = from != NULL ? strnlen(from, QD_NAME - 1) : 0;

	memset(to, 0, QD_NAME);
	if (n != 0)
		memcpy(to, from, n);
}

extern struct qd_host qd_host;

int qd_init(const struct qd_host *host, int argc, char **argv);
int qd_pool_new(const struct qd_memory *memory, struct qd_pool **made);
void qd_pool_free(struct qd_pool *pool);
int qd_pool_map(const struct qd_pool *pool, uint16_t port);

int qd_probe(const char *device, const char *name, struct qd_info *info);
int qd_configure(uint16_t port, const struct qd_setup *setup, struct qd_pool *pool, struct qd_made *made);
int qd_start(uint16_t port);
int qd_stop(uint16_t port);
int qd_close(uint16_t port);

int qd_set_mtu(uint16_t port, uint16_t mtu);
int qd_set_mac(uint16_t port, const uint8_t *mac);
int qd_set_promiscuous(uint16_t port, int on);
int qd_set_groups(uint16_t port, const uint8_t *macs, uint32_t n);
int qd_link(uint16_t port, struct qd_link *link);
int qd_stats(uint16_t port, struct qd_stat *stats, uint32_t room);
int qd_lost(uint16_t port, struct qd_lost *lost);

int qd_rx_fd(uint16_t port, uint16_t queue);
int qd_rx_arm(uint16_t port, uint16_t queue, int fd, int on);
int qd_rx_waiting(uint16_t port, uint16_t queue);
uint32_t qd_rx(uint16_t port, uint16_t queue, struct qd_lane *lane, struct qd_piece *pieces, uint32_t most,
	       uint32_t *lost);
uint32_t qd_tx(uint16_t port, uint16_t queue, struct qd_lane *lane, const struct qd_piece *pieces, uint32_t n,
	       uint32_t *bad);

#endif
