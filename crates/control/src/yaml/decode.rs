//! Walks the tree: keeps the path, checks field names against tables, collects errors and goes on.

use super::diag::{Diagnostic, NOT_SUPPORTED, Place, Sink};
#[cfg(test)]
use super::schema::Fact;
use super::tree::{Node, Value};
use command::HIDDEN;

/// One step of the path to a value.
#[derive(Debug, Clone, Copy)]
enum Segment<'n> {
    Key(&'n str),
    Index(usize),
}

/// Collects errors while the tree is turned into typed data.
#[derive(Debug, Default)]
pub(super) struct Decoder<'n> {
    pub errors: Sink,
    path: Vec<Segment<'n>>,
    /// What is asked for is noted here.
    #[cfg(test)]
    pub recorder: Option<super::schema::Recorder>,
}

/// The fields of one mapping, all of known name, none twice.
#[derive(Debug)]
pub(super) struct Fields<'n> {
    /// The place of the mapping.
    pub place: Place,
    entries: Vec<(&'static str, Place, &'n Node<'n>)>,
}

impl<'n> Fields<'n> {
    /// No fields at all.
    pub fn none(place: Place) -> Fields<'n> {
        Fields { place, entries: Vec::new() }
    }

    /// The value of a field; an empty value counts as absent.
    pub fn get(&self, name: &str) -> Option<&'n Node<'n>> {
        self.entries.iter().find(|(n, ..)| *n == name).map(|(_, _, node)| *node).filter(|n| !n.is_null())
    }

    /// True when the field has a value, right or wrong.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The place of the field's name, or of the mapping when it is absent.
    pub fn key_place(&self, name: &str) -> Place {
        self.entries.iter().find(|(n, ..)| *n == name).map_or(self.place, |(_, place, _)| *place)
    }
}

impl<'n> Decoder<'n> {
    /// Runs `f` with `key` added to the path.
    pub fn key<R>(&mut self, key: &'n str, f: impl FnOnce(&mut Self) -> R) -> R {
        self.path.push(Segment::Key(key));
        let result = f(self);
        self.path.pop();
        result
    }

    /// Runs `f` with a list index added to the path.
    pub fn index<R>(&mut self, index: usize, f: impl FnOnce(&mut Self) -> R) -> R {
        self.path.push(Segment::Index(index));
        let result = f(self);
        self.path.pop();
        result
    }

    /// The path as text, such as `routes[3].via`.
    pub fn path(&self) -> String {
        let mut text = String::new();
        for segment in &self.path {
            match segment {
                Segment::Key(key) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.extend(key.chars().take(80));
                }
                Segment::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }

    /// The path for an error; nothing when that will only be counted.
    fn path_to_keep(&self) -> String {
        if self.errors.is_full() { String::new() } else { self.path() }
    }

    /// Adds an error at `place` on the current path.
    pub fn error(&mut self, place: Place, rule: &'static str, message: impl Into<String>) -> &mut Diagnostic {
        let path = self.path_to_keep();
        self.errors.add(Diagnostic::new(place, path, rule, message))
    }

    /// Adds a note at `place` on the current path.
    pub fn note(&mut self, place: Place, rule: &'static str, message: impl Into<String>) -> &mut Diagnostic {
        let path = self.path_to_keep();
        self.errors.add(Diagnostic::note(place, path, rule, message))
    }

    /// Notes something that belongs to the format but not yet to Quiver: a router does not start with it.
    pub fn unsupported(&mut self, place: Place, what: &str) {
        self.note(place, NOT_SUPPORTED, format!("{what} is not supported yet"))
            .help("`quiver run` refuses it: Quiver does not ignore what it cannot do");
    }

    fn wrong_type(&mut self, node: &Node<'_>, wanted: &str) {
        let found = node.describe();
        self.error(node.place, "type", format!("expected {wanted}, found {found}"));
    }

    /// Notes what is looked for here.
    #[cfg(test)]
    pub fn fact(&mut self, fact: Fact<'_>) {
        if let Some(recorder) = &mut self.recorder {
            let step = |s: &Segment<'n>| match s {
                Segment::Key(key) => Some(*key),
                Segment::Index(_) => None,
            };
            recorder.note(self.path.iter().map(step), fact);
        }
    }

    /// Whether a value is this word, where another kind of value may stand as well.
    pub fn is_word(&mut self, node: &Node<'_>, word: &str) -> bool {
        #[cfg(test)]
        self.fact(Fact::Choice(&[word]));
        matches!(&node.value, Value::Scalar { text, .. } if text == word)
    }

