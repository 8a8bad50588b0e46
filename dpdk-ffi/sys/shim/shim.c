/*
 * Plain C functions around what of DPDK is inline, a macro, or different from
 * release to release.  See shim.h for the contracts.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_cycles.h>
#include <rte_log.h>

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "DPDK 22.11 or later is needed"
#endif

/* Rust reads these fields at the exported offsets with these widths. */
#define FIELD_WIDTH(field) sizeof(((struct rte_mbuf *)0)->field)
_Static_assert(FIELD_WIDTH(buf_addr) == sizeof(void *), "rte_mbuf.buf_addr");
_Static_assert(FIELD_WIDTH(data_off) == 2, "rte_mbuf.data_off");
_Static_assert(FIELD_WIDTH(nb_segs) == 2, "rte_mbuf.nb_segs");
_Static_assert(FIELD_WIDTH(ol_flags) == 8, "rte_mbuf.ol_flags");
_Static_assert(FIELD_WIDTH(pkt_len) == 4, "rte_mbuf.pkt_len");
_Static_assert(FIELD_WIDTH(data_len) == 2, "rte_mbuf.data_len");
_Static_assert(FIELD_WIDTH(vlan_tci) == 2, "rte_mbuf.vlan_tci");
_Static_assert(FIELD_WIDTH(buf_len) == 2, "rte_mbuf.buf_len");

#define BURST 64

/* ---- process ---- */

int rdpdk_errno(void)
{
	return rte_errno;
}

uint32_t rdpdk_lcore_id(void)
{
	return rte_lcore_id();
}

uint64_t rdpdk_tsc(void)
{
	return rte_rdtsc();
}

static struct {
	pthread_mutex_t lock;
	size_t len;
	bool echo;
	char text[16384];
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

static ssize_t log_write(void *cookie, const char *data, size_t n)
{
	const size_t room = sizeof(kept.text);
	const char *tail = data;
	size_t take = n;

	(void)cookie;
	if (take > room) {
		tail += take - room;
		take = room;
	}
	pthread_mutex_lock(&kept.lock);
	if (kept.len + take > room) {
		/* The oldest text goes: a reason stands at the end. */
		size_t drop = kept.len + take - room;

		memmove(kept.text, kept.text + drop, kept.len - drop);
		kept.len -= drop;
	}
	memcpy(kept.text + kept.len, tail, take);
	kept.len += take;
	if (kept.echo)
		fwrite(data, 1, n, stderr);
	pthread_mutex_unlock(&kept.lock);
	return (ssize_t)n;
}

int rdpdk_log_open(uint32_t level, int echo)
{
	cookie_io_functions_t functions = { .write = log_write };
	FILE *stream = fopencookie(NULL, "w", functions);

	if (stream == NULL)
		return -errno;
	setvbuf(stream, NULL, _IOLBF, 512);
	pthread_mutex_lock(&kept.lock);
	kept.echo = echo != 0;
	pthread_mutex_unlock(&kept.lock);
	rte_log_set_global_level(level);
	if (rte_openlog_stream(stream) != 0) {
		fclose(stream);
		return -EINVAL;
	}
	return 0;
}

size_t rdpdk_log_take(char *out, size_t room)
{
	size_t n;

	pthread_mutex_lock(&kept.lock);
	n = RTE_MIN(kept.len, room);
	memcpy(out, kept.text + (kept.len - n), n);
	kept.len = 0;
	pthread_mutex_unlock(&kept.lock);
	return n;
}

/* ---- buffers ---- */

struct rte_mempool *rdpdk_pool_create(const char *name, uint32_t count, uint32_t cache,
				      uint16_t data_room, int socket, const char *ops)
{
	return rte_pktmbuf_pool_create_by_ops(name, count, cache, 0, data_room, socket, ops);
}

uint32_t rdpdk_pool_element_size(uint16_t data_room)
{
	return rte_mempool_calc_obj_size(sizeof(struct rte_mbuf) + data_room, 0, NULL);
}

int rdpdk_pool_is_full(const struct rte_mempool *pool)
{
	/* Not rte_mempool_full: that one cuts the sum at the size, and so calls
	 * a pool full while a cache is being written back and counts twice. */
	uint64_t sum = rte_mempool_get_ops(pool->ops_index)->get_count(pool);
	unsigned int lcore;

	for (lcore = 0; pool->cache_size != 0 && lcore < RTE_MAX_LCORE; lcore++)
		sum += pool->local_cache[lcore].len;
	return sum == pool->size;
}

const char *rdpdk_pool_ops_name(const struct rte_mempool *pool)
{
	return rte_mempool_get_ops(pool->ops_index)->name;
}

static void flush_one(struct rte_mempool *pool, void *arg)
{
	struct rte_mempool_cache *cache = rte_mempool_default_cache(pool, *(unsigned int *)arg);

	if (cache != NULL)
		rte_mempool_cache_flush(cache, pool);
}

void rdpdk_flush_lcore_caches(void)
{
	unsigned int lcore = rte_lcore_id();

	if (lcore != LCORE_ID_ANY)
		rte_mempool_walk(flush_one, &lcore);
}

/* Asks for a cache line to be written. */
static inline void prefetch_write(void *p)
{
#ifdef RTE_ARCH_X86_64
	/* What compilers make of a prefetch for writing unless told of this instruction, which all
	 * x86-64 processors take, is one for reading. */
	__asm__ volatile("prefetchw %0" : : "m"(*(char *)p));
#else
	__builtin_prefetch(p, 1, 3);
#endif
}

/* Lines of data that are fetched with every received frame. */
#define DATA_LINES 2

/* As rte_pktmbuf_reset(), but for what a free buffer has already (see rte_mbuf_raw_alloc()): one segment,
 * nothing after it.  The second line of the buffer, which the one who frees it reads, is not written then
 * and stays in both caches.  Offloads that are not asked for by a flag need no parameters. */
static inline void make_ready(struct rte_mbuf *m)
{
	RTE_ASSERT(m->next == NULL && m->nb_segs == 1);
	m->data_off = RTE_PKTMBUF_HEADROOM;
	m->port = RTE_MBUF_PORT_INVALID;
	m->ol_flags = 0;
	m->packet_type = 0;
	m->pkt_len = 0;
	m->data_len = 0;
	m->vlan_tci = 0;
	m->vlan_tci_outer = 0;
}

int rdpdk_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **out, uint32_t n)
{
	uint32_t i;

	if (rdpdk_take_bulk(pool, out, n) != 0)
		return -1;
	for (i = 0; i < n; i++)
		prefetch_write(out[i]);
	for (i = 0; i < n; i++)
		make_ready(out[i]);
	return 0;
}

