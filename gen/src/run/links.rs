//! `[link]` on live ports: a queue and a slow cable between the two ends of a ring.

use super::worker::{Io, Plan};
use crate::config::{Device, Scenario, ScenarioError};
use roce_engine::fabric::{Cable, Framing, Red};
use roce_engine::io::link::LinkSpec;

/// Leads what the ends of rings send over the link of the scenario, where it has a rate.
///
/// # Errors
/// A port with several workers: each would have a link of its own.
pub(super) fn lead(s: &Scenario, seed: u64, plans: &mut [Plan<Io>]) -> Result<(), ScenarioError> {
    let Some(rate) = s.link.rate else { return Ok(()) };
    let cable = Cable { rate, delay: s.link.delay, framing: Framing::ETHERNET };
    let red = s.link.marking.map(|m| Red::new(m.kmin, m.kmax, m.pmax));
    let mut led = Vec::new();
    for plan in plans {
        for (endpoint, port) in plan.endpoints.iter_mut().zip(&plan.ports) {
            if !matches!(s.ports[*port].device, Device::Ring(_)) {
                continue;
            }
            if led.contains(port) {
                let text = "the [link] has a rate, and a link belongs to one worker: give the port one core";
                return Err(s.port_error(*port, "cores", text));
            }
            led.push(*port);
            let seed = seed ^ (*port as u64) << 32;
            endpoint.io_mut().set_link(LinkSpec { cable, queue_bytes: s.link.queue_bytes, red, seed });
        }
    }
    if led.is_empty() {
        let text = "[link]: key \"rate\": a link with a rate stands between the two ends of a ring, and no port is one: give \
                    two ports device = \"ring:0\", or take the rate out";
        return Err(ScenarioError { place: s.place("link", None, Some("rate")), text: text.to_owned() });
    }
    Ok(())
}
