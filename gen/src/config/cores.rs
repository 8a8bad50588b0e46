//! Which core each worker runs on.

use super::error::ScenarioError;
use super::model::Scenario;

/// The cores of every port on a machine that has `available`: those that the scenario names, else
/// ones that are assigned here.
///
/// A port without `cores` gets the lowest core that no other port has.  Where there are more cores
/// than are asked for, the lowest is left to the control thread and the kernel; where there are
/// fewer, ports share cores in turn.  Ports that this process does not drive get none.
///
/// # Errors
/// A core that is not in `available`, one that is named twice without `share_cores`, no core at all.
pub fn validate_cores(s: &Scenario, available: &[usize]) -> Result<Vec<Vec<usize>>, ScenarioError> {
    check_shared(s)?;
    for (i, port) in s.ports.iter().enumerate() {
        let Some(core) = port.cores.iter().flatten().find(|c| !available.contains(c)) else { continue };
        let text = format!("there is no core {core} for this process; it may use {}", ranges(available));
        return Err(s.port_error(i, "cores", text));
    }
    let unassigned = s.ports.iter().filter(|p| p.is_local() && p.cores.is_none()).count();
    let mut free: Vec<_> = available
        .iter()
        .copied()
        .filter(|c| !s.ports.iter().any(|p| p.cores.iter().flatten().any(|o| o == c)))
        .collect();
    free.sort_unstable();
    if free.len() > unassigned && free.first() == available.iter().min() {
        free.remove(0);
    }
    let mut all = available.to_vec();
    all.sort_unstable();
    let pool = if free.is_empty() { &all } else { &free };
    let mut turn = pool.iter().cycle();
    let mut assign = |i: usize| match turn.next() {
        Some(&core) => Ok(vec![core]),
        None => Err(s.port_error(i, "cores", "this process may use no core at all")),
    };
    s.ports
        .iter()
        .enumerate()
        .map(|(i, port)| match &port.cores {
            _ if !port.is_local() => Ok(Vec::new()),
            Some(cores) => Ok(cores.clone()),
            None => assign(i),
        })
        .collect()
}

/// That no core is named twice, unless that is allowed.
pub(super) fn check_shared(s: &Scenario) -> Result<(), ScenarioError> {
    let mut named: Vec<(usize, usize)> = Vec::new();
    for (i, port) in s.ports.iter().enumerate() {
        for &core in port.cores.iter().flatten() {
            match named.iter().find(|(c, _)| *c == core) {
                // A second worker of the same port on the same core can only slow the first.
                Some(&(_, first)) if first == i => {
                    return Err(s.port_error(i, "cores", format_args!("core {core} is named twice")));
                }
                Some(&(_, first)) if !s.run.share_cores => {
                    let place = s.place("port", Some(first), Some("cores")).short();
                    let text = format!(
                        "core {core} is also a core of port \"{}\" ({place}); to let them share it, write \
                         share_cores = true in [run]",
                        s.ports[first].name
                    );
                    return Err(s.port_error(i, "cores", text));
                }
                _ => named.push((core, i)),
            }
        }
    }
    Ok(())
}

/// `0-3, 6`.
pub(crate) fn ranges(cores: &[usize]) -> String {
    let mut sorted = cores.to_vec();
    sorted.sort_unstable();
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for core in sorted {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => spans.push((core, core)),
        }
    }
    let text = |(a, b): (usize, usize)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    match spans.is_empty() {
        true => "none".to_owned(),
        false => spans.into_iter().map(text).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pair, parse};
    use super::*;

    /// The cores of ports a and b with these lines in their sections.
    fn cores(run: &str, a: &str, b: &str, available: &[usize]) -> Result<Vec<Vec<usize>>, String> {
        let scenario = parse(&pair(run, a, b, "")).map_err(|e| e.to_string())?;
        validate_cores(&scenario, available).map_err(|e| e.to_string())
    }

    #[test]
    fn assigned_where_none_are_named() {
        assert_eq!(cores("", "", "", &[0, 1]), Ok(vec![vec![0], vec![1]]));
        assert_eq!(cores("", "", "", &[0, 1, 2, 3]), Ok(vec![vec![1], vec![2]]));
        assert_eq!(cores("", "", "", &[5, 3, 4]), Ok(vec![vec![4], vec![5]]));
        assert_eq!(cores("", "", "", &[0]), Ok(vec![vec![0], vec![0]]));
        assert_eq!(cores("", "cores = [0]", "", &[0, 1]), Ok(vec![vec![0], vec![1]]));
        assert_eq!(cores("", "cores = [1]", "", &[0, 1]), Ok(vec![vec![1], vec![0]]));
        assert_eq!(cores("", "cores = [0, 1]", "", &[0, 1]), Ok(vec![vec![0, 1], vec![0]]));
        assert_eq!(cores("", "cores = [2]", "", &[0, 1, 2]), Ok(vec![vec![2], vec![1]]));
    }

    #[test]
    fn shared_when_allowed() {
        assert_eq!(
            cores("share_cores = true", "cores = [0]", "cores = [0]", &[0, 1]),
            Ok(vec![vec![0], vec![0]])
        );
    }

    #[test]
    fn refused() {
        let error = |run, a, b, available: &[usize]| cores(run, a, b, available).unwrap_err();
        insta::assert_snapshot!(error("", "cores = [99]", "", &[0, 1, 2, 5]), @r#"x.toml:10: port "a": key "cores": there is no core 99 for this process; it may use 0-2, 5"#);
        insta::assert_snapshot!(error("", "cores = [0]", "cores = [0]", &[0, 1]), @r#"x.toml:15: port "b": key "cores": core 0 is also a core of port "a" (line 10); to let them share it, write share_cores = true in [run]"#);
        insta::assert_snapshot!(error("share_cores = true", "cores = [1, 1]", "", &[0, 1]), @r#"x.toml:10: port "a": key "cores": core 1 is named twice"#);
        insta::assert_snapshot!(error("", "", "", &[]), @r#"x.toml:6: port "a": key "cores": this process may use no core at all"#);
    }
}
