//! What to sweep, on the command line.

use crate::config::Override;
use clap::Args;
use std::str::FromStr;

/// Most runs of a sweep.
const MOST: usize = 10_000;

/// `--sweep` and `--repeat`.
#[derive(Args, Clone, Debug)]
pub struct SweepArgs {
    /// Run once for each value of a key, as in flow.single.size=64,1KiB,64KiB; of several, for each combination
    #[arg(long = "sweep", value_name = "PATH=LIST")]
    pub sweep: Vec<Axis>,
    /// Run each point so often, for mean, spread and coefficient of variation
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
}

impl SweepArgs {
    /// Whether there is more than one run.
    pub fn is_wanted(&self) -> bool {
        !self.sweep.is_empty() || self.repeat > 1
    }

    /// What is varied.
    pub fn axes(&self) -> impl Iterator<Item = &Axis> {
        self.sweep.iter()
    }

    /// Runs that it takes; `None` where that are too many.
    pub fn runs(&self) -> Option<usize> {
        let points = self.sweep.iter().try_fold(1_usize, |n, a| n.checked_mul(a.values.len()))?;
        points.checked_mul(self.repeat as usize).filter(|n| *n <= MOST)
    }

    /// Every combination of values, the last axis varying fastest.
    pub fn points(&self) -> Vec<Vec<String>> {
        self.sweep.iter().fold(vec![Vec::new()], |points, axis| {
            points
                .iter()
                .flat_map(|point| {
                    axis.values.iter().map(|value| {
                        let mut point = point.clone();
                        point.push(value.clone());
                        point
                    })
                })
                .collect()
        })
    }
}

/// A key and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The path of the key, as in `--set`.
    pub key: String,
    /// Its values, as `--set` takes them.
    pub values: Vec<String>,
}

impl Axis {
    /// The change to the scenario that a value is.
    pub fn change(&self, value: &str) -> Override {
        Override::new(&self.key, value, format!("--sweep {}={value}", self.key))
    }
}

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Axis, String> {
        const FORM: &str = "write PATH=VALUE,VALUE,..., as in flow.single.size=64,1KiB,64KiB";
        let (key, list) = text.split_once('=').filter(|(k, _)| !k.trim().is_empty()).ok_or(FORM)?;
        let values: Vec<String> = split(list).into_iter().map(|v| v.trim().to_owned()).collect();
        if values.iter().any(String::is_empty) {
            return Err(format!("a value is missing; {FORM}"));
        }
        if let Some(twice) = values.iter().enumerate().find(|(i, v)| values[..*i].contains(v)) {
            return Err(format!("{} is there twice", twice.1));
        }
        Ok(Axis { key: key.trim().to_owned(), values })
    }
}

/// The parts between commas, those in brackets and quotes aside.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth, mut quote) = (Vec::new(), 0, 0_i32, None);
    for (i, c) in list.char_indices() {
        match (quote, c) {
            (Some(q), _) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(&list[begin..i]);
                begin = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let axis: Axis = "flow.a.size=64, 1KiB ,1MiB".parse().unwrap();
        assert_eq!((axis.key.as_str(), axis.values.join("|")), ("flow.a.size", "64|1KiB|1MiB".to_owned()));
        let cores: Axis = "port.a.cores=[0],[0,1],[2, 3]".parse().unwrap();
        assert_eq!(cores.values, ["[0]", "[0,1]", "[2, 3]"]);
        let text: Axis = r#"port.a.device="net_tap0,iface=x",ring:0"#.parse().unwrap();
        assert_eq!(text.values, [r#""net_tap0,iface=x""#, "ring:0"]);
        for wrong in ["x", "=1,2", "a=", "a=1,,2", "a=1,1"] {
            assert!(wrong.parse::<Axis>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_product() {
        let axis = |text: &str| text.parse::<Axis>().unwrap();
        let args = SweepArgs { sweep: vec![axis("a=1,2,3"), axis("b=x,y")], repeat: 4 };
        let points: Vec<String> = args.points().iter().map(|p| p.concat()).collect();
        assert_eq!(points, ["1x", "1y", "2x", "2y", "3x", "3y"]);
        assert_eq!(args.runs(), Some(24));
        assert_eq!(SweepArgs { repeat: 5000, ..args }.runs(), None);
        assert_eq!(SweepArgs { sweep: vec![], repeat: 3 }.points(), [Vec::<String>::new()]);
    }
}
