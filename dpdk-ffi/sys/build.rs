//! Finds the installed DPDK, compiles the C shim against its headers and
//! generates the Rust declarations.
//!
//! Everything comes from `pkg-config libdpdk`: the version, the compiler flags
//! (`-march` and `-include rte_config.h` change the meaning of the headers, so
//! both the shim and bindgen must see them) and the libraries.  What is missing
//! is reported as one message that names the package to install.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const OLDEST: (u32, u32) = (22, 11);
/// First version that is refused.
const TOO_NEW: (u32, u32) = (26, 0);

const INSTALL: &str = "install it with `apt install libdpdk-dev` (Debian, Ubuntu) or `dnf install dpdk-devel` \
     (Fedora, RHEL), or point PKG_CONFIG_PATH at the directory of your own libdpdk.pc";

fn main() {
    for file in ["build.rs", "shim/shim.h", "shim/shim.c"] {
        println!("cargo::rerun-if-changed={file}");
    }
    if let Err(message) = build() {
        // Cargo stops the build with this line: no panic text around it.
        println!("cargo::error={message}");
    }
}

fn build() -> Result<(), String> {
    let version = find_dpdk()?;
    let flags = compiler_flags()?;
    compile_shim(&flags)?;
    generate_bindings(&flags)?;
    println!("cargo::metadata=version={version}");
    Ok(())
}

/// Probes libdpdk, which also prints the link lines for cargo.
fn find_dpdk() -> Result<String, String> {
    let library = pkg_config::Config::new().cargo_metadata(false).probe("libdpdk").map_err(|e| {
        let why = match e {
            pkg_config::Error::Command { .. } => "pkg-config cannot be run (apt/dnf package `pkg-config`)",
            _ => "pkg-config knows no libdpdk",
        };
        format!("DPDK {} to 25.11 is needed and was not found: {why}; {INSTALL}", dotted(OLDEST))
    })?;
    let version = library.version;
    let found = parse_version(&version).ok_or_else(|| {
        format!("cannot read the DPDK version `{version}` that pkg-config reports; {INSTALL}")
    })?;
    if found < OLDEST || found >= TOO_NEW {
        return Err(format!("DPDK {version} was found, {} to 25.11 is needed; {INSTALL}", dotted(OLDEST)));
    }
    pkg_config::Config::new().probe("libdpdk").map_err(|e| format!("pkg-config libdpdk: {e}"))?;
    // rte_eth_from_rings lives in a driver, and drivers are not in the shared
    // link line of libdpdk.pc: DPDK loads them at run time.
    println!("cargo::rustc-link-lib=rte_net_ring");
    Ok(version)
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn dotted((year, month): (u32, u32)) -> String {
    format!("{year}.{month:02}")
}

/// The complete `--cflags`, which the pkg-config crate reduces to -I and -D.
fn compiler_flags() -> Result<Vec<String>, String> {
    let tool = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let output = Command::new(&tool)
        .args(["--cflags", "libdpdk"])
        .output()
        .map_err(|e| format!("cannot run `{tool} --cflags libdpdk`: {e}"))?;
    if !output.status.success() {
        return Err(format!("`{tool} --cflags libdpdk` failed; {INSTALL}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect())
}

fn compile_shim(flags: &[String]) -> Result<(), String> {
    let mut build = cc::Build::new();
    build.file("shim/shim.c").opt_level(3).warnings(true).extra_warnings(true);
    // The headers of DPDK are not ours to fix.
    build.flag_if_supported("-Wno-unused-parameter").flag_if_supported("-Wno-address-of-packed-member");
    for flag in flags {
        build.flag(flag);
    }
    build.try_compile("dpdk_shim").map_err(|e| {
        format!("the C shim does not compile against the installed DPDK (is a C compiler installed?): {e}")
    })
}

fn generate_bindings(flags: &[String]) -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join("bindings.rs");
    // libclang is loaded at run time, and bindgen panics when there is none.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let version = std::panic::catch_unwind(bindgen::clang_version);
    std::panic::set_hook(hook);
    if version.is_err() {
        return Err(
            "libclang was not found, bindgen needs it: install it with `apt install libclang-dev` or \
             `dnf install clang-devel`, or set LIBCLANG_PATH"
                .into(),
        );
    }
    write_bindings(flags, &out)
}

fn write_bindings(flags: &[String], out: &Path) -> Result<(), String> {
    bindgen::Builder::default()
        .header("shim/shim.h")
        .clang_args(flags)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .allowlist_function("rdpdk_.*")
        .allowlist_function("rte_eal_(init|cleanup|get_runtime_dir)")
        .allowlist_function("rte_(version|get_tsc_hz)")
        .allowlist_function("rte_thread_(register|unregister)")
        .allowlist_function("rte_eth_dev_(start|stop|close|set_mtu|get_mtu|get_port_by_name|is_valid_port)")
        .allowlist_function("rte_eth_(promiscuous_enable|stats_reset|from_rings)")
        .allowlist_function("rte_dev_probe")
        .allowlist_function("rte_ring_free")
        .allowlist_function("rte_pktmbuf_free_bulk")
        .allowlist_function("rte_mempool_(free|avail_count)")
        .allowlist_type("rdpdk_.*")
        .allowlist_var("RDPDK_.*")
        // Their layout differs between versions and is none of Rust's business:
        // the shim exports the offsets that are needed.
        .opaque_type("rte_(mbuf|mempool|ring)")
        .prepend_enum_name(false)
        .generate_comments(false)
        .derive_default(true)
        .layout_tests(true)
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new().rerun_on_header_files(false)))
        .generate()
        .map_err(|e| format!("bindgen cannot read the headers of the installed DPDK: {e}"))?
        .write_to_file(out)
        .map_err(|e| format!("cannot write {}: {e}", out.display()))
}
