/* Quiver's buffers as a mempool: an mbuf for each, whose data is the buffer. DPDK's drivers take mbufs from it and give them back; what
 * is free stands in Quiver's own lists alone. */

#include "inside.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <rte_dev.h>
#include <rte_log.h>
#include <rte_memory.h>

__thread struct qd_lane *qd_current __attribute__((tls_model("initial-exec")));

static int
ops_alloc(struct rte_mempool *mp)
{
	mp->pool_data = mp->pool_config;
	return 0;
}

static void
ops_free(struct rte_mempool *mp)
{
	(void)mp;
}

static void
flush(struct qd_lane *lane)
{
	lane->pool->memory.lane_give(lane->owner, lane->list, lane->count);
	lane->count = 0;
}

/* A driver gives mbufs back. */
static int
ops_enqueue(struct rte_mempool *mp, void *const *objects, unsigned int n)
{
	struct qd_pool *pool = mp->pool_data;
	struct qd_lane *lane = qd_current;

	if (likely(lane != NULL && lane->pool == pool)) {
		lane->given += n;
		for (unsigned int i = 0; i < n; i++) {
			if (unlikely(lane->count == QD_LANE))
				flush(lane);
			lane->list[lane->count++] = qd_number(pool, objects[i]);
		}
		return 0;
	}
	for (unsigned int i = 0; i < n; i++) {
		uint32_t buf = qd_number(pool, objects[i]);

		pool->memory.give(pool->memory.owner, &buf, 1);
	}
	return 0;
}

/* A driver takes mbufs: all of them, or none. */
static int
ops_dequeue(struct rte_mempool *mp, void **objects, unsigned int n)
{
	struct qd_pool *pool = mp->pool_data;
	struct qd_lane *lane = qd_current;
	int own = lane != NULL && lane->pool == pool;
	uint32_t list[QD_LANE];
	unsigned int done = 0;

	/* DPDK takes every object out of a mempool that it takes apart, and forgets it. */
	if (unlikely(pool->ends))
		return 0;
	while (done < n) {
		uint32_t wanted = RTE_MIN(n - done, (unsigned int)QD_LANE);

		if (own && lane->count != 0) {
			/* What was given back a moment ago is still in the caches. */
			wanted = RTE_MIN(wanted, lane->count);
			lane->count -= wanted;
			for (uint32_t i = 0; i < wanted; i++)
				objects[done++] = qd_mbuf(pool, lane->list[lane->count + i]);
			lane->taken += wanted;
			continue;
		}
		uint32_t got = own ? pool->memory.lane_take(lane->owner, list, wanted)
				   : pool->memory.take(pool->memory.owner, list, wanted);
		if (got != wanted) {
			if (done != 0)
				ops_enqueue(mp, objects, done);
			return -ENOBUFS;
		}
		if (own)
			lane->taken += wanted;
		for (uint32_t i = 0; i < wanted; i++)
			objects[done++] = qd_mbuf(pool, list[i]);
	}
	return 0;
}

static unsigned int
ops_count(const struct rte_mempool *mp)
{
	/* Nobody but Quiver knows how many are free; no driver relies on it. */
	return mp->size;
}

/* The objects stand one behind the other, in the order of Quiver's buffers. They are not given to it as free ones: they are its own. */
static int
ops_populate(struct rte_mempool *mp, unsigned int most, void *at, rte_iova_t iova, size_t len,
	     rte_mempool_populate_obj_cb_t *each, void *arg)
{
	unsigned int n;

	for (n = 0; n < most && (n + 1) * QD_ELEMENT <= len; n++)
		each(mp, arg, (char *)at + n * QD_ELEMENT + QD_HEADER,
		     iova == RTE_BAD_IOVA ? RTE_BAD_IOVA : iova + n * QD_ELEMENT + QD_HEADER);
	return n;
}

static const struct rte_mempool_ops ops = {
	.name = "quiver",
	.alloc = ops_alloc,
	.free = ops_free,
	.enqueue = ops_enqueue,
	.dequeue = ops_dequeue,
	.get_count = ops_count,
	.populate = ops_populate,
};

RTE_MEMPOOL_REGISTER_OPS(ops);

