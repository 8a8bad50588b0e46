//! `--set PATH=VALUE`: changes to a scenario from the command line.

use super::error::{Place, ScenarioError, suggest};
use super::limits;
use super::source::{KeyPath, Seg, Source, line_column};
use std::fmt;
use std::str::FromStr;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Key, Table, TableLike, Value};

/// One change: a key and its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    path: String,
    value: String,
    /// What the user typed; names the change in errors.
    option: String,
}

impl Override {
    /// The change that `option`, a more specific option of the command line, stands for.
    ///
    /// `path` is as in `--set`; `value` is TOML, or text where it is not.
    pub fn new(path: &str, value: &str, option: String) -> Override {
        Override { path: path.to_owned(), value: value.to_owned(), option }
    }
}

/// As `--set` takes it.
impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path, self.value)
    }
}

impl FromStr for Override {
    type Err = String;

    fn from_str(text: &str) -> Result<Override, String> {
        match text.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() => {
                Ok(Override::new(path.trim(), value, format!("--set {}", text.replace('\n', "\\n"))))
            }
            _ => Err("write PATH=VALUE, as in flow.single.size=64KiB".to_owned()),
        }
    }
}

/// Applies `changes` in order and notes each in `source`; returns the new text.
///
/// Lines that were changed or added end in the comment `# --set`.
pub(super) fn apply(source: &mut Source, changes: &[Override]) -> Result<String, ScenarioError> {
    if changes.is_empty() {
        return Ok(source.text.clone());
    }
    let mut doc: DocumentMut = source.text.parse().map_err(|e: toml_edit::TomlError| {
        // The reader keeps a number of any length as text; the editor does not.
        let line = line_column(&source.text, e.span().map_or(0, |s| s.start)).0;
        let place = Place::Line { file: source.file.clone(), line };
        ScenarioError { place, text: format!("not TOML: {}", e.message().replace('\n', ", ")) }
    })?;
    for change in changes {
        let path = set(&mut doc, change)
            .map_err(|text| ScenarioError { place: Place::Option(change.option.clone()), text })?;
        source.changes.push((path, change.option.clone()));
    }
    Ok(doc.to_string())
}

/// Makes one change; returns the path with names turned into numbers.
fn set(doc: &mut DocumentMut, change: &Override) -> Result<KeyPath, String> {
    let keys = Key::parse(&change.path).map_err(|_| format!("\"{}\" is no path of keys", change.path))?;
    let (last, parents) = keys.split_last().ok_or("no key")?;
    let mut path = KeyPath::new();
    let mut node = Node::Table(doc.as_table_mut());
    for key in parents {
        node = node.enter(key.get(), &mut path)?;
    }
    node.put(last.get(), parse(&change.value), &mut path)?;
    Ok(path)
}

/// TOML, or text.
fn parse(text: &str) -> Value {
    let mut value = text.trim().parse().unwrap_or_else(|_| Value::from(text));
    value.decor_mut().clear();
    value
}

