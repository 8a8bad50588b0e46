//! Raw bindings to the installed DPDK.
//!
//! Nothing here is safe to use on its own: `dpdk-ffi` is the safe interface.
//! Functions named `rdpdk_*` come from the C shim (`shim/shim.h` states their
//! contracts), functions named `rte_*` are DPDK's own.  Fields of `rte_mbuf`
//! are read at offsets that the shim exports, because the structure is laid out
//! anew in some releases.

#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_upper_case_globals,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;

/// Reads one field of an mbuf, given its type and the exported offset.
macro_rules! mbuf_field {
    ($(#[$doc:meta])* $get:ident, $offset:ident, $type:ty) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// `m` points to an mbuf that nobody changes meanwhile.
        #[inline(always)]
        pub unsafe fn $get(m: *const rte_mbuf) -> $type {
            // SAFETY: the C compiler laid the field out at this offset; the caller vouches for `m`.
            unsafe { m.byte_add($offset as usize).cast::<$type>().read() }
        }
    };
}

mbuf_field!(
    /// Start of the segment's buffer, headroom included.
    mbuf_buf_addr, RDPDK_MBUF_BUF_ADDR, *mut u8
);
mbuf_field!(
    /// Length of the segment's buffer in bytes, headroom included.
    mbuf_buf_len, RDPDK_MBUF_BUF_LEN, u16
);
mbuf_field!(
    /// Offset of the data from the start of the buffer, in bytes.
    mbuf_data_off, RDPDK_MBUF_DATA_OFF, u16
);
mbuf_field!(
    /// Bytes of data in this segment.
    mbuf_data_len, RDPDK_MBUF_DATA_LEN, u16
);
mbuf_field!(
    /// Bytes of data in all segments.
    mbuf_pkt_len, RDPDK_MBUF_PKT_LEN, u32
);
mbuf_field!(
    /// Number of segments.
    mbuf_nb_segs, RDPDK_MBUF_NB_SEGS, u16
);
mbuf_field!(
    /// Offload flags, `RTE_MBUF_F_*`.
    mbuf_ol_flags, RDPDK_MBUF_OL_FLAGS, u64
);
mbuf_field!(
    /// VLAN tag control information that was stripped, in CPU order.
    mbuf_vlan_tci, RDPDK_MBUF_VLAN_TCI, u16
);

/// Sets the length of a frame of one segment.
///
/// # Safety
/// `m` points to an mbuf of one segment that nobody else uses, and `len` bytes
/// fit in its buffer behind the data offset.
#[inline(always)]
pub unsafe fn mbuf_set_len(m: *mut rte_mbuf, len: u16) {
    // SAFETY: the C compiler laid the fields out at these offsets; the caller vouches for `m`.
    unsafe {
        m.byte_add(RDPDK_MBUF_DATA_LEN as usize).cast::<u16>().write(len);
        m.byte_add(RDPDK_MBUF_PKT_LEN as usize).cast::<u32>().write(u32::from(len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// bindgen evaluates the offsets with libclang, the shim with the C
    /// compiler that compiled everything that touches an mbuf.
    #[test]
    fn clang_and_the_c_compiler_agree_on_rte_mbuf() {
        let mut c = rdpdk_mbuf_layout::default();
        // SAFETY: writes one structure to memory that this function owns.
        unsafe { rdpdk_mbuf_layout(&mut c) };
        assert_eq!(c.size as usize, size_of::<rte_mbuf>());
        assert_eq!(c.align as usize, align_of::<rte_mbuf>());
        let clang = [
            (RDPDK_MBUF_SIZE, c.size),
            (RDPDK_MBUF_ALIGN, c.align),
            (RDPDK_MBUF_BUF_ADDR, c.buf_addr),
            (RDPDK_MBUF_DATA_OFF, c.data_off),
            (RDPDK_MBUF_NB_SEGS, c.nb_segs),
            (RDPDK_MBUF_OL_FLAGS, c.ol_flags),
            (RDPDK_MBUF_PKT_LEN, c.pkt_len),
            (RDPDK_MBUF_DATA_LEN, c.data_len),
            (RDPDK_MBUF_VLAN_TCI, c.vlan_tci),
            (RDPDK_MBUF_BUF_LEN, c.buf_len),
        ];
        for (index, (by_clang, by_c)) in clang.into_iter().enumerate() {
            assert_eq!(by_clang, by_c, "entry {index}");
        }
    }

    #[test]
    fn the_version_of_headers_and_library_is_the_same() {
        // SAFETY: returns a static string that is terminated.
        let text = unsafe { std::ffi::CStr::from_ptr(rte_version()) }.to_string_lossy().into_owned();
        let headers = format!("{}.{:02}", RDPDK_VERSION_YEAR, RDPDK_VERSION_MONTH);
        assert!(text.contains(&headers), "library `{text}`, headers {headers}");
    }

    #[test]
    fn flags_are_single_bits() {
        for flag in [RDPDK_RX_OFFLOAD_VLAN_STRIP, RDPDK_RX_OFFLOAD_IPV4_CKSUM, RDPDK_TX_OFFLOAD_MULTI_SEGS] {
            assert_eq!(flag.count_ones(), 1);
        }
        assert_eq!(RDPDK_RX_IP_CKSUM_MASK, RDPDK_RX_IP_CKSUM_GOOD | RDPDK_RX_IP_CKSUM_BAD);
    }
}
