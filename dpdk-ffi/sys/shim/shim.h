/*
 * What Rust sees of DPDK.
 *
 * Most of the fast path of DPDK is static inline, many of its constants are
 * macros, and the layout of its structures changes from release to release.
 * None of that crosses the language border: it is flattened here into plain
 * functions, plain structures and evaluated constants.  Functions return 0 or
 * a count on success and a negative errno on failure, unless said otherwise.
 */
#ifndef RDPDK_SHIM_H
#define RDPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>

/* ---- constants: clang evaluates them, the tests compare them with gcc ---- */

enum rdpdk_const {
	RDPDK_VERSION_YEAR = RTE_VER_YEAR,
	RDPDK_VERSION_MONTH = RTE_VER_MONTH,
	RDPDK_NAME_LEN = RTE_ETH_NAME_MAX_LEN,
	RDPDK_MAX_LCORE = RTE_MAX_LCORE,
	RDPDK_MAX_PORTS = RTE_MAX_ETHPORTS,
	RDPDK_HEADROOM = RTE_PKTMBUF_HEADROOM,
	RDPDK_CACHE_MAX = RTE_MEMPOOL_CACHE_MAX_SIZE,
	RDPDK_MBUF_SIZE = sizeof(struct rte_mbuf),
	RDPDK_MBUF_ALIGN = __alignof__(struct rte_mbuf),
	RDPDK_MBUF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr),
	RDPDK_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off),
	RDPDK_MBUF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs),
	RDPDK_MBUF_OL_FLAGS = offsetof(struct rte_mbuf, ol_flags),
	RDPDK_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len),
	RDPDK_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len),
	RDPDK_MBUF_VLAN_TCI = offsetof(struct rte_mbuf, vlan_tci),
	RDPDK_MBUF_BUF_LEN = offsetof(struct rte_mbuf, buf_len),
};

static const uint32_t RDPDK_LCORE_ANY = LCORE_ID_ANY;
static const uint32_t RDPDK_SPEED_UNKNOWN = RTE_ETH_SPEED_NUM_UNKNOWN;

static const uint64_t RDPDK_RX_OFFLOAD_VLAN_STRIP = RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
static const uint64_t RDPDK_RX_OFFLOAD_IPV4_CKSUM = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
static const uint64_t RDPDK_RX_OFFLOAD_SCATTER = RTE_ETH_RX_OFFLOAD_SCATTER;
static const uint64_t RDPDK_RX_OFFLOAD_RSS_HASH = RTE_ETH_RX_OFFLOAD_RSS_HASH;
static const uint64_t RDPDK_RX_OFFLOAD_UDP_CKSUM = RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
static const uint64_t RDPDK_RX_OFFLOAD_TIMESTAMP = RTE_ETH_RX_OFFLOAD_TIMESTAMP;

static const uint64_t RDPDK_TX_OFFLOAD_VLAN_INSERT = RTE_ETH_TX_OFFLOAD_VLAN_INSERT;
static const uint64_t RDPDK_TX_OFFLOAD_IPV4_CKSUM = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
static const uint64_t RDPDK_TX_OFFLOAD_UDP_CKSUM = RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
static const uint64_t RDPDK_TX_OFFLOAD_MULTI_SEGS = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
static const uint64_t RDPDK_TX_OFFLOAD_MBUF_FAST_FREE = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;

static const uint64_t RDPDK_RX_VLAN_STRIPPED = RTE_MBUF_F_RX_VLAN_STRIPPED;
static const uint64_t RDPDK_RX_IP_CKSUM_MASK = RTE_MBUF_F_RX_IP_CKSUM_MASK;
static const uint64_t RDPDK_RX_IP_CKSUM_BAD = RTE_MBUF_F_RX_IP_CKSUM_BAD;
static const uint64_t RDPDK_RX_IP_CKSUM_GOOD = RTE_MBUF_F_RX_IP_CKSUM_GOOD;
static const uint64_t RDPDK_RX_IP_CKSUM_NONE = RTE_MBUF_F_RX_IP_CKSUM_NONE;

static const uint64_t RDPDK_RSS_IP_UDP = RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP;

/* ---- structures ---- */

/* Layout of rte_mbuf as the C compiler of the shim sees it. */
struct rdpdk_mbuf_layout {
	uint32_t size, align;
	uint32_t buf_addr, data_off, nb_segs, ol_flags, pkt_len, data_len, vlan_tci, buf_len;
};

struct rdpdk_link {
	uint32_t speed_mbps; /* 0: none, RDPDK_SPEED_UNKNOWN: unknown */
	uint8_t up, full_duplex, autoneg;
};

struct rdpdk_port_info {
	char name[RTE_ETH_NAME_MAX_LEN];
	char driver[RTE_ETH_NAME_MAX_LEN];
	char bus[32];
	uint8_t mac[6];
	int32_t numa; /* negative: unknown */
	uint32_t if_index;
	uint32_t min_mtu, max_mtu; /* as rte_eth_dev_configure will check them */
	uint32_t frame_overhead;   /* bytes added to the MTU in that check */
	uint16_t max_rx_queues, max_tx_queues;
	uint16_t rx_desc_min, rx_desc_max, rx_desc_align;
	uint16_t tx_desc_min, tx_desc_max, tx_desc_align;
	uint64_t rx_offload_capa, tx_offload_capa, rss_capa;
	uint32_t speed_capa; /* bits of RTE_ETH_LINK_SPEED_* */
	struct rdpdk_link link;
};