/// What can be gone into.
enum Node<'a> {
    Table(&'a mut Table),
    /// Written on one line: no comment may follow a value in it.
    Inline(&'a mut dyn TableLike),
    Tables(&'a mut ArrayOfTables),
    List(&'a mut Array),
    Leaf,
}

impl<'a> Node<'a> {
    fn of(item: &'a mut Item) -> Node<'a> {
        match item {
            Item::Table(table) => Node::Table(table),
            Item::ArrayOfTables(tables) => Node::Tables(tables),
            Item::Value(value) => Node::of_value(value),
            Item::None => Node::Leaf,
        }
    }

    fn of_value(value: &'a mut Value) -> Node<'a> {
        match value {
            Value::InlineTable(table) => Node::Inline(table),
            Value::Array(list) => Node::List(list),
            _ => Node::Leaf,
        }
    }

    fn enter(self, key: &str, path: &mut KeyPath) -> Result<Node<'a>, String> {
        let top = path.is_empty();
        let here = dotted(path);
        match self {
            Node::Table(table) => {
                if !table.contains_key(key) {
                    if top {
                        known_section(key)?;
                    }
                    let mut new = Table::new();
                    new.set_dotted(!top);
                    new.decor_mut().set_suffix(" # --set");
                    table.insert(key, Item::Table(new));
                }
                path.push(Seg::Key(key.to_owned()));
                table.get_mut(key).map(Node::of).ok_or_else(|| format!("no key \"{key}\" in {here}"))
            }
            Node::Inline(table) => {
                path.push(Seg::Key(key.to_owned()));
                table.get_mut(key).map(Node::of).ok_or_else(|| format!("no key \"{key}\" in {here}"))
            }
            Node::Tables(tables) => {
                let names: Vec<_> = tables.iter().map(|t| name(t)).collect();
                let i = find(&names, key, &here)?;
                path.push(Seg::Index(i));
                tables.get_mut(i).map(Node::Table).ok_or_else(|| format!("no {here}.{i}"))
            }
            Node::List(list) => {
                let names: Vec<_> =
                    list.iter().map(|v| v.as_inline_table().map_or_else(String::new, |t| name(t))).collect();
                let i = find(&names, key, &here)?;
                path.push(Seg::Index(i));
                list.get_mut(i).map(Node::of_value).ok_or_else(|| format!("no {here}.{i}"))
            }
            Node::Leaf => Err(format!("{here} is a value: there is no \"{key}\" in it")),
        }
    }

    fn put(self, key: &str, mut value: Value, path: &mut KeyPath) -> Result<(), String> {
        let here = dotted(path);
        match self {
            Node::Table(table) => {
                if path.is_empty() {
                    known_section(key)?;
                }
                path.push(Seg::Key(key.to_owned()));
                if table.get(key).is_some_and(|item| item.is_table()) {
                    return Err(format!("{key} is a table: set one of its keys"));
                }
                value.decor_mut().set_prefix(" ");
                value.decor_mut().set_suffix(" # --set");
                table.insert(key, Item::Value(value));
            }
            Node::Inline(table) => {
                path.push(Seg::Key(key.to_owned()));
                value.decor_mut().set_prefix(" ");
                table.insert(key, Item::Value(value));
            }
            Node::List(list) if !list.iter().any(Value::is_inline_table) => {
                let names = vec![String::new(); list.len()];
                let i = find(&names, key, &here)?;
                path.push(Seg::Index(i));
                list.replace(i, value);
            }
            Node::Tables(_) | Node::List(_) => {
                return Err(format!(
                    "{here}.{key} is a table: set one of its keys, as in {here}.{key}.name=x"
                ));
            }
            Node::Leaf => return Err(format!("{here} is a value: there is no \"{key}\" in it")),
        }
        Ok(())
    }
}

fn name(table: &dyn TableLike) -> String {
    table.get("name").and_then(Item::as_str).unwrap_or_default().to_owned()
}

/// The element that `key` names: by its name first, then by its number from 0.
fn find(names: &[String], key: &str, here: &str) -> Result<usize, String> {
    if let Some(i) = names.iter().position(|n| n == key && !n.is_empty()) {
        return Ok(i);
    }
    match key.parse::<usize>() {
        Ok(i) if i < names.len() => Ok(i),
        Ok(_) => Err(match names.len() {
            0 => format!("there is no {here}"),
            1 => format!("no {here}.{key}: the only one is number 0"),
            n => format!("no {here}.{key}: they are numbered 0 to {}", n - 1),
        }),
        Err(_) => {
            let known: Vec<_> = names.iter().filter(|n| !n.is_empty()).map(String::as_str).collect();
            let hint = suggest(key, known.iter().copied());
            let list = match known.is_empty() {
                true => String::new(),
                false => format!("; there are \"{}\"", known.join("\", \"")),
            };
            Err(format!("no {here} \"{key}\"{}", if hint.is_empty() { list } else { hint }))
        }
    }
}

fn known_section(key: &str) -> Result<(), String> {
    match limits::SECTIONS.contains(&key) {
        true => Ok(()),
        false => Err(format!("unknown section \"{key}\"{}", suggest(key, limits::SECTIONS))),
    }
}

fn dotted(path: &[Seg]) -> String {
    let part = |seg: &Seg| match seg {
        Seg::Key(key) => key.clone(),
        Seg::Index(i) => i.to_string(),
    };
    path.iter().map(part).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const TEXT: &str = r#"# What it shows.
[run]
duration = "10s"   # long enough

[[port]]
name = "a"
cores = [0]

[[flow]]
name = "single"
size = "1MiB"

[[flow]]
name = "a.b"
size = 8

[[expect]]
messages_failed = "== 0"
"#;

    fn applied(changes: &[&str]) -> Result<String, String> {
        let changes: Vec<_> = changes.iter().map(|c| c.parse().unwrap()).collect();
        let mut source = Source::new(Path::new("x.toml"), TEXT);
        apply(&mut source, &changes).map_err(|e| e.to_string())
    }

    /// The lines that differ from the original.
    fn changed(change: &str) -> String {
        let text = applied(&[change]).unwrap();
        let new: Vec<_> = text.lines().filter(|l| !TEXT.lines().any(|o| o == *l)).collect();
        new.join("\n")
    }

    #[test]
    fn by_name_by_number_as_toml_as_text() {
        assert_eq!(changed("flow.single.size=64KiB"), r#"size = "64KiB" # --set"#);
        assert_eq!(changed("flow.single.size=\"64KiB\""), r#"size = "64KiB" # --set"#);
        assert_eq!(changed("flow.0.size=64"), "size = 64 # --set");
        assert_eq!(changed("flow.\"a.b\".size=9"), "size = 9 # --set");
        assert_eq!(changed("port.0.cores=[2, 3]"), "cores = [2, 3] # --set");
        assert_eq!(changed("port.a.cores.0=7"), "cores = [7]");
        assert_eq!(changed("run.duration=3s"), r#"duration = "3s" # --set"#);
        assert_eq!(changed("flow.single.rate=98%"), r#"rate = "98%" # --set"#);
        assert_eq!(changed("flow.single.verify=true"), "verify = true # --set");
        assert_eq!(changed("flow.single.rate=x=y"), r#"rate = "x=y" # --set"#);
    }

    #[test]
    fn adds_keys_and_sections() {
        assert_eq!(changed("run.seed=7"), "seed = 7 # --set");
        assert_eq!(changed("connect.peer=host:7471"), "[connect] # --set\npeer = \"host:7471\" # --set");
        assert_eq!(
            changed("expect.0.counters.out_of_sequence=== 0"),
            r#"counters.out_of_sequence = "== 0" # --set"#
        );
        assert_eq!(changed("expect=[]"), "expect = [] # --set");
    }

    #[test]
    fn later_ones_win_and_all_else_stays() {
        let text = applied(&["flow.single.size=1", "flow.single.size=2"]).unwrap();
        assert!(text.contains("size = 2 # --set") && !text.contains("size = 1"));
        assert!(text.starts_with("# What it shows.\n[run]\nduration = \"10s\"   # long enough\n"));
        assert_eq!(applied(&[]).unwrap(), TEXT);
    }

    #[test]
    fn tables_on_one_line() {
        let text = "run = { duration = \"1s\" }\nflow = [{ name = \"x\", size = 1 }, { name = \"y\" }]\n";
        let mut source = Source::new(Path::new("x.toml"), text);
        let changes = ["run.seed=7", "flow.y.size=2", "flow.0.size=3"].map(|c| c.parse().unwrap());
        let got = apply(&mut source, &changes).unwrap();
        insta::assert_snapshot!(got, @r#"
        run = { duration = "1s" , seed = 7 }
        flow = [{ name = "x", size = 3 }, { name = "y" , size = 2 }]
        "#);
        assert!(toml::de::DeTable::parse(&got).is_ok());
    }

    #[test]
    fn what_is_not_there() {
        let error = |change| applied(&[change]).unwrap_err();
        insta::assert_snapshot!(error("flow.singel.size=1"), @r#"--set flow.singel.size=1: no flow "singel"; did you mean "single"?"#);
        insta::assert_snapshot!(error("flow.x.size=1"), @r#"--set flow.x.size=1: no flow "x"; there are "single", "a.b""#);
        insta::assert_snapshot!(error("flow.2.size=1"), @"--set flow.2.size=1: no flow.2: they are numbered 0 to 1");
        insta::assert_snapshot!(error("port.1.ip=::1"), @"--set port.1.ip=::1: no port.1: the only one is number 0");
        insta::assert_snapshot!(error("flows.single.size=1"), @r#"--set flows.single.size=1: unknown section "flows"; did you mean "flow"?"#);
        insta::assert_snapshot!(error("run.duration.x=1"), @r#"--set run.duration.x=1: run.duration is a value: there is no "x" in it"#);
        insta::assert_snapshot!(error("flow.single=1"), @"--set flow.single=1: flow.single is a table: set one of its keys, as in flow.single.name=x");
        insta::assert_snapshot!(error("run=1"), @"--set run=1: run is a table: set one of its keys");
        insta::assert_snapshot!(error("flow..size=1"), @r#"--set flow..size=1: "flow..size" is no path of keys"#);
        assert!("novalue".parse::<Override>().is_err());
        assert!("=x".parse::<Override>().is_err());
    }
}