int rdpdk_take_bulk(struct rte_mempool *pool, struct rte_mbuf **out, uint32_t n)
{
	return rte_mempool_get_bulk(pool, (void **)out, n);
}

void rdpdk_make_ready(struct rte_mbuf *m)
{
	make_ready(m);
}

void rdpdk_fetch_fresh(struct rte_mbuf *m, uint32_t len)
{
	/* Nothing is read from it to know where its data will be: rdpdk_pool_create() asks for no private
	 * area. */
	char *data = (char *)(m + 1) + RTE_PKTMBUF_HEADROOM;
	uint32_t at;

	prefetch_write(m);
	for (at = 0; at < len; at += RTE_CACHE_LINE_MIN_SIZE)
		prefetch_write(data + at);
}

void rdpdk_fetch_room(const struct rte_mbuf *m, uint32_t from, uint32_t to)
{
	char *data = (char *)(m + 1) + RTE_PKTMBUF_HEADROOM;
	uint32_t at;

	for (at = from; at < to; at += RTE_CACHE_LINE_MIN_SIZE)
		prefetch_write(data + at);
}

void rdpdk_fetch_data(const struct rte_mbuf *m)
{
	const char *data = rte_pktmbuf_mtod(m, const char *);
	uint32_t at, len = m->data_len;

	for (at = DATA_LINES * RTE_CACHE_LINE_MIN_SIZE; at < len; at += RTE_CACHE_LINE_MIN_SIZE)
		rte_prefetch0(data + at);
}

void rdpdk_mbuf_free(struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
}

/* Segments of a frame that carries shared bytes. */
#define CHAIN 3

/* The bytes belong to their pool, which outlives its buffers. */
static void shared_bytes_stay(void *addr, void *opaque)
{
	(void)addr;
	(void)opaque;
}

