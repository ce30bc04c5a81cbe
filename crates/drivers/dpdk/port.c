/* Ports: found, set up, started, stopped and let go. */

#include "inside.h"

#include <errno.h>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_errno.h>

static int
happened(uint16_t port, enum rte_eth_event_type what, void *arg, void *more)
{
	(void)arg;
	(void)more;
	qd_host.event(port, what == RTE_ETH_EVENT_INTR_RMV ? QD_EVENT_GONE : QD_EVENT_LINK);
	return 0;
}

/* Linux asks for a device back that is bound to vfio-pci, and waits until it is let go. */
static void
asked_back(const char *device, enum rte_dev_event_type what, void *port)
{
	(void)device;
	if (what == RTE_DEV_EVENT_REMOVE)
		qd_host.event((uint16_t)(uintptr_t)port, QD_EVENT_GONE);
}

/* Nothing is heard of a port any more: not while something is told of it. */
static void
unlisten(uint16_t port, const char *device)
{
	rte_eth_dev_callback_unregister(port, RTE_ETH_EVENT_INTR_LSC, happened, NULL);
	rte_eth_dev_callback_unregister(port, RTE_ETH_EVENT_INTR_RMV, happened, NULL);
	if (device == NULL)
		return;
	for (int left = 1000; left != 0; left--) {
		if (rte_dev_event_callback_unregister(device, asked_back, (void *)(uintptr_t)port) != -EAGAIN)
			return;
		rte_delay_us_sleep(100);
	}
}

/* The port of a device, where it has one. */
static int
port_of(const char *name, struct rte_eth_dev_info *info)
{
	uint16_t port;

	RTE_ETH_FOREACH_DEV(port) {
		if (rte_eth_dev_info_get(port, info) == 0 && info->device != NULL && strcmp(rte_dev_name(info->device), name) == 0)
			return port;
	}
	return -ENODEV;
}

static int
is_driver(const struct rte_eth_dev_info *dev, const char *name)
{
	return dev->driver_name != NULL && strcmp(dev->driver_name, name) == 0;
}

/* The largest IP packet, by both of a device's bounds as rte_eth_dev_set_mtu() checks them. */
static uint16_t
most_mtu(const struct rte_eth_dev_info *dev)
{
	uint32_t around = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;

	if (dev->max_mtu != UINT16_MAX && dev->max_rx_pktlen > dev->max_mtu)
		around = dev->max_rx_pktlen - dev->max_mtu;
	if (dev->max_rx_pktlen <= around)
		return dev->max_mtu;
	return (uint16_t)RTE_MIN((uint32_t)dev->max_mtu, dev->max_rx_pktlen - around);
}

int
qd_probe(const char *device, const char *name, struct qd_info *info)
{
	struct rte_eth_dev_info dev;
	struct rte_ether_addr mac;

	if (port_of(name, &dev) >= 0)
		return -EEXIST;
	int failed = rte_dev_probe(device);

	if (failed != 0)
		return failed < 0 ? failed : -ENODEV;
	int port = port_of(name, &dev);

	if (port < 0)
		return port;
	memset(info, 0, sizeof(*info));
	qd_name(info->driver, dev.driver_name);
	qd_name(info->device, rte_dev_name(dev.device));
	if (rte_eth_macaddr_get((uint16_t)port, &mac) == 0)
		memcpy(info->mac, mac.addr_bytes, sizeof(info->mac));
	info->max_rx = dev.max_rx_queues;
	info->max_tx = dev.max_tx_queues;
	info->min_mtu = dev.min_mtu;
	info->max_mtu = most_mtu(&dev);
	info->numa = rte_eth_dev_socket_id((uint16_t)port);
	rte_eth_dev_callback_register((uint16_t)port, RTE_ETH_EVENT_INTR_LSC, happened, NULL);
	rte_eth_dev_callback_register((uint16_t)port, RTE_ETH_EVENT_INTR_RMV, happened, NULL);
	rte_dev_event_callback_register(name, asked_back, (void *)(uintptr_t)port);
	return port;
}

static uint32_t
abilities(const struct rte_eth_dev_info *dev, const struct rte_eth_conf *conf)
{
	static const struct {
		uint64_t offload;
		uint32_t can;
	} tx[] = {
		{ RTE_ETH_TX_OFFLOAD_MULTI_SEGS, QD_CAN_CHAIN }, { RTE_ETH_TX_OFFLOAD_TCP_CKSUM, QD_CAN_TCP },
		{ RTE_ETH_TX_OFFLOAD_UDP_CKSUM, QD_CAN_UDP },	 { RTE_ETH_TX_OFFLOAD_TCP_TSO, QD_CAN_TSO },
		{ RTE_ETH_TX_OFFLOAD_UDP_TSO, QD_CAN_USO },
	};
	uint32_t can = 0;

	for (size_t i = 0; i < RTE_DIM(tx); i++)
		can |= (conf->txmode.offloads & tx[i].offload) != 0 ? tx[i].can : 0;
	/* Each segment of a TCP packet over IPv4 has a checksum of its header. */
	if ((conf->txmode.offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) == 0)
		can &= ~(uint32_t)(QD_CAN_TSO | QD_CAN_USO);
	can |= conf->rxmode.mq_mode == RTE_ETH_MQ_RX_RSS ? QD_CAN_RSS : 0;
	can |= (conf->rxmode.offloads & RTE_ETH_RX_OFFLOAD_TCP_CKSUM) != 0 ? QD_CAN_CHECK : 0;
	can |= conf->intr_conf.lsc ? QD_CAN_LINK_EVENT : 0;
	return can;
}

