//! What makes a run fail, expectations aside: totals that do not balance, messages that failed or were wrong.

use super::fabric::FabricResult;
use super::result::{FlowResult, PortResult};
use super::{Finished, FlowMeasure, PortMeasure};
use crate::config::{Flow, Scenario, Verb};
use roce_engine::fabric::Action;
use roce_engine::transport::QpCounters;
use roce_engine::verbs::CompletionStatus;
use roce_engine::wire::DropReason;

/// Whether the totals balance, and what does not.
pub(super) fn balance(s: &Scenario, run: &Finished) -> (bool, Vec<String>) {
    let mut wrong = Vec::new();
    for port in &run.ports {
        let c = &port.counters;
        if !c.is_balanced() {
            wrong.push(format!(
                "port \"{}\": totals do not balance: {} received, {} delivered, {} answered, {} dropped",
                port.name,
                c.rx_packets + c.crossed_in,
                c.delivered,
                c.answered,
                c.dropped_total(),
            ));
        }
    }
    for (flow, m) in s.flows.iter().zip(&run.flows) {
        if !m.last.is_balanced() {
            let l = &m.last;
            wrong.push(format!(
                "flow \"{}\": totals do not balance: {} posted, {} completed, {} failed, {} outstanding",
                flow.name, l.posted, l.completed, l.failed, l.outstanding
            ));
        }
    }
    wrong.extend(lost_cnps(s, run));
    wrong.extend(run.fabric.as_ref().and_then(FabricResult::failures));
    if run.cq_overflow != 0 {
        wrong.push(format!("{} completions were lost: completion queue full", run.cq_overflow));
    }
    (wrong.is_empty(), wrong)
}

/// Where both ends are ours and no frame was lost, every CNP that was sent has come.
pub(super) fn lost_cnps(s: &Scenario, run: &Finished) -> Vec<String> {
    let lossless = |p: &PortMeasure| {
        let lost = p.driver_stats.rx_missed + p.driver_stats.rx_nombuf + p.tail_dropped;
        lost + p.counters.dropped_total() + p.counters.tx_dropped == 0
    };
    if !s.impairs.iter().all(|i| i.rules.iter().all(|r| r.action == Action::MarkCe)) {
        return Vec::new();
    }
    let ours = |f: &Flow| s.ports[f.from].is_local() && s.ports[f.to].is_local();
    let flows = s.flows.iter().zip(&run.flows).filter(|(f, m)| ours(f) && m.last.failed == 0);
    let wrong = flows.filter_map(|(flow, m)| {
        let sum = |of: fn(&QpCounters) -> u64| m.last.counters.iter().map(of).sum::<u64>();
        let (sent, handled) = (sum(|c| c.np_cnp_sent), sum(|c| c.rp_cnp_handled));
        let ignored = sum(|c| c.rp_cnp_ignored);
        (sent != handled + ignored).then(|| {
            format!(
                "flow \"{}\": {sent} CNPs were sent, {handled} handled and {ignored} ignored, though no frame was lost",
                flow.name
            )
        })
    });
    let dropped = run.fabric.as_ref().map_or(0, |f| f.totals.dropped);
    if dropped == 0 && run.ports.iter().all(lossless) { wrong.collect() } else { Vec::new() }
}

/// Frames of the RoCE version that a port does not speak: what is behind many a retry exceeded.
pub(super) fn other_version(port: &PortResult) -> Option<String> {
    let seen = |reason: DropReason| port.rx_dropped.get(reason.name()).copied().unwrap_or(0);
    let (v1, v2) = (seen(DropReason::Rocev1), seen(DropReason::Rocev2));
    let (frames, other, own, word) = match (v1, v2) {
        (0, 0) => return None,
        (0, _) => (v2, "RoCEv2", "RoCEv1", "v2"),
        _ => (v1, "RoCEv1", "RoCEv2", "v1"),
    };
    Some(format!(
        "port \"{}\": {frames} frames were {other}, and the port speaks {own}: most likely the peer uses a GID of \
         the other type; change it there, or here with roce = \"{word}\"",
        port.name
    ))
}