    /// The fields of a mapping whose field names are `known`. Nothing at all counts as an empty mapping.
    pub fn fields(&mut self, node: &'n Node<'n>, known: &'static [&'static str]) -> Option<Fields<'n>> {
        #[cfg(test)]
        self.fact(Fact::Fields(known));
        let mut fields = Fields { place: node.place, entries: Vec::new() };
        let pairs = match &node.value {
            Value::Map(pairs) => pairs.as_slice(),
            _ if node.is_null() => &[],
            _ => {
                self.wrong_type(node, &format!("a mapping with {}", list(known)));
                return None;
            }
        };
        for (key, value) in pairs {
            let Some(text) = self.key_text(key) else { continue };
            let Some(&name) = known.iter().find(|k| **k == text) else {
                let near = nearest(text, known.iter().copied().filter(|_| !self.errors.is_full()));
                let help = match near {
                    None if self.errors.is_full() => String::new(),
                    Some(near) => format!("did you mean `{near}`? Fields here: {}", list(known)),
                    None => format!("fields here: {}", list(known)),
                };
                self.key(text, |d| {
                    d.error(key.place, "unknown-field", "there is no such field").help(help);
                });
                continue;
            };
            match fields.entries.iter().find(|(n, ..)| *n == name) {
                Some((_, first, _)) => self.duplicate_key(key.place, text, *first),
                None => fields.entries.push((name, key.place, value)),
            }
        }
        Some(fields)
    }

    /// The entries of a mapping with names of the operator's choice.
    pub fn entries(&mut self, node: &'n Node<'n>, what: &str) -> Vec<(&'n str, Place, &'n Node<'n>)> {
        #[cfg(test)]
        self.fact(Fact::Entries);
        let pairs = match &node.value {
            Value::Map(pairs) => pairs.as_slice(),
            _ if node.is_null() => &[],
            _ => {
                self.wrong_type(node, &format!("a mapping with {what}"));
                &[]
            }
        };
        let mut seen = std::collections::HashMap::with_capacity(pairs.len());
        let mut entries = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let Some(text) = self.key_text(key) else { continue };
            match seen.insert(text, key.place) {
                Some(first) => self.duplicate_key(key.place, text, first),
                None => entries.push((text, key.place, value)),
            }
        }
        entries
    }

    /// The items of a list.
    pub fn items(&mut self, node: &'n Node<'n>, what: &str) -> &'n [Node<'n>] {
        #[cfg(test)]
        self.fact(Fact::Items);
        match &node.value {
            Value::List(items) => items,
            _ if node.is_null() => &[],
            _ => {
                self.wrong_type(node, &format!("a list of {what}"));
                &[]
            }
        }
    }

    fn key_text(&mut self, key: &'n Node<'n>) -> Option<&'n str> {
        match &key.value {
            Value::Scalar { text, .. } => Some(text),
            _ => {
                self.wrong_type(key, "a name as key");
                None
            }
        }
    }

    fn duplicate_key(&mut self, place: Place, text: &'n str, first: Place) {
        self.key(text, |d| {
            d.error(
                place,
                "duplicate-key",
                format!("stands here a second time, first on line {}", first.line),
            )
            .help("remove one of the two");
        });
    }

    /// Decodes a field when it is there.
    pub fn field<T>(
        &mut self,
        fields: &Fields<'n>,
        name: &'n str,
        decode: impl FnOnce(&mut Self, &'n Node<'n>) -> Option<T>,
    ) -> Option<T> {
        let node = fields.get(name)?;
        self.key(name, |d| decode(d, node))
    }

    /// Decodes a field; its absence is an error.
    pub fn required<T>(
        &mut self,
        fields: &Fields<'n>,
        name: &'n str,
        help: &str,
        decode: impl FnOnce(&mut Self, &'n Node<'n>) -> Option<T>,
    ) -> Option<T> {
        #[cfg(test)]
        self.fact(Fact::Required(name));
        if !fields.has(name) {
            self.error(fields.place, "required", format!("`{name}` is missing")).help(help);
            return None;
        }
        self.field(fields, name, decode)
    }

    /// The text of a single value.
    pub fn text(&mut self, node: &'n Node<'n>, wanted: &str) -> Option<&'n str> {
        #[cfg(test)]
        if let Value::Scalar { text, .. } = &node.value {
            self.fact(Fact::Text(text));
        }
        self.scalar(node, wanted)
    }

    /// A secret; that which stands for one that was not shown is none.
    pub fn secret(&mut self, node: &'n Node<'n>) -> Option<&'n str> {
        let text = self.text(node, "a secret")?;
        if text == HIDDEN {
            self.error(
                node.place,
                "hidden-secret",
                format!("`{HIDDEN}` stands for a secret that was not shown"),
            )
            .help("the secret itself: `quiver dump` shows it to who has the role `configure`");
            return None;
        }
        Some(text)
    }

    /// The text of a single value that is to be more than a text.
    pub fn scalar(&mut self, node: &'n Node<'n>, wanted: &str) -> Option<&'n str> {
        match &node.value {
            Value::Scalar { text, .. } if !node.is_null() => Some(text),
            _ => {
                self.wrong_type(node, wanted);
                None
            }
        }
    }
}

/// Names for a help text: `` `a`, `b`, `c` ``.
pub(super) fn list(names: &[&str]) -> String {
    names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}

/// The known name closest to `text`, when it is close enough to be a slip.
pub(super) fn nearest<'k>(text: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    if text.len() > 64 {
        return None;
    }
    let best = known.map(|k| (distance(text, k), k)).min()?;
    (best.0 <= 1 + text.len() / 5).then_some(best.1)
}

/// Edit distance in characters (insert, delete, replace).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replace = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