static void
make(struct rte_mempool *mp, void *arg, void *object, unsigned int n)
{
	struct qd_pool *pool = arg;
	struct rte_mbuf *m = object;
	char *room = (char *)pool->memory.base + (size_t)n * pool->memory.stride + pool->memory.room_at;

	memset(m, 0, sizeof(*m));
	m->buf_addr = room;
	rte_mbuf_iova_set(m, (uintptr_t)room);
	m->buf_len = (uint16_t)pool->memory.room;
	m->data_off = (uint16_t)pool->memory.headroom;
	m->pool = mp;
	m->nb_segs = 1;
	m->port = RTE_MBUF_PORT_INVALID;
	rte_mbuf_refcnt_set(m, 1);
}

static struct rte_mempool *
mempool(struct qd_pool *pool)
{
	struct rte_pktmbuf_pool_private room = { .mbuf_data_room_size = (uint16_t)pool->memory.room };
	unsigned int flags = RTE_MEMPOOL_F_NO_SPREAD | RTE_MEMPOOL_F_NO_IOVA_CONTIG;
	char name[RTE_MEMPOOL_NAMESIZE];
	static unsigned int pools;

	snprintf(name, sizeof(name), "quiver%u", pools++);
	struct rte_mempool *mp = rte_mempool_create_empty(name, pool->memory.count, sizeof(struct rte_mbuf), 0, sizeof(room),
							  SOCKET_ID_ANY, flags);
	if (mp == NULL)
		return NULL;
	/* The header is what qd_mbuf takes it to be, and nothing stands behind an object. */
	int failed = mp->header_size != QD_HEADER || mp->trailer_size != 0 ? -EPROTO
		     : rte_mempool_set_ops_byname(mp, ops.name, pool);

	if (failed == 0) {
		rte_pktmbuf_pool_init(mp, &room);
		failed = rte_mempool_populate_iova(mp, pool->mbufs, (uintptr_t)pool->mbufs, pool->bytes, NULL, NULL);
	}
	if (failed < 0 || mp->populated_size != pool->memory.count) {
		rte_mempool_free(mp);
		rte_errno = failed < 0 ? -failed : ENOMEM;
		return NULL;
	}
	rte_mempool_obj_iter(mp, make, pool);
	return mp;
}

/* Whether DPDK has what it gives each mempool before that is told of another kind. */
static int
has_rings(void)
{
	for (uint32_t n = 0; n < rte_mempool_ops_table.num_ops; n++)
		if (strcmp(rte_mempool_ops_table.ops[n].name, "ring_mp_mc") == 0)
			return 1;
	RTE_LOG(ERR, USER1, "librte_mempool_ring is not among DPDK's drivers: install librte-mempool-ring23\n");
	return 0;
}

int
qd_pool_new(const struct qd_memory *memory, struct qd_pool **made)
{
	struct qd_pool *pool;

	if (!has_rings())
		return -ENOENT;
	pool = calloc(1, sizeof(*pool));
	if (pool == NULL)
		return -ENOMEM;
	pool->memory = *memory;
	pool->bytes = RTE_ALIGN_CEIL((size_t)memory->count * QD_ELEMENT, 4096);
	pool->mbufs = mmap(NULL, pool->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pool->mbufs == MAP_FAILED) {
		int why = errno;

		free(pool);
		return -why;
	}
	madvise(pool->mbufs, pool->bytes, MADV_HUGEPAGE);
	/* Devices reach the buffers by their addresses in this process. */
	pool->registered = rte_extmem_register(memory->base, memory->bytes, NULL, 0, memory->page) == 0;
	if (pool->registered)
		pool->mempool = mempool(pool);
	if (pool->mempool == NULL) {
		int why = rte_errno != 0 ? rte_errno : ENOMEM;

		qd_pool_free(pool);
		return -why;
	}
	*made = pool;
	return 0;
}

void
qd_pool_free(struct qd_pool *pool)
{
	pool->ends = 1;
	if (pool->mempool != NULL)
		rte_mempool_free(pool->mempool);
	if (pool->registered)
		rte_extmem_unregister(pool->memory.base, pool->memory.bytes);
	munmap(pool->mbufs, pool->bytes);
	free(pool);
}

/* Lets the device of a port reach the buffers. Those without DMA have no use for it. */
int
qd_pool_map(const struct qd_pool *pool, uint16_t port)
{
	struct rte_eth_dev_info info;

	if (rte_eth_dev_info_get(port, &info) != 0 || info.device == NULL)
		return -ENODEV;
	if (rte_dev_dma_map(info.device, pool->memory.base, (uintptr_t)pool->memory.base, pool->memory.bytes) == 0)
		return 0;
	return rte_errno == ENOTSUP || rte_errno == EEXIST ? 0 : -rte_errno;
}
