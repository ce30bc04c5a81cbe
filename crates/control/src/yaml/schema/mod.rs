//! A JSON Schema of the document, made of what its reader asks for.
//!
//! The decoder notes what it looks for at each place while it reads documents that have every field: names, numbers with their
//! bounds, words. What it reads without saying so, such as the lines of routes, is taken from these documents. Descriptions and
//! defaults are the rows of the manual, which tells of each field, and of no other. `docs/schema.json` is what comes of it; a test
//! tells when it is stale.

mod manual;
mod shared;
mod tests;

use super::tree::{Node, Value};
use manual::Manual;
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// What is looked for at a place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fact<'f> {
    /// A mapping with these names.
    Fields(&'f [&'f str]),
    /// One value for both families, or a mapping of them, each with such a value.
    Families,
    /// It must have this one.
    Required(&'f str),
    /// A mapping with names of the operator's choice.
    Entries,
    /// A list.
    Items,
    /// Any text, here this.
    Text(&'f str),
    /// A whole number.
    Int(u64, u64),
    /// True or false.
    Bool,
    /// One of these words.
    Choice(&'f [&'f str]),
    /// This text has this form; it may be a part of what stands there.
    Form(Form, &'f str),
}

/// The form of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    Mac,
    Address,
    Cidr,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Mac => "mac",
            Form::Address => "address",
            Form::Cidr => "prefix",
        }
    }
}

/// All that may stand at a place.
#[derive(Debug, Default, Clone)]
struct Shape {
    fields: BTreeMap<String, Shape>,
    families: bool,
    mappings: usize,
    required: BTreeMap<String, usize>,
    entries: Option<Box<Shape>>,
    items: Option<Box<Shape>>,
    texts: usize,
    last: String,
    forms: BTreeMap<Form, usize>,
    ints: Option<(u64, u64)>,
    bool: bool,
    words: BTreeSet<String>,
}

/// What the reader of documents has asked for so far.
#[derive(Debug, Default)]
pub(super) struct Recorder(Shape);

/// A step to a value: a name, or `None` into a list.
type Step<'s> = Option<&'s str>;

impl Recorder {
    fn at<'s>(&mut self, path: impl IntoIterator<Item = Step<'s>>) -> &mut Shape {
        path.into_iter().fold(&mut self.0, |shape, step| match step {
            None => shape.items.get_or_insert_default(),
            Some(name) if shape.fields.contains_key(name) => shape.fields.get_mut(name).unwrap(),
            Some(_) => shape.entries.get_or_insert_default(),
        })
    }

    /// Notes a fact of a place.
    pub(super) fn note<'s>(&mut self, path: impl IntoIterator<Item = Step<'s>>, fact: Fact<'_>) {
        let shape = self.at(path);
        match fact {
            Fact::Fields(names) => {
                shape.mappings += 1;
                names.iter().for_each(|n| _ = shape.fields.entry((*n).into()).or_default());
            }
            Fact::Families => shape.families = true,
            Fact::Required(name) => *shape.required.entry(name.into()).or_default() += 1,
            Fact::Entries => _ = shape.entries.get_or_insert_default(),
            Fact::Items => _ = shape.items.get_or_insert_default(),
            Fact::Text(text) => {
                shape.texts += 1;
                shape.last = text.to_string();
            }
            Fact::Form(form, text) if text == shape.last => *shape.forms.entry(form).or_default() += 1,
            Fact::Form(..) => {}
            Fact::Int(low, high) => {
                let known = shape.ints.unwrap_or((low, high));
                shape.ints = Some((known.0.min(low), known.1.max(high)));
            }
            Fact::Bool => shape.bool = true,
            Fact::Choice(words) => shape.words.extend(words.iter().map(|w| (*w).to_string())),
        }
    }
}

/// The place of a value: names of fields, and `*` for a name of the operator's choice or an item of a list.
fn below<'p>(path: &[&'p str], step: &'p str) -> Vec<&'p str> {
    path.iter().copied().chain([step]).collect()
}

