//! How others are reached: what a port is to its network, who takes frames to whom, and other machines.

use super::Setup;
use crate::config::{Device, DialBy, Scenario};
use crate::run::EnvironmentError;
use crate::run::connect::QpInfo;
use crate::run::signal::Signals;
use crate::run::talk::Talk;
use crate::station::Station;
use anyhow::Result;
use roce_engine::io::{Clock, PacketIo};
use roce_engine::net::{Host, HostConfig, Subnet};
use roce_engine::wire::MacAddr;

/// What the port is to others on its network: it says who it is when it is asked for its address, and
/// answers pings.  `None` where nobody can ask, and between two processes joined by memory unless the port
/// has somebody to ask.
pub(super) fn host_of(s: &Scenario, index: usize, mac: MacAddr) -> Option<Host> {
    let port = &s.ports[index];
    let memif = matches!(&port.device, Device::Vdev { driver, .. } if driver == "net_memif");
    let dials = s.flows.iter().filter(|f| f.from == index && f.dial.is_some());
    let asks = port.gateway.is_some() || !port.neighbours.is_empty() || dials.clone().next().is_some();
    let mut neighbours = port.neighbours.clone();
    neighbours.extend(dials.clone().filter_map(|f| Some((s.ports[f.to].ip, port.next_hop_mac?))));
    // Without a prefix length every address is a neighbour's.
    let own = Subnet::new(port.ip, port.prefix.unwrap_or(0));
    let own = own.filter(|_| port.can_ask() && (asks || !memif))?;
    let mut host = Host::new(HostConfig {
        mac,
        vlan: port.vlan,
        addresses: vec![own],
        gateways: port.gateway.into_iter().collect(),
        neighbours,
        management: dials.filter_map(|f| f.dial.as_ref()).any(|d| d.by == DialBy::Cm),
    });
    host.announce();
    Some(host)
}

impl<I: PacketIo> Setup<'_, I> {
    /// Finds out where frames for others are to go: to neighbours set by hand, and to routers.
    ///
    /// # Errors
    /// A router does not answer.
    pub(in crate::run) fn find_hops<C: Clock + Copy>(&mut self, clock: C, signals: &Signals) -> Result<()> {
        let s = self.scenario;
        for flow in &s.flows {
            for (own, other) in [(flow.from, flow.to), (flow.to, flow.from)] {
                let (port, to) = (&s.ports[own], s.ports[other].ip);
                if self.hops.contains_key(&(own, other)) || !port.can_ask() {
                    continue;
                }
                let fixed = port.neighbours.iter().any(|(ip, _)| *ip == to);
                let asked = s.ports[other].device == Device::Peer;
                if !asked && !fixed && (port.gateway.is_none() || port.is_near(to)) {
                    continue;
                }
                let hop = self.at_port(own, clock, |station| {
                    station.heed(signals);
                    let named = |e| EnvironmentError(format!("port \"{}\": {e}", port.name));
                    Ok(station.resolve(to).map_err(named)?)
                })?;
                self.hops.insert((own, other), hop);
            }
        }
        Ok(())
    }

    /// Meets the machines that flows have their other end at.
    ///
    /// # Errors
    /// One is not there, or cannot do what its flow asks for.
    pub(in crate::run) fn talk<C: Clock + Copy>(&mut self, clock: C, signals: &Signals) -> Result<Vec<Talk>> {
        let s = self.scenario;
        let mut talks = Vec::new();
        for (f, flow) in s.flows.iter().enumerate() {
            let Some(dial) = &flow.dial else { continue };
            let own: Vec<QpInfo> = self.halves[f].from.iter().map(|h| h.info).collect();
            let (talk, granted) = self.at_port(flow.from, clock, |station| {
                station.heed(signals);
                Talk::meet(station, s, f, (dial, &own))
            })?;
            for (half, psn) in self.halves[f].from.iter_mut().zip(&granted.psns) {
                half.info.psn = psn.get();
            }
            let worker = self.shares[flow.from][0].0;
            self.workers[worker].kept.push(flow.from);
            self.granted.insert(f, granted);
            talks.push(talk);
        }
        Ok(talks)
    }

    /// Has a port of ours, before it has a worker, do something that takes turns.
    fn at_port<C: Clock, T>(
        &mut self,
        port: usize,
        clock: C,
        act: impl FnOnce(&mut Station<I, C>) -> Result<T>,
    ) -> Result<T> {
        let (worker, at) = self.shares[port][0];
        let endpoints = &mut self.workers[worker].endpoints;
        let mut station = Station::on(endpoints.remove(at), clock, self.random.next());
        let outcome = act(&mut station);
        endpoints.extend(station.into_endpoint());
        let last = endpoints.len() - 1;
        endpoints[at..=last].rotate_right(1);
        outcome
    }
}