void rdpdk_mbuf_chain(struct rte_mbuf *head, struct rte_mbuf *middle, const void *bytes,
		      uint16_t len, struct rte_mbuf *tail)
{
	/* In the buffer that is not used: no two frames share a count, so none is contended. */
	struct rte_mbuf_ext_shared_info *info =
		(void *)((char *)middle->buf_addr + RTE_PKTMBUF_HEADROOM);

	info->free_cb = shared_bytes_stay;
	info->fcb_opaque = NULL;
	rte_mbuf_ext_refcnt_set(info, 1);
	rte_pktmbuf_attach_extbuf(middle, (void *)(uintptr_t)bytes, RTE_BAD_IOVA, len, info);
	middle->data_len = len;
	middle->next = tail;
	head->next = middle;
	head->nb_segs = CHAIN;
	head->pkt_len = (uint32_t)head->data_len + len + tail->data_len;
}

struct rte_mbuf *rdpdk_mbuf_next(const struct rte_mbuf *m)
{
	return m->next;
}

struct rte_mempool *rdpdk_mbuf_pool(const struct rte_mbuf *m)
{
	return m->pool;
}

int rdpdk_mbuf_linearize(struct rte_mbuf *m)
{
	return rte_pktmbuf_linearize(m);
}

uint32_t rdpdk_mbuf_copy(const struct rte_mbuf *m, uint8_t *out, uint32_t n)
{
	uint32_t done = 0;

	for (; m != NULL && done < n; m = m->next) {
		uint32_t part = RTE_MIN((uint32_t)m->data_len, n - done);

		memcpy(out + done, rte_pktmbuf_mtod(m, const uint8_t *), part);
		done += part;
	}
	return done;
}

void rdpdk_mbuf_layout(struct rdpdk_mbuf_layout *out)
{
	*out = (struct rdpdk_mbuf_layout){
		.size = sizeof(struct rte_mbuf),
		.align = __alignof__(struct rte_mbuf),
		.buf_addr = offsetof(struct rte_mbuf, buf_addr),
		.data_off = offsetof(struct rte_mbuf, data_off),
		.nb_segs = offsetof(struct rte_mbuf, nb_segs),
		.ol_flags = offsetof(struct rte_mbuf, ol_flags),
		.pkt_len = offsetof(struct rte_mbuf, pkt_len),
		.data_len = offsetof(struct rte_mbuf, data_len),
		.vlan_tci = offsetof(struct rte_mbuf, vlan_tci),
		.buf_len = offsetof(struct rte_mbuf, buf_len),
	};
}

/* ---- ports ---- */

int32_t rdpdk_port_next(uint16_t from)
{
	uint64_t port = rte_eth_find_next_owned_by(from, RTE_ETH_DEV_NO_OWNER);

	return port < RTE_MAX_ETHPORTS ? (int32_t)port : -1;
}

static void copy_text(char *out, size_t room, const char *in)
{
	snprintf(out, room, "%s", in == NULL ? "" : in);
}

/* How rte_eth_dev_configure turns an MTU into a frame length. */
static uint32_t frame_overhead(const struct rte_eth_dev_info *info)
{
	if (info->max_mtu != UINT16_MAX && info->max_rx_pktlen > info->max_mtu)
		return info->max_rx_pktlen - info->max_mtu;
	return RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
}

int rdpdk_port_info(uint16_t port, struct rdpdk_port_info *out)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	int rc;

	memset(out, 0, sizeof(*out));
	rc = rte_eth_dev_info_get(port, &info);
	if (rc != 0)
		return rc;
	rc = rte_eth_dev_get_name_by_port(port, out->name);
	if (rc != 0)
		return rc;
	copy_text(out->driver, sizeof(out->driver), info.driver_name);
	if (info.device != NULL && rte_dev_bus(info.device) != NULL)
		copy_text(out->bus, sizeof(out->bus), rte_bus_name(rte_dev_bus(info.device)));
	if (rte_eth_macaddr_get(port, &mac) == 0)
		memcpy(out->mac, mac.addr_bytes, sizeof(out->mac));
	out->numa = rte_eth_dev_socket_id(port);
	out->if_index = info.if_index;
	out->min_mtu = info.min_mtu;
	out->max_mtu = info.max_mtu;
	out->frame_overhead = frame_overhead(&info);
	if (info.max_rx_pktlen > out->frame_overhead)
		out->max_mtu = RTE_MIN(out->max_mtu, info.max_rx_pktlen - out->frame_overhead);
	out->max_rx_queues = info.max_rx_queues;
	out->max_tx_queues = info.max_tx_queues;
	out->rx_desc_min = info.rx_desc_lim.nb_min;
	out->rx_desc_max = info.rx_desc_lim.nb_max;
	out->rx_desc_align = info.rx_desc_lim.nb_align;
	out->tx_desc_min = info.tx_desc_lim.nb_min;
	out->tx_desc_max = info.tx_desc_lim.nb_max;
	out->tx_desc_align = info.tx_desc_lim.nb_align;
	out->rx_offload_capa = info.rx_offload_capa;
	out->tx_offload_capa = info.tx_offload_capa;
	out->rss_capa = info.flow_type_rss_offloads;
	out->speed_capa = info.speed_capa;
	(void)rdpdk_port_link(port, &out->link);
	return 0;
}