/// What stands at many places.
fn definitions() -> Json {
    const ADDRESS: &str = "([0-9]+(\\.[0-9]+){3}|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)";
    json!({
        "nothing": { "type": "null" },
        "switch": { "anyOf": [{ "type": "boolean" }, { "enum": ["yes", "no", "on", "off"] }] },
        "text": { "type": ["string", "number", "boolean"] },
        "mac": { "type": "string", "pattern": "^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$" },
        "address": { "type": "string", "pattern": format!("^{ADDRESS}$") },
        "prefix": { "type": "string", "pattern": format!("^{ADDRESS}/[0-9]+$") },
    })
}

fn of(definition: &str) -> Json {
    json!({ "$ref": format!("#/definitions/{definition}") })
}

impl Shape {
    /// Takes what stands in a good document and was not asked for.
    fn learn(&mut self, node: &Node<'_>) {
        match &node.value {
            _ if node.is_null() => {}
            Value::Scalar { text, .. } => {
                let number = super::scalar::number(text);
                let known = self.texts != 0
                    || number.is_some_and(|n| self.ints.is_some_and(|(l, h)| (l..=h).contains(&n)))
                    || self.bool && matches!(&**text, "true" | "false" | "yes" | "no" | "on" | "off")
                    || self.words.contains(&**text);
                if !known && self.ints.is_some() && text.bytes().all(|b| b.is_ascii_lowercase()) {
                    self.words.insert(text.to_string());
                } else if !known {
                    self.texts += 1;
                }
            }
            Value::List(items) => {
                let shape = self.items.get_or_insert_default();
                items.iter().for_each(|n| shape.learn(n));
            }
            Value::Map(pairs) => {
                for (key, value) in pairs {
                    let Value::Scalar { text, .. } = &key.value else { continue };
                    match self.fields.get_mut(&**text) {
                        Some(shape) => shape.learn(value),
                        None => self.entries.get_or_insert_default().learn(value),
                    }
                }
            }
            Value::Lines(_) => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.mappings == 0
            && self.entries.is_none()
            && self.items.is_none()
            && self.texts == 0
            && self.ints.is_none()
            && !self.bool
            && self.words.is_empty()
    }

    /// Places that no document has reached.
    fn unreached(&self, path: &str, out: &mut Vec<String>) {
        // Names that are known need no others.
        if self.is_empty() {
            out.push(path.to_string());
        }
        self.fields.iter().for_each(|(name, s)| s.unreached(&format!("{path}.{name}"), out));
        let free = self.entries.iter().filter(|_| self.fields.is_empty());
        free.for_each(|s| s.unreached(&format!("{path}.NAME"), out));
        self.items.iter().for_each(|s| s.unreached(&format!("{path}[N]"), out));
    }

    fn schema(&self, path: &[&str], manual: &mut Manual) -> Json {
        let mut any: Vec<Json> = vec![];
        if self.mappings != 0 || self.entries.is_some() {
            any.push(self.mapping(path, manual));
        }
        if let Some(items) = &self.items {
            any.push(json!({ "type": "array", "items": items.schema(&below(path, "*"), manual) }));
        }
        let forms: usize = self.forms.values().sum();
        if self.texts != 0 && forms == self.texts {
            for form in self.forms.keys() {
                any.push(of(form.name()));
            }
        } else if self.texts != 0 {
            any.push(of("text"));
        }
        if let Some((low, high)) = self.ints {
            any.push(json!({ "type": "integer", "minimum": low, "maximum": high }));
        }
        if self.bool {
            any.push(of("switch"));
        }
        if !self.words.is_empty() {
            any.push(json!({ "enum": self.words }));
        }
        // A field without a value counts as absent.
        any.push(of("nothing"));
        json!({ "anyOf": any })
    }

    /// What a word or number of the manual is in a document, where such a one may stand here.
    fn value(&self, text: &str) -> Option<Json> {
        let number =
            super::scalar::number(text).filter(|n| self.ints.is_some_and(|(l, h)| (l..=h).contains(n)));
        match text {
            "true" | "false" if self.bool => Some(Json::Bool(text == "true")),
            _ if self.words.contains(text) || self.bool && text == "off" => Some(text.into()),
            _ => number.map(Json::from),
        }
    }

    fn mapping(&self, path: &[&str], manual: &mut Manual) -> Json {
        let mut out = Map::new();
        out.insert("type".into(), "object".into());
        let mut properties = Map::new();
        for (name, shape) in &self.fields {
            let place = below(path, name);
            let mut schema = shape.schema(&place, manual);
            if let Some(words) = manual.of(&place) {
                schema["description"] = words.into();
            }
            if let Some(default) = manual.default(&place).and_then(|text| shape.value(text)) {
                schema["default"] = default;
            }
            properties.insert(name.clone(), schema);
        }
        let always = |(name, n): (&String, &usize)| {
            (*n == self.mappings && self.fields.contains_key(name)).then(|| name.clone())
        };
        let required: Vec<String> = self.required.iter().filter_map(always).collect();
        if !properties.is_empty() {
            out.insert("properties".into(), properties.into());
        }
        if !required.is_empty() {
            out.insert("required".into(), required.into());
        }
        let free = self.entries.as_ref().filter(|s| self.fields.is_empty() || !s.is_empty());
        let others = free.map(|s| s.schema(&below(path, "*"), manual));
        out.insert("additionalProperties".into(), others.unwrap_or(false.into()));
        out.into()
    }
}

/// Places whose mappings one function reads: what is seen of one holds for all.
const ALIKE: [&[&str]; 2] = [
    &[
        "routes.[].via",
        "routes.[].via.[]",
        "mpls.local-labels.[].via",
        "mpls.local-labels.[].via.[]",
        "mpls.tunnels.*.via",
        "mpls.tunnels.*.via.[]",
    ],
    &["packet-generator.[]", "packet-generator.*"],
];

impl Recorder {
    fn place(&mut self, path: &str) -> &mut Shape {
        self.at(path.split('.').map(|step| (step != "[]").then_some(step)))
    }

