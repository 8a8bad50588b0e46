//! What is wrong with a scenario, and where.

use std::fmt;

/// A scenario that cannot be run as it is written: exit code 2.  Prints as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {text}")]
pub struct ScenarioError {
    /// Where.
    pub place: Place,
    /// What is wrong and what to do about it.
    pub text: String,
}

/// Where a value of a scenario came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File(String),
    /// A line of the file.
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
    },
    /// A character of the file.
    Column {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The character, from 1.
        column: usize,
    },
    /// An option of the command line, as it was given.
    Option(String),
}

impl Place {
    /// Without the file's name, for a second place in the same message.
    pub fn short(&self) -> String {
        match self {
            Place::File(file) => file.clone(),
            Place::Line { line, .. } | Place::Column { line, .. } => format!("line {line}"),
            Place::Option(option) => option.clone(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(file) => f.write_str(file),
            Place::Line { file, line } => write!(f, "{file}:{line}"),
            Place::Column { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Place::Option(option) => f.write_str(option),
        }
    }
}

/// `; did you mean "x"?` for the candidate that looks most like `word`; empty where none does.
pub(super) fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let lower = word.to_ascii_lowercase();
    let best = candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&lower, &c.to_ascii_lowercase()), c))
        .min_by_key(|&(distance, _)| distance);
    match best {
        Some((distance, c)) if distance <= (word.chars().count() / 3).max(1) => {
            format!("; did you mean \"{c}\"?")
        }
        _ => String::new(),
    }
}
