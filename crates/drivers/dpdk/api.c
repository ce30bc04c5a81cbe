/* What Quiver finds when it opens the library. */

#include "inside.h"

#include <rte_version.h>

__attribute__((visibility("default"))) const struct qd_api quiver_dpdk_api = {
	.version = QD_VERSION,
	.sizes = { sizeof(struct qd_api), sizeof(struct qd_piece), sizeof(struct qd_lane), sizeof(struct qd_memory),
		   sizeof(struct qd_info), sizeof(struct qd_setup), sizeof(struct qd_stat), sizeof(struct qd_lost) },
	.dpdk = RTE_VER_PREFIX " " RTE_STR(RTE_VER_YEAR) "." RTE_STR(RTE_VER_MONTH) "." RTE_STR(RTE_VER_MINOR),
	.init = qd_init,
	.pool_new = qd_pool_new,
	.pool_free = qd_pool_free,
	.probe = qd_probe,
	.configure = qd_configure,
	.start = qd_start,
	.stop = qd_stop,
	.close = qd_close,
	.set_mtu = qd_set_mtu,
	.set_mac = qd_set_mac,
	.set_promiscuous = qd_set_promiscuous,
	.set_groups = qd_set_groups,
	.link = qd_link,
	.stats = qd_stats,
	.lost = qd_lost,
	.rx_fd = qd_rx_fd,
	.rx_arm = qd_rx_arm,
	.rx_waiting = qd_rx_waiting,
	.rx = qd_rx,
	.tx = qd_tx,
};
