//! The JSON Schema of a scenario.

use super::{Key, Kind, Shape};
use crate::config::{METRICS, limits};
use serde_json::{Map, Value, json};

/// Sections that there may be several of.
const MANY: [&str; 5] = ["port", "flow", "expect", "impair", "storm"];

/// The JSON Schema of a scenario, as TOML reads into JSON.
pub fn scenario_schema() -> Value {
    let mut sections: Map<String, Value> = Map::new();
    let mut below: Vec<(String, String, Value)> = Vec::new();
    for (name, keys) in super::sections() {
        // What the reference has in two tables is one section.
        let name = name.split(' ').next().unwrap_or(name);
        if let Some((parent, key)) = name.split_once('.') {
            below.push((parent.to_owned(), key.to_owned(), table(keys)));
            continue;
        }
        let mut one = table(keys);
        if name == "replay" {
            // Its flows have the keys of flows, but for who sends what to whom and when.
            let others =
                super::FLOW.iter().filter(|k| limits::replay().contains(&k.name) && k.name != "name");
            for k in others.filter(|k| keys.iter().all(|own| own.name != k.name)) {
                one["properties"][k.name] = value(k);
            }
        }
        match sections.get_mut(name) {
            None => drop(sections.insert(name.to_owned(), one)),
            Some(known) => merge(known, one),
        }
    }
    for (parent, key, schema) in below {
        if let Some(parent) = sections.get_mut(&parent) {
            parent["properties"][&key] = schema;
        }
    }
    if let Some(expect) = sections.get_mut("expect") {
        let comparison = json!({
            "type": "string",
            "pattern": "^\\s*(>=|<=|==|!=|>|<)\\s*\\S",
            "description": "A comparison, as in \">= 98\".",
        });
        for metric in METRICS {
            expect["properties"][metric] = comparison.clone();
        }
        expect["properties"]["counters"] = json!({"type": "object", "additionalProperties": comparison});
    }
    let properties: Map<String, Value> = sections
        .into_iter()
        .map(|(name, one)| match MANY.contains(&name.as_str()) {
            true => (name, json!({"type": "array", "items": one})),
            false => (name, one),
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rocegen scenario",
        "description": "A scenario file of rocegen: TOML, described here as the JSON that it reads into.",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

/// A table of a scenario.
fn table(keys: &[Key]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|k| (k.name.to_owned(), value(k))).collect();
    let required: Vec<&str> = keys.iter().filter(|k| k.default == "required").map(|k| k.name).collect();
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": required,
    })
}

/// Adds the keys of `more`.
fn merge(known: &mut Value, more: Value) {
    if let (Some(known), Some(more)) = (known["properties"].as_object_mut(), more["properties"].as_object()) {
        known.extend(more.clone());
    }
    if let (Some(known), Some(more)) = (known["required"].as_array_mut(), more["required"].as_array()) {
        known.extend(more.iter().cloned());
    }
}

/// What a key may be.
fn value(key: &Key) -> Value {
    let mut schema = match key.kind {
        Kind::Time => text("^[0-9.]+ ?(ns|us|\u{b5}s|\u{3bc}s|ms|s|m|min|h)$"),
        Kind::Share => share(),
        Kind::Size => json!({"anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": "^[0-9.]+ ?(B|kB|MB|GB|KiB|MiB|GiB)?$"},
        ]}),
        Kind::BitRate => text("^[0-9.]+ ?[kMGT]?i?[bB]?(ps|/s)?$"),
        Kind::FlowRate => text("^(unlimited|[0-9.]+ ?(%|[kMGT]?i?([bB]?(ps|/s)?|pps|msg/s)))$"),
        Kind::Whole(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Word(words) => json!({"enum": words}),
        Kind::Name => json!({"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"}),
        Kind::Odd(_, shape) => odd(shape),
    };
    let default = match key.default {
        "required" | "-" => String::new(),
        default => format!("  Default: {default}."),
    };
    schema["description"] = json!(format!("{}{default}", key.text));
    schema
}

fn odd(shape: Shape) -> Value {
    match shape {
        Shape::Text => json!({"type": "string"}),
        Shape::Texts => {
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
        }
        Shape::List => json!({"type": "array", "items": {"type": "string"}}),
        Shape::Wholes => json!({"type": "array", "items": {"type": "integer", "minimum": 0}}),
        Shape::Shares => json!({"type": "array", "items": share()}),
        Shape::Any => json!({"type": ["number", "string"]}),
        Shape::FlagOrWhole => json!({"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 1}]}),
        Shape::PathMtu => json!({"enum": [256, 512, 1024, 2048, 4096]}),
        Shape::ListOrTable => json!({"anyOf": [
            {"type": "array", "items": {"type": "string"}},
            {"type": "object", "additionalProperties": {"type": "string"}},
        ]}),
        Shape::Table => json!({"type": "object"}),
        Shape::Tables => json!({"type": "array", "items": {"type": "object"}}),
    }
}

fn share() -> Value {
    json!({"anyOf": [
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "string", "pattern": "^[0-9.]+([eE]-?[0-9]+)? ?%?$"},
    ]})
}

fn text(pattern: &str) -> Value {
    json!({"type": "string", "pattern": pattern})
}
