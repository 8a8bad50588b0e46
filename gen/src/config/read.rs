//! A typed reader over one table of a scenario: every error says where, which key, what was there
//! and what would be right.

use super::error::{Place, ScenarioError, suggest};
use super::limits::{self, Range};
use super::quantity::{parse_duration, parse_size};
use super::reference::{Kind, Shape, may_be};
use super::source::{KeyPath, Seg, Source};
use roce_engine::units::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value of the document.
pub(super) type Value<'d> = Spanned<DeValue<'d>>;

/// A table whose keys are all known ones.
pub(super) struct Table<'a> {
    source: &'a Source,
    table: &'a DeTable<'a>,
    path: KeyPath,
    /// How messages call it: `flow "single"`, `[run]`.
    what: String,
}

impl<'a> Table<'a> {
    /// The table at `path`, refused when it has a key that is not one of `keys`.
    pub(super) fn open(
        source: &'a Source,
        table: &'a DeTable<'a>,
        path: KeyPath,
        header: &str,
        keys: &[&str],
    ) -> Result<Table<'a>, ScenarioError> {
        let table = Table::any(source, table, path, header);
        if let Some(key) = table.keys().find(|k| !keys.contains(k)) {
            let hint = match limits::synonym(key).filter(|s| keys.contains(s)) {
                Some(known) => format!("; did you mean \"{known}\"?"),
                None => suggest(key, keys.iter().copied()),
            };
            let text = format!("unknown key \"{}\" in {header}{hint}", key.escape_debug());
            return Err(ScenarioError { place: table.place(key), text });
        }
        Ok(table)
    }

    /// The table at `path`, whatever its keys.
    pub(super) fn any(source: &'a Source, table: &'a DeTable<'a>, path: KeyPath, header: &str) -> Table<'a> {
        let what = what(table, &path, header);
        Table { source, table, path, what }
    }

    /// Its keys in the order in which they are written.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut keys: Vec<_> = self.table.keys().collect();
        keys.sort_by_key(|k| k.span().start);
        keys.into_iter().map(|k| k.get_ref().as_ref())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub(super) fn path_of(&self, key: &str) -> KeyPath {
        let mut path = self.path.clone();
        path.push(Seg::Key(key.to_owned()));
        path
    }

    pub(super) fn place(&self, key: &str) -> Place {
        self.source.place(&self.path_of(key))
    }

    /// An error about the value of a key.
    pub(super) fn error(&self, key: &str, text: impl std::fmt::Display) -> ScenarioError {
        let shown = match self.get(key).map(show) {
            Some(value) => format!("{value}: "),
            None => String::new(),
        };
        ScenarioError { place: self.place(key), text: format!("{}: key \"{key}\": {shown}{text}", self.what) }
    }

    /// An error about two keys that do not go together; the one written later is to blame.
    pub(super) fn clash(&self, one: &str, other: &str, text: impl std::fmt::Display) -> ScenarioError {
        let written = |key: &str| self.table.get_key_value(key).map(|(k, _)| k.span().start);
        let (first, second) = if written(one) > written(other) { (other, one) } else { (one, other) };
        let there = match (self.place(first).short(), self.place(second).short()) {
            (a, b) if a == b => String::new(),
            (a, _) => format!(" ({a})"),
        };
        ScenarioError {
            place: self.place(second),
            text: format!("{}: keys \"{first}\"{there} and \"{second}\": {text}", self.what),
        }
    }

    /// An error about the table as a whole.
    pub(super) fn fail(&self, text: impl std::fmt::Display) -> ScenarioError {
        ScenarioError { place: self.source.place(&self.path), text: format!("{}: {text}", self.what) }
    }

    /// The value of a key that must be there.
    pub(super) fn need<T>(&self, key: &str, value: Option<T>) -> Result<T, ScenarioError> {
        value.ok_or_else(|| self.fail(format_args!("key \"{key}\" is missing")))
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value<'a>> {
        self.table.get(key)
    }

    /// The table below a key, refused when it has a key that is not one of `keys`.
    pub(super) fn below(
        &self,
        key: &str,
        header: &str,
        keys: &[&str],
    ) -> Result<Option<Table<'a>>, ScenarioError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::Table(table)) => {
                Table::open(self.source, table, self.path_of(key), header, keys).map(Some)
            }
            Some(_) => Err(self.error(key, format_args!("is a section: write {header}"))),
        }
    }

    /// The tables below a key, as in `[[flow.mix]]`; refused when one has a key that is not one of `keys`.
    pub(super) fn many_below(
        &self,
        key: &str,
        header: &str,
        keys: &[&str],
    ) -> Result<Option<Vec<Table<'a>>>, ScenarioError> {
        let wrong = || self.error(key, format_args!("may be there several times: write {header}"));
        let list = match self.get(key).map(Spanned::get_ref) {
            None => return Ok(None),
            Some(DeValue::Array(list)) if !list.is_empty() => list,
            Some(_) => return Err(wrong()),
        };
        let open = |(i, item): (usize, &'a Value<'a>)| {
            let DeValue::Table(table) = item.get_ref() else { return Err(wrong()) };
            let mut path = self.path_of(key);
            path.push(Seg::Index(i));
            Table::open(self.source, table, path, header, keys)
        };
        list.iter().enumerate().map(open).collect::<Result<_, _>>().map(Some)
    }

    /// The text of a file that a key names, beside the scenario unless its path says otherwise.
    pub(super) fn read_beside(&self, key: &str, file: &str) -> Result<String, ScenarioError> {
        let path = self.source.beside(file);
        let shown = path.display();
        std::fs::read_to_string(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => self.error(key, format_args!("no such file: {shown}")),
            _ => self.error(key, format_args!("cannot be read: {e}: {shown}")),
        })
    }

    /// The bytes of such a file.
    pub(super) fn bytes_beside(&self, key: &str, file: &str) -> Result<Vec<u8>, ScenarioError> {
        let path = self.source.beside(file);
        std::fs::read(&path).map_err(|e| self.error(key, format_args!("{}: {e}", path.display())))
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, ScenarioError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.error(key, "must be text in quotes")),
        }
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ScenarioError> {
        debug_assert!(may_be(key, |k| matches!(k, Kind::Flag | Kind::Odd(_, Shape::FlagOrWhole))), "{key}");
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::Boolean(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.error(key, "must be true or false")),
        }
    }

    /// A key of [`limits::range`], within its bounds; the caller's type holds them.
    pub(super) fn integer<T: TryFrom<u64>>(&self, key: &str) -> Result<Option<T>, ScenarioError> {
        debug_assert!(may_be(key, |k| matches!(k, Kind::Whole(..) | Kind::Odd(..))), "{key}");
        let range = limits::range(key).unwrap_or(Range { min: 0, max: i64::MAX as u64 });
        self.integer_in(key, range)
    }

    pub(super) fn integer_in<T: TryFrom<u64>>(
        &self,
        key: &str,
        range: Range,
    ) -> Result<Option<T>, ScenarioError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = whole(value.get_ref()).filter(|n| (range.min..=range.max).contains(n));
        match number.and_then(|n| T::try_from(n).ok()) {
            Some(n) => Ok(Some(n)),
            None => Err(self.error(key, format_args!("must be {range}"))),
        }
    }

    /// Bytes: a whole number, or text with a unit.
    pub(super) fn size(&self, key: &str) -> Result<Option<u64>, ScenarioError> {
        debug_assert!(may_be(key, |k| k == Kind::Size), "{key}");
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(text)) => parse_size(text).map(Some).map_err(|e| self.error(key, e)),
            Some(value) => match whole(value) {
                Some(n) => Ok(Some(n)),
                None => Err(self.error(key, "not a size in bytes; write 64, \"64KiB\" or \"1MiB\"")),
            },
        }
    }

    pub(super) fn duration(&self, key: &str) -> Result<Option<Duration>, ScenarioError> {
        debug_assert!(may_be(key, |k| k == Kind::Time), "{key}");
        self.parse(key, parse_duration)
    }

    /// Text that `parse` understands; a bare number is shown to it too, so that it can say which
    /// unit is missing.
    pub(super) fn parse<T>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ScenarioError> {
        let parsed = match self.get(key).map(Spanned::get_ref) {
            None => return Ok(None),
            Some(DeValue::String(text)) => parse(text),
            Some(DeValue::Integer(n)) => parse(&n.to_string()),
            Some(DeValue::Float(n)) => parse(n.as_str()),
            Some(_) => Err("must be text in quotes".to_owned()),
        };
        parsed.map(Some).map_err(|e| self.error(key, e))
    }

    /// A list of what `parse` understands.
    pub(super) fn list<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Vec<T>>, ScenarioError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let list = match value.get_ref() {
            DeValue::Array(list) if !list.is_empty() => list,
            _ => return Err(self.error(key, "must be a list with at least one element")),
        };
        let read = |v: &Value<'_>| match v.get_ref() {
            DeValue::String(text) => parse(text),
            DeValue::Integer(n) => parse(n.as_str()),
            DeValue::Float(n) => parse(n.as_str()),
            _ => Err("must be a list of numbers or texts".to_owned()),
        };
        list.iter().map(read).collect::<Result<_, _>>().map(Some).map_err(|e| self.error(key, e))
    }

    /// Pairs: a list of texts `A=B`, or a table; the second is empty where there is no `=`.
    pub(super) fn pairs(&self, key: &str) -> Result<Option<Vec<(String, String)>>, ScenarioError> {
        debug_assert!(may_be(key, |k| matches!(k, Kind::Odd(_, Shape::ListOrTable))), "{key}");
        let wrong = || self.error(key, "must be a list of texts, or a table of them");
        let pair = |text: &str| {
            let (a, b) = text.split_once('=').unwrap_or((text, ""));
            (a.trim().to_owned(), b.trim().to_owned())
        };
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::Array(list)) => {
                let text = |v: &Value<'_>| v.get_ref().as_str().map(pair).ok_or_else(wrong);
                list.iter().map(text).collect::<Result<_, _>>().map(Some)
            }
            Some(DeValue::Table(table)) => {
                let mut keys: Vec<_> = table.iter().collect();
                keys.sort_by_key(|(key, _)| key.span().start);
                let text = |v: &Value<'_>| v.get_ref().as_str().map(str::to_owned).ok_or_else(wrong);
                let both = keys.into_iter().map(|(k, v)| Ok((k.get_ref().to_string(), text(v)?)));
                both.collect::<Result<_, _>>().map(Some)
            }
            Some(_) => Err(wrong()),
        }
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, ScenarioError> {
        debug_assert!(may_be(key, |k| is_of(k, words)), "{key}");
        let Some(text) = self.text(key)? else { return Ok(None) };
        if let Some(&(_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(Some(value));
        }
        let list: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let hint = suggest(text, words.iter().map(|(word, _)| *word));
        Err(self.error(key, format_args!("must be one of {}{hint}", list.join(", "))))
    }

    /// A list of whole numbers, with where each stands.
    pub(super) fn cores(&self, key: &str) -> Result<Option<Vec<usize>>, ScenarioError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        const FORM: &str = "must be a list of core numbers, as in [2, 3]";
        let DeValue::Array(list) = value.get_ref() else { return Err(self.error(key, FORM)) };
        let number = |v: &Value<'_>| whole(v.get_ref()).and_then(|n| usize::try_from(n).ok());
        let cores: Option<Vec<usize>> = list.iter().map(number).collect();
        match cores {
            Some(cores) if !cores.is_empty() => Ok(Some(cores)),
            Some(_) => Err(self.error(key, "no core: leave the key out to have one assigned")),
            None => Err(self.error(key, FORM)),
        }
    }
}

/// Whether the words of a key are these.
fn is_of<T>(kind: Kind, words: &[(&str, T)]) -> bool {
    match kind {
        Kind::Word(known) => known.len() == words.len() && words.iter().all(|(word, _)| known.contains(word)),
        _ => false,
    }
}

/// How messages call a table: by its name where it has one, else by its number.
fn what(table: &DeTable<'_>, path: &[Seg], header: &str) -> String {
    let name = table.get("name").and_then(|v| v.get_ref().as_str());
    match (name, path) {
        (Some(name), [Seg::Key(section), Seg::Index(_)]) => format!("{section} \"{}\"", name.escape_debug()),
        (None, [.., Seg::Index(i)]) => format!("{header} number {}", i + 1),
        _ => header.to_owned(),
    }
}

/// A value that is a whole number and not negative.
fn whole(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// A value as messages print it: short, on one line.
pub(super) fn show(value: &Value<'_>) -> String {
    match value.get_ref() {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(n) => n.to_string(),
        DeValue::Float(n) => n.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(date) => date.to_string(),
        DeValue::Array(list) => {
            let items: Vec<_> = list.iter().map(show).collect();
            format!("[{}]", items.join(", "))
        }
        DeValue::Table(_) => "a table".to_owned(),
    }
}