int rdpdk_port_configure(uint16_t port, struct rdpdk_port_conf *conf)
{
	struct rte_eth_conf dev = { 0 };
	int rc;

	dev.rxmode.mtu = conf->mtu;
	dev.rxmode.offloads = conf->rx_offloads;
	dev.txmode.offloads = conf->tx_offloads;
	if (conf->rss != 0) {
		dev.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		dev.rx_adv_conf.rss_conf.rss_hf = conf->rss;
	}
	rc = rte_eth_dev_configure(port, conf->rx_queues, conf->tx_queues, &dev);
	if (rc != 0)
		return rc;
	return rte_eth_dev_adjust_nb_rx_tx_desc(port, &conf->rx_desc, &conf->tx_desc);
}

int rdpdk_rx_queue_setup(uint16_t port, uint16_t queue, const struct rdpdk_port_conf *conf,
			 int socket, struct rte_mempool *pool)
{
	struct rte_eth_dev_info info;
	struct rte_eth_rxconf rx;
	int rc = rte_eth_dev_info_get(port, &info);

	if (rc != 0)
		return rc;
	rx = info.default_rxconf;
	rx.offloads = conf->rx_offloads;
	return rte_eth_rx_queue_setup(port, queue, conf->rx_desc, (unsigned int)socket, &rx, pool);
}

int rdpdk_tx_queue_setup(uint16_t port, uint16_t queue, const struct rdpdk_port_conf *conf,
			 int socket)
{
	struct rte_eth_dev_info info;
	struct rte_eth_txconf tx;
	int rc = rte_eth_dev_info_get(port, &info);

	if (rc != 0)
		return rc;
	tx = info.default_txconf;
	tx.offloads = conf->tx_offloads;
	return rte_eth_tx_queue_setup(port, queue, conf->tx_desc, (unsigned int)socket, &tx);
}

int rdpdk_port_link(uint16_t port, struct rdpdk_link *out)
{
	struct rte_eth_link link;
	int rc;

	memset(&link, 0, sizeof(link));
	memset(out, 0, sizeof(*out));
	rc = rte_eth_link_get_nowait(port, &link);
	if (rc != 0)
		return rc;
	out->speed_mbps = link.link_speed;
	out->up = link.link_status == RTE_ETH_LINK_UP;
	out->full_duplex = link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	out->autoneg = link.link_autoneg == RTE_ETH_LINK_AUTONEG;
	return 0;
}

int rdpdk_port_stats(uint16_t port, struct rdpdk_port_stats *out)
{
	struct rte_eth_stats stats;
	int rc = rte_eth_stats_get(port, &stats);

	if (rc != 0)
		return rc;
	*out = (struct rdpdk_port_stats){
		.rx_packets = stats.ipackets,
		.tx_packets = stats.opackets,
		.rx_bytes = stats.ibytes,
		.tx_bytes = stats.obytes,
		.rx_missed = stats.imissed,
		.rx_errors = stats.ierrors,
		.tx_errors = stats.oerrors,
		.rx_nombuf = stats.rx_nombuf,
	};
	return 0;
}

int rdpdk_port_mac(uint16_t port, uint8_t out[6])
{
	struct rte_ether_addr mac;
	int rc = rte_eth_macaddr_get(port, &mac);

	if (rc == 0)
		memcpy(out, mac.addr_bytes, 6);
	return rc;
}