struct rdpdk_port_conf {
	uint16_t rx_queues, tx_queues;
	uint16_t rx_desc, tx_desc; /* in: wanted; out: what the driver takes */
	uint32_t mtu;              /* 0: the driver's default */
	uint64_t rx_offloads, tx_offloads;
	uint64_t rss; /* 0: no RSS */
};

struct rdpdk_port_stats {
	uint64_t rx_packets, tx_packets, rx_bytes, tx_bytes;
	uint64_t rx_missed, rx_errors, tx_errors, rx_nombuf;
};

/* ---- process ---- */

int rdpdk_errno(void);
uint32_t rdpdk_lcore_id(void);
uint64_t rdpdk_tsc(void);

/* Takes over DPDK's log: the last 16 KiB are kept, and written to standard
 * error as well if echo is set.  Level as in rte_log.h, 4 = error. */
int rdpdk_log_open(uint32_t level, int echo);
/* Moves what is kept into out (not terminated); returns its length. */
size_t rdpdk_log_take(char *out, size_t room);

/* ---- buffers ---- */

/* ops: name of the mempool operations, or NULL for the build's default.
 * data_room counts the headroom. */
struct rte_mempool *rdpdk_pool_create(const char *name, uint32_t count, uint32_t cache,
				      uint16_t data_room, int socket, const char *ops);
/* Bytes of memory that one mbuf of such a pool takes. */
uint32_t rdpdk_pool_element_size(uint16_t data_room);
/* 1 if every element is back, counted exactly; 0 otherwise. */
int rdpdk_pool_is_full(const struct rte_mempool *pool);
const char *rdpdk_pool_ops_name(const struct rte_mempool *pool);
/* Gives what the calling lcore caches of any pool back to that pool. */
void rdpdk_flush_lcore_caches(void);
/* All or nothing. */
int rdpdk_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **out, uint32_t n);
/* The same without looking at the buffers: they are as the last owner left them until
 * rdpdk_make_ready(). */
int rdpdk_take_bulk(struct rte_mempool *pool, struct rte_mbuf **out, uint32_t n);
void rdpdk_make_ready(struct rte_mbuf *m);
/* Brings a buffer near that is to be made ready and to be written up to `len`, and more of its room. */
void rdpdk_fetch_fresh(struct rte_mbuf *m, uint32_t len);
void rdpdk_fetch_room(const struct rte_mbuf *m, uint32_t from, uint32_t to);
/* Brings the lines of a frame near that rdpdk_rx_burst() does not, to be read up to its length. */
void rdpdk_fetch_data(const struct rte_mbuf *m);
void rdpdk_mbuf_free(struct rte_mbuf *m);
/*
 * Makes one frame of three buffers of one segment each: `head`, `middle`, whose data is `len` bytes
 * at `bytes` instead of its own, and `tail`.  The bytes must stay until `middle` is back in its pool.
 */
void rdpdk_mbuf_chain(struct rte_mbuf *head, struct rte_mbuf *middle, const void *bytes,
		      uint16_t len, struct rte_mbuf *tail);
/* The next segment, or null. */
struct rte_mbuf *rdpdk_mbuf_next(const struct rte_mbuf *m);
struct rte_mempool *rdpdk_mbuf_pool(const struct rte_mbuf *m);
int rdpdk_mbuf_linearize(struct rte_mbuf *m);
/* Copies up to n bytes over all segments; returns how many. */
uint32_t rdpdk_mbuf_copy(const struct rte_mbuf *m, uint8_t *out, uint32_t n);
void rdpdk_mbuf_layout(struct rdpdk_mbuf_layout *out);

/* ---- ports ---- */

/* First port at or after from, or -1. */
int32_t rdpdk_port_next(uint16_t from);
int rdpdk_port_info(uint16_t port, struct rdpdk_port_info *out);
int rdpdk_port_configure(uint16_t port, struct rdpdk_port_conf *conf);
int rdpdk_rx_queue_setup(uint16_t port, uint16_t queue, const struct rdpdk_port_conf *conf,
			 int socket, struct rte_mempool *pool);
int rdpdk_tx_queue_setup(uint16_t port, uint16_t queue, const struct rdpdk_port_conf *conf,
			 int socket);
int rdpdk_port_link(uint16_t port, struct rdpdk_link *out);
int rdpdk_port_stats(uint16_t port, struct rdpdk_port_stats *out);
int rdpdk_port_mac(uint16_t port, uint8_t out[6]);
int rdpdk_port_set_mac(uint16_t port, const uint8_t mac[6]);
/* 802.3x by the NIC, both ways, or none; without, MAC control frames are handed over. */
int rdpdk_port_set_flow_control(uint16_t port, int on);
/* 802.1Qbb by the NIC, both ways, for one priority. */
int rdpdk_port_set_pfc(uint16_t port, uint8_t priority, uint16_t quanta);
/* The device behind a port; NULL if there is none.  Valid until its removal. */
struct rte_device *rdpdk_port_device(uint16_t port);
/* 1 if the device is a virtual one. */
int rdpdk_device_is_virtual(const struct rte_device *device);
int rdpdk_device_remove(struct rte_device *device);

uint16_t rdpdk_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **out, uint16_t n);
uint16_t rdpdk_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **batch, uint16_t n);

/* ---- rings ---- */

/* One producer, one consumer, exactly size entries. NULL and rte_errno. */
struct rte_ring *rdpdk_ring_create(const char *name, uint32_t size, int socket);
/* Frees the mbufs in a ring that nobody else uses; returns how many. */
uint32_t rdpdk_ring_drain(struct rte_ring *ring);

#endif
