//! Documents as those see them who may not configure: without secrets.
//!
//! Which fields are secrets, the sections say ([`Section::secrets`](super::virtuals::Section)). A field of such a name is one wherever it stands, so that
//! what YAML may do with a document between (anchors, lines in one) makes no difference.

use super::virtuals::SECTIONS;
use crate::written::Node;
use command::{Access, Caller, HIDDEN};
use granit_parser::{Event, Parser};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// Whether secrets are kept from who asks. The router itself, where nobody is named, sees all.
pub(crate) fn are_hidden_from(caller: Option<&Caller>) -> bool {
    caller.is_some_and(|c| c.access < Access::Write)
}

fn names() -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().flat_map(|s| s.secrets.iter().copied())
}

fn is_secret(field: &str) -> bool {
    names().any(|name| name == field)
}

/// Whether a text may tell a secret. Quoted names may be written with escapes.
pub(crate) fn may_stand_in(text: &str) -> bool {
    text.contains('\\') || names().any(|name| text.contains(name))
}

/// Hides the secrets in a part of a document.
pub(crate) fn hide(node: &mut Node) {
    match node {
        Node::Map(map) | Node::Flow(map) => map.fields_mut().for_each(|(name, value)| match value {
            Node::Plain(_) | Node::Text(_) if is_secret(name) => *value = Node::text(HIDDEN),
            other => hide(other),
        }),
        Node::List(items) | Node::Row(items) => items.iter_mut().for_each(hide),
        Node::Plain(_) | Node::Text(_) => {}
    }
}

/// What comes next in a list or mapping.
enum Next {
    Item,
    Key,
    /// The value of a key, which may be a secret's.
    Value(bool),
}

impl Next {
    /// A value comes whose text, as a key, is the name of a secret or not. Whether it is a secret.
    fn comes(&mut self, names_secret: bool) -> bool {
        let (next, secret) = match self {
            Next::Item => (Next::Item, false),
            Next::Key => (Next::Value(names_secret), false),
            Next::Value(secret) => (Next::Key, *secret),
        };
        *self = next;
        secret
    }
}

/// The document without its secrets: all else, comments too, is as it was. Not for the control thread.
///
/// # Errors
/// It cannot be read, so that nobody knows where secrets stand.
pub(crate) fn without(text: &str) -> Result<Cow<'_, str>, String> {
    if !may_stand_in(text) {
        return Ok(text.into());
    }
    let mut open = vec![Next::Item];
    let mut spans: Vec<Range<usize>> = vec![];
    // Values with names of YAML's own: where they stand, and whether that is what a secret is called.
    let mut anchors: HashMap<usize, (Range<usize>, bool)> = HashMap::new();
    for next in Parser::new_from_str(text) {
        let (event, span) = next.map_err(|e| e.to_string())?;
        let mut comes = |names_secret| open.last_mut().is_some_and(|next| next.comes(names_secret));
        match event {
            Event::Scalar(value, _, anchor, _) => {
                let range = span.byte_range().ok_or("no places are known")?;
                let names_secret = is_secret(&value);
                if comes(names_secret) && !range.is_empty() {
                    spans.push(range.clone());
                }
                anchors.insert(anchor, (range, names_secret));
            }
            Event::Alias(id) => {
                let (range, names_secret) = anchors.get(&id).cloned().unwrap_or_default();
                if comes(names_secret) && !range.is_empty() {
                    spans.push(range);
                }
            }
            Event::SequenceStart(..) => {
                comes(false);
                open.push(Next::Item);
            }
            Event::MappingStart(..) => {
                comes(false);
                open.push(Next::Key);
            }
            Event::SequenceEnd | Event::MappingEnd => _ = open.pop(),
            _ => {}
        }
    }
    // Of something with a name of YAML's own the place may come twice.
    spans.sort_by_key(|s| s.start);
    spans.dedup();
    graph::memory::check(text.len()).map_err(|e| e.to_string())?;
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for Range { start, end } in spans {
        out.push_str(text.get(at..start).ok_or("places are not as they should be")?);
        out.push_str(HIDDEN);
        // A text of several lines ends where what follows begins.
        at = start + text.get(start..end).unwrap_or_default().trim_end().len();
    }
    out.push_str(text.get(at..).ok_or("places are not as they should be")?);
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_however_they_are_written() {
        let plain = "memifs:\n  memif0/0: {role: slave, secret: s3cret}\n";
        for text in [
            plain,
            "memifs:\n  memif0/0:\n    secret: s3cret # of both\n    role: slave\n",
            "memifs: {memif0/0: {secret: \"s3cr\\x65t\", role: slave}}",
            "memifs: {memif0/0: {\"s\\x65cret\": 's3cret', role: slave}}",
            "memifs:\n  memif0/0:\n    secret: |-\n      s3cret\n    role: slave\n",
            "memifs:\n  memif0/0:\n    secret: >-\n      s3cret\n\n    role: slave\n",
            "memifs:\n  memif0/0:\n    ? secret\n    : &a s3cret\n    role: slave\n",
            "memifs:\n  memif0/0: &one {role: &s slave, &k secret: &v s3cret}\n  memif0/1: {*k : *v, role: *s}\n  memif0/2: *one\n",
            "interfaces: {loop0: {description: &v s3cret}}\nmemifs: {memif0/0: {secret: *v, role: slave}}",
        ] {
            let hidden = without(text).unwrap();
            assert!(!hidden.contains("s3cr"), "{hidden}");
            // Nothing else is another value.
            let (was, is) = (crate::yaml::texts(text), crate::yaml::texts(&hidden));
            let want: Vec<_> = was.iter().map(|t| t.replace("s3cret", HIDDEN)).collect();
            assert!(!is.is_empty() && is == want, "{text}\n{hidden}\n{is:?}");
        }
        assert_eq!(without(plain).unwrap(), plain.replace("s3cret", HIDDEN));
        for text in ["# secret: none\nmemifs: {memif0/0: {secret: , role: slave}}", "", "a: [secret, b]"] {
            assert_eq!(without(text).unwrap(), text);
        }
        assert!(without("memifs: {secret: [").is_err());
    }
}
