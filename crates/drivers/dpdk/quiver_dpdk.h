/* What Quiver and quiver-dpdk.so agree on. crates/drivers/src/dpdk/abi.rs says the same in Rust: who changes one changes both, and
 * counts QD_VERSION up. All sizes are checked when the library is loaded. */
#ifndef QUIVER_DPDK_H
#define QUIVER_DPDK_H

#include <stddef.h>
#include <stdint.h>

#define QD_VERSION 2

/* Packets of one call, and pieces of one packet. */
#define QD_BURST 64
#define QD_CHAIN 64
/* Buffers that a lane collects before it gives them back. */
#define QD_LANE 256
#define QD_NAME 64
#define QD_TEXT 256

/* Bytes of one buffer of a packet. */
struct qd_piece {
	uint32_t buf;
	/* From the start of the buffer's room. */
	uint16_t off;
	uint16_t len;
	/* QD_MORE and what follows it. */
	uint16_t flags;
	/* Of a packet that the device cuts: payload bytes of a segment. */
	uint16_t segment;
	/* Of a packet whose checksum the device completes: bytes of its headers. */
	uint8_t l2, l3, l4, unused;
};

/* The packet goes on in the next piece. */
#define QD_MORE 1
/* Received: the transport checksum is right; it is not in the packet, which is right. */
#define QD_CHECKED 2
#define QD_PARTIAL 4
/* To be sent: complete the checksum of this protocol, over IPv4 or else IPv6; cut it into segments. */
#define QD_TCP 8
#define QD_UDP 16
#define QD_IP4 32
#define QD_SEGMENT 64
/* Of the first piece of a packet. */
#define QD_OFFLOADS (QD_TCP | QD_UDP | QD_SEGMENT)

/* Buffers of a pool, by number: takes all or none, and gives back. */
typedef uint32_t (*qd_take)(void *owner, uint32_t *list, uint32_t n);
typedef void (*qd_give)(void *owner, const uint32_t *list, uint32_t n);

struct qd_pool;

/* One thread's way to a pool during one call. */
struct qd_lane {
	struct qd_pool *pool;
	/* For the pool's lane_take and lane_give. */
	void *owner;
	/* Buffers that the device has taken, and given back, since both were read. */
	uint32_t taken, given;
	/* Those that it has given back and that nobody has had yet. */
	uint32_t count;
	uint32_t list[QD_LANE];
};

struct qd_memory {
	void *base;
	uint64_t bytes;
	uint64_t page;
	uint32_t count;
	/* Bytes from one buffer to the next, where its room starts, and how large it is. */
	uint32_t stride, room_at, room, headroom;
	uint32_t unused;
	/* Where no lane is at hand, from any thread. */
	void *owner;
	qd_take take;
	qd_give give;
	qd_take lane_take;
	qd_give lane_give;
};

struct qd_host {
	/* A line of DPDK's log, without its end; level as in rte_log.h. */
	void (*log)(uint32_t level, const char *text, uint32_t len);
	/* Something happened to a port: QD_EVENT_LINK or QD_EVENT_GONE. From any thread. */
	void (*event)(uint16_t port, uint32_t what);
};

#define QD_EVENT_LINK 1
#define QD_EVENT_GONE 2

struct qd_info {
	char driver[QD_NAME];
	char device[QD_NAME];
	uint8_t mac[6];
	uint16_t max_rx, max_tx;
	uint16_t min_mtu, max_mtu;
	int32_t numa;
};

struct qd_setup {
	uint16_t rx_queues, tx_queues;
	uint16_t rx_slots, tx_slots;
	uint16_t mtu;
	/* Have the device check and complete checksums, and cut. */
	uint8_t offloads;
	uint8_t interrupts;
};

/* What a port does of that. */
struct qd_made {
	uint16_t rx_slots, tx_slots;
	/* QD_CAN_... */
	uint32_t can;
};

#define QD_CAN_CHAIN 1
#define QD_CAN_TCP 2
#define QD_CAN_UDP 4
#define QD_CAN_TSO 8
#define QD_CAN_USO 16
#define QD_CAN_RSS 32
#define QD_CAN_CHECK 64
#define QD_CAN_COUNT 128
#define QD_CAN_LINK_EVENT 256

struct qd_link {
	uint32_t mbps;
	uint8_t up, full_duplex, unused[2];
};

struct qd_stat {
	char name[QD_NAME];
	uint64_t value;
};

struct qd_lost {
	uint64_t missed, errors, no_buffer, unused;
};

/* Calls answer 0 or more, or a negated errno. */
struct qd_api {
	uint32_t version;
	uint32_t sizes[8];
	const char *dpdk;
	int (*init)(const struct qd_host *host, int argc, char **argv);
	int (*pool_new)(const struct qd_memory *memory, struct qd_pool **made);
	void (*pool_free)(struct qd_pool *pool);
	int (*probe)(const char *device, const char *name, struct qd_info *info);
	int (*configure)(uint16_t port, const struct qd_setup *setup, struct qd_pool *pool, struct qd_made *made);
	int (*start)(uint16_t port);
	int (*stop)(uint16_t port);
	int (*close)(uint16_t port);
	int (*set_mtu)(uint16_t port, uint16_t mtu);
	int (*set_mac)(uint16_t port, const uint8_t *mac);
	int (*set_promiscuous)(uint16_t port, int on);
	int (*set_groups)(uint16_t port, const uint8_t *macs, uint32_t n);
	int (*link)(uint16_t port, struct qd_link *link);
	int (*stats)(uint16_t port, struct qd_stat *stats, uint32_t room);
	int (*lost)(uint16_t port, struct qd_lost *lost);
	/* A descriptor that is readable when packets wait; to be armed and disarmed, where -ENOTSUP says that it always is; how many
	 * packets wait. */
	int (*rx_fd)(uint16_t port, uint16_t queue);
	int (*rx_arm)(uint16_t port, uint16_t queue, int fd, int on);
	int (*rx_waiting)(uint16_t port, uint16_t queue);
	/* Pieces of up to most packets, which are the caller's then; room for QD_BURST * QD_CHAIN. What cannot be told is lost. */
	uint32_t (*rx)(uint16_t port, uint16_t queue, struct qd_lane *lane, struct qd_piece *pieces, uint32_t most,
		       uint32_t *lost);
	/* Sends up to QD_BURST packets; how many of them the device has taken. The others stay the caller's; of these the first
	 * is at fault where *bad. */
	uint32_t (*tx)(uint16_t port, uint16_t queue, struct qd_lane *lane, const struct qd_piece *pieces, uint32_t n,
		       uint32_t *bad);
};

#endif