static void
choose(const struct rte_eth_dev_info *dev, const struct qd_setup *setup, const struct qd_pool *pool, struct rte_eth_conf *conf)
{
	const uint64_t checks = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
	const uint64_t sums = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM |
			      RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_UDP_TSO;
	uint64_t tx = RTE_ETH_TX_OFFLOAD_MULTI_SEGS, rx = 0;

	if (setup->offloads) {
		rx |= checks;
		tx |= sums;
	}
	/* Longer frames than a buffer takes lie in several. */
	if ((uint32_t)setup->mtu + RTE_ETHER_HDR_LEN + 2 * RTE_VLAN_HLEN > pool->memory.room - pool->memory.headroom)
		rx |= RTE_ETH_RX_OFFLOAD_SCATTER;
	/* It leaves out all tagged frames whose tag it was not told of, whether or not it is asked to: qd_start tells it of all. */
	if (is_driver(dev, "net_virtio"))
		rx |= RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
	conf->rxmode.offloads = rx & dev->rx_offload_capa;
	conf->txmode.offloads = tx & dev->tx_offload_capa;
	conf->rxmode.mtu = RTE_MAX(RTE_MIN(setup->mtu, most_mtu(dev)), dev->min_mtu);
	if (setup->rx_queues > 1 && dev->flow_type_rss_offloads != 0) {
		conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf->rx_adv_conf.rss_conf.rss_hf =
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP) & dev->flow_type_rss_offloads;
	}
	/* This driver leads no receive interrupt of an 82574 to a vector, and has no vector for the link beside them: what it remembers of
	 * the link stays as it was. Packets and link are looked for. */
	int deaf = is_driver(dev, "net_e1000_em");

	conf->intr_conf.lsc = (*dev->dev_flags & RTE_ETH_DEV_INTR_LSC) != 0 && !deaf;
	conf->intr_conf.rmv = (*dev->dev_flags & RTE_ETH_DEV_INTR_RMV) != 0;
	conf->intr_conf.rxq = setup->interrupts && !deaf;
}

int
qd_configure(uint16_t port, const struct qd_setup *setup, struct qd_pool *pool, struct qd_made *made)
{
	struct rte_eth_conf conf = { 0 };
	struct rte_eth_dev_info dev;
	uint16_t rx = setup->rx_slots, tx = setup->tx_slots;
	int failed = rte_eth_dev_info_get(port, &dev);

	if (failed != 0)
		return failed;
	choose(&dev, setup, pool, &conf);
	if ((failed = qd_pool_map(pool, port)) != 0)
		return failed;
	if ((failed = rte_eth_dev_configure(port, setup->rx_queues, setup->tx_queues, &conf)) != 0)
		return failed;
	if ((failed = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx)) != 0)
		return failed;
	for (uint16_t q = 0; q < setup->rx_queues; q++) {
		struct rte_eth_rxconf own = dev.default_rxconf;

		own.offloads = conf.rxmode.offloads;
		failed = rte_eth_rx_queue_setup(port, q, rx, SOCKET_ID_ANY, &own, pool->mempool);
		if (failed != 0)
			return failed;
	}
	for (uint16_t q = 0; q < setup->tx_queues; q++) {
		struct rte_eth_txconf own = dev.default_txconf;

		own.offloads = conf.txmode.offloads;
		if ((failed = rte_eth_tx_queue_setup(port, q, tx, SOCKET_ID_ANY, &own)) != 0)
			return failed;
	}
	made->rx_slots = rx;
	made->tx_slots = tx;
	made->can = abilities(&dev, &conf);
	return 0;
}

int
qd_start(uint16_t port)
{
	int failed = rte_eth_dev_start(port);

	if (failed == 0 && (rte_eth_dev_get_vlan_offload(port) & RTE_ETH_VLAN_FILTER_OFFLOAD) != 0)
		for (uint16_t tag = 0; failed == 0 && tag <= RTE_ETHER_MAX_VLAN_ID; tag++)
			failed = rte_eth_dev_vlan_filter(port, tag, 1);
	if (failed != 0)
		rte_eth_dev_stop(port);
	return failed;
}

/* Frees what waits in the queues of a port that keeps it when it is closed: net_ring, whose rings may be another port's as well. */
static void
drain(uint16_t port)
{
	struct rte_eth_dev_info dev;
	struct rte_mbuf *all[QD_BURST];

	if (rte_eth_dev_info_get(port, &dev) != 0 || !is_driver(&dev, "net_ring"))
		return;
	for (uint16_t q = 0; q < dev.nb_rx_queues; q++) {
		uint16_t n = 1;

		/* No more than any ring holds: another port may still fill it. */
		for (uint32_t left = UINT16_MAX / QD_BURST; left != 0 && n != 0; left--) {
			n = rte_eth_rx_burst(port, q, all, QD_BURST);
			rte_pktmbuf_free_bulk(all, n);
		}
	}
}

int
qd_stop(uint16_t port)
{
	drain(port);
	return rte_eth_dev_stop(port);
}

int
qd_close(uint16_t port)
{
	struct rte_eth_dev_info dev;
	int failed = rte_eth_dev_info_get(port, &dev);

	unlisten(port, failed == 0 && dev.device != NULL ? rte_dev_name(dev.device) : NULL);
	int closed = rte_eth_dev_close(port);

	if (failed != 0 || dev.device == NULL)
		return closed;
	return rte_dev_remove(dev.device);
}