    /// Gives places that are alike what has been seen of each of them.
    fn join(&mut self) {
        let classes: Vec<String> = net::punt::class::NAMES.iter().map(|c| format!("punt.{c}")).collect();
        let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
        self.0.share_families();
        for places in ALIKE.into_iter().chain([&classes[..]]) {
            let mut all = Shape::default();
            places.iter().for_each(|p| all.join(&self.place(p).clone()));
            places.iter().for_each(|p| self.place(p).join(&all));
        }
        // Its name stands in front of it there.
        let named = self.place("packet-generator.*");
        named.fields.remove("name");
        named.required.remove("name");
    }
}

impl Shape {
    /// What may be said of both families may be said of each.
    fn share_families(&mut self) {
        if std::mem::take(&mut self.families) {
            let mut one = Shape { fields: BTreeMap::new(), mappings: 0, ..self.clone() };
            for name in ["ip4", "ip6"] {
                if let Some(of) = self.fields.remove(name) {
                    one.join(&of);
                    if let Some(items) = of.items {
                        one.items.get_or_insert_default().join(&items);
                    }
                }
            }
            let both = ["ip4", "ip6"].map(|name| (name.to_string(), one.clone()));
            let mappings = self.mappings;
            *self = Shape { fields: both.into(), mappings, required: BTreeMap::new(), entries: None, ..one };
        }
        self.fields.values_mut().for_each(Shape::share_families);
        self.entries.iter_mut().for_each(|s| s.share_families());
        self.items.iter_mut().for_each(|s| s.share_families());
    }

    /// Takes over what another one is, lists aside.
    fn join(&mut self, other: &Shape) {
        for (name, shape) in &other.fields {
            let known = self.fields.entry(name.clone()).or_default();
            known.join(shape);
            if let Some(items) = &shape.items {
                known.items.get_or_insert_default().join(items);
            }
        }
        self.mappings += other.mappings;
        other.required.iter().for_each(|(name, n)| *self.required.entry(name.clone()).or_default() += n);
        if let Some(entries) = &other.entries {
            self.entries.get_or_insert_default().join(entries);
        }
        self.texts += other.texts;
        other.forms.iter().for_each(|(form, n)| *self.forms.entry(*form).or_default() += n);
        if let Some((low, high)) = other.ints {
            let known = self.ints.unwrap_or((low, high));
            self.ints = Some((known.0.min(low), known.1.max(high)));
        }
        self.bool |= other.bool;
        self.words.extend(other.words.iter().cloned());
    }
}