int rdpdk_port_set_flow_control(uint16_t port, int on)
{
	struct rte_eth_fc_conf conf;
	int rc;

	memset(&conf, 0, sizeof(conf));
	/* Water marks and times of the driver stay as they are. */
	rc = rte_eth_dev_flow_ctrl_get(port, &conf);
	if (rc != 0)
		return rc;
	conf.mode = on ? RTE_ETH_FC_FULL : RTE_ETH_FC_NONE;
	conf.mac_ctrl_frame_fwd = !on;
	conf.autoneg = 0;
	return rte_eth_dev_flow_ctrl_set(port, &conf);
}

int rdpdk_port_set_pfc(uint16_t port, uint8_t priority, uint16_t quanta)
{
	struct rte_eth_pfc_conf conf;

	memset(&conf, 0, sizeof(conf));
	/* The marks of 802.3x are the only ones that a driver tells. */
	rte_eth_dev_flow_ctrl_get(port, &conf.fc);
	conf.fc.mode = RTE_ETH_FC_FULL;
	conf.fc.pause_time = quanta;
	conf.fc.send_xon = 1;
	conf.fc.mac_ctrl_frame_fwd = 0;
	conf.fc.autoneg = 0;
	conf.priority = priority;
	return rte_eth_dev_priority_flow_ctrl_set(port, &conf);
}

int rdpdk_port_set_mac(uint16_t port, const uint8_t mac[6])
{
	struct rte_ether_addr address;

	memcpy(address.addr_bytes, mac, 6);
	return rte_eth_dev_default_mac_addr_set(port, &address);
}

struct rte_device *rdpdk_port_device(uint16_t port)
{
	struct rte_eth_dev_info info;

	return rte_eth_dev_info_get(port, &info) == 0 ? info.device : NULL;
}

int rdpdk_device_is_virtual(const struct rte_device *device)
{
	const struct rte_bus *bus = rte_dev_bus(device);

	return bus != NULL && strcmp(rte_bus_name(bus), "vdev") == 0;
}

int rdpdk_device_remove(struct rte_device *device)
{
	return rte_dev_remove(device);
}

uint16_t rdpdk_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **out, uint16_t n)
{
	uint16_t i, line, got = rte_eth_rx_burst(port, queue, out, n);

	/* All on their way at once, before the first one is looked at. */
	for (i = 0; i < got; i++) {
		rte_prefetch0(out[i]);
		rte_prefetch0((char *)out[i] + RTE_CACHE_LINE_MIN_SIZE);
	}
	for (i = 0; i < got; i++) {
		const char *data = rte_pktmbuf_mtod(out[i], const char *);

		for (line = 0; line < DATA_LINES; line++)
			rte_prefetch0(data + line * RTE_CACHE_LINE_MIN_SIZE);
		if (out[i]->nb_segs == CHAIN) {
			rte_prefetch0(out[i]->next);
			rte_prefetch0((char *)out[i]->next + RTE_CACHE_LINE_MIN_SIZE);
		}
	}
	for (i = 0; i < got; i++) {
		const struct rte_mbuf *middle = out[i]->next;

		if (out[i]->nb_segs == CHAIN) {
			rte_prefetch0(middle->next);
			rte_prefetch0((char *)middle->next + RTE_CACHE_LINE_MIN_SIZE);
			rte_prefetch0(rte_pktmbuf_mtod(middle, const char *));
			/* That of the tail lies behind it. */
			rte_prefetch0((char *)(middle->next + 1) + RTE_PKTMBUF_HEADROOM);
		}
	}
	return got;
}

uint16_t rdpdk_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **batch, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, batch, n);
}

/* ---- rings ---- */

struct rte_ring *rdpdk_ring_create(const char *name, uint32_t size, int socket)
{
	return rte_ring_create(name, size, socket,
			       RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
}

uint32_t rdpdk_ring_drain(struct rte_ring *ring)
{
	struct rte_mbuf *batch[BURST];
	uint32_t total = 0;
	unsigned int n;

	while ((n = rte_ring_dequeue_burst(ring, (void **)batch, BURST, NULL)) > 0) {
		rte_pktmbuf_free_bulk(batch, n);
		total += n;
	}
	return total;
}