/// perftest's program that is a server of these messages.
fn program(verb: Verb) -> &'static str {
    match verb {
        Verb::Write | Verb::WriteImm => "ib_write_bw",
        Verb::Send | Verb::SendImm => "ib_send_bw",
        Verb::Read => "ib_read_bw",
    }
}

/// What went wrong in a flow, in words.
pub(super) fn failures(s: &Scenario, flow: &FlowResult, m: &FlowMeasure) -> Vec<String> {
    let mut reasons = Vec::new();
    let config = s.flows.iter().find(|f| f.name == flow.name);
    if let Some(f) = m.last.failure {
        let peer = config.map_or(String::new(), |c| s.ports[c.to].ip.to_string());
        let dialed = config.filter(|c| c.dial.is_some());
        let hint = match (f.status, dialed) {
            (CompletionStatus::RetryExcErr, _) => {
                ": the peer does not answer; is it up, and is this its address?".to_owned()
            }
            (CompletionStatus::RemInvReqErr | CompletionStatus::RemAccessErr, Some(c)) => format!(
                ": the machine there does not grant this; its program is to be {}, with -s {} or more, or rocegen serve with as \
                 much --peer-memory",
                program(c.verb),
                c.size
            ),
            (CompletionStatus::RemInvReqErr, None) => {
                ": the peer refused the request; check that both sides have the same mtu and verbs".to_owned()
            }
            _ => String::new(),
        };
        reasons.push(format!(
            "flow \"{}\": {} messages failed on {} queue pairs, first {} on queue pair {} (QPN {}, peer {peer} QPN \
             {}) after {}{hint}",
            flow.name,
            flow.messages_failed,
            m.last.failed_qps,
            f.status.name(),
            f.qp,
            f.qpn,
            f.dest_qpn,
            f.at.since(roce_engine::units::Instant::ZERO),
        ));
    } else if flow.messages_failed != 0 {
        reasons.push(format!("flow \"{}\": {} messages failed", flow.name, flow.messages_failed));
    }
    if flow.messages_outstanding != 0 {
        let hint = match config.filter(|c| c.dial.is_some() && c.takes_recv()) {
            Some(c) if flow.retransmits != 0 => format!(
                ": if the machine there has no receive requests for them, its program is to be {}, with an -n as large as \
                 \"messages\"",
                program(c.verb)
            ),
            _ => String::new(),
        };
        reasons.push(format!(
            "flow \"{}\": {} messages were unacknowledged at the end of the drain{hint}",
            flow.name, flow.messages_outstanding
        ));
    }
    if flow.verify_errors != 0 {
        let place = m.last.wrong.map_or(String::new(), |w| {
            format!(", first at byte {} of message {} of queue pair {}", w.offset, w.message, w.qp)
        });
        reasons.push(format!("flow \"{}\": {} messages were wrong{place}", flow.name, flow.verify_errors));
    }
    if let (Some(received), Some(config)) = (flow.messages_received, config) {
        let ended = m.last.completed + m.last.failed + m.last.outstanding;
        let reliable = config.transport.is_reliable();
        if reliable && !config.reads_only() && received < m.last.completed {
            reasons.push(format!(
                "flow \"{}\": {} messages completed, of {ended}, but only {received} were received",
                flow.name, m.last.completed
            ));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_other_version_are_named() {
        let port = |dropped: &[(DropReason, u64)]| {
            let mut c = roce_engine::worker::EndpointCounters::default();
            for (reason, n) in dropped {
                c.dropped[*reason as usize] = *n;
            }
            other_version(&PortResult::of(&PortMeasure {
                name: "b".to_owned(),
                counters: c,
                ..PortMeasure::default()
            }))
        };
        assert_eq!(port(&[(DropReason::NonRoce, 3)]), None);
        insta::assert_snapshot!(port(&[(DropReason::Rocev1, 10)]).unwrap(), @r#"port "b": 10 frames were RoCEv1, and the port speaks RoCEv2: most likely the peer uses a GID of the other type; change it there, or here with roce = "v1""#);
        insta::assert_snapshot!(port(&[(DropReason::Rocev2, 2)]).unwrap(), @r#"port "b": 2 frames were RoCEv2, and the port speaks RoCEv1: most likely the peer uses a GID of the other type; change it there, or here with roce = "v2""#);
    }
}
