/* What a port is told while it runs, and what it tells. */

#include "inside.h"

#include <errno.h>
#include <stdlib.h>

int
qd_set_mtu(uint16_t port, uint16_t mtu)
{
	return rte_eth_dev_set_mtu(port, mtu);
}

int
qd_set_mac(uint16_t port, const uint8_t *mac)
{
	struct rte_ether_addr addr;

	memcpy(addr.addr_bytes, mac, sizeof(addr.addr_bytes));
	return rte_eth_dev_default_mac_addr_set(port, &addr);
}

int
qd_set_promiscuous(uint16_t port, int on)
{
	return on ? rte_eth_promiscuous_enable(port) : rte_eth_promiscuous_disable(port);
}

/* Frames for these groups; for all groups where the device knows no list. */
int
qd_set_groups(uint16_t port, const uint8_t *macs, uint32_t n)
{
	struct rte_ether_addr *list = calloc(n + 1, sizeof(*list));

	if (list == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		memcpy(list[i].addr_bytes, macs + i * RTE_ETHER_ADDR_LEN, RTE_ETHER_ADDR_LEN);
	int failed = rte_eth_dev_set_mc_addr_list(port, list, n);

	free(list);
	if (failed == 0 && rte_eth_allmulticast_get(port) == 1)
		return rte_eth_allmulticast_disable(port);
	if (failed != 0)
		failed = n != 0 ? rte_eth_allmulticast_enable(port) : 0;
	return failed;
}

int
qd_link(uint16_t port, struct qd_link *link)
{
	struct rte_eth_link now;
	int failed = rte_eth_link_get_nowait(port, &now);

	if (failed != 0)
		return failed;
	link->up = now.link_status == RTE_ETH_LINK_UP;
	link->full_duplex = now.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	link->mbps = now.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : now.link_speed;
	return 0;
}

int
qd_stats(uint16_t port, struct qd_stat *stats, uint32_t room)
{
	int n = rte_eth_xstats_get_names(port, NULL, 0);

	if (n <= 0)
		return n;
	struct rte_eth_xstat_name *names = calloc((size_t)n, sizeof(*names));
	struct rte_eth_xstat *values = calloc((size_t)n, sizeof(*values));
	int failed = -ENOMEM;
	uint32_t done = 0;

	if (names != NULL && values != NULL && rte_eth_xstats_get_names(port, names, (unsigned int)n) == n)
		failed = rte_eth_xstats_get(port, values, (unsigned int)n);
	for (int i = 0; i < failed && i < n && done < room; i++) {
		if (values[i].id >= (uint64_t)n)
			continue;
		qd_name(stats[done].name, names[values[i].id].name);
		stats[done++].value = values[i].value;
	}
	free(names);
	free(values);
	return failed < 0 ? failed : (int)done;
}

int
qd_lost(uint16_t port, struct qd_lost *lost)
{
	struct rte_eth_stats all;
	int failed = rte_eth_stats_get(port, &all);

	if (failed != 0)
		return failed;
	*lost = (struct qd_lost){ .missed = all.imissed, .errors = all.ierrors, .no_buffer = all.rx_nombuf };
	return 0;
}
