//! A value by itself, in YAML or JSON, as it is written into a document.

use super::tree::{self, Node, Value};
use crate::written::{Map, Node as Written};

/// What is wrong with the text of a value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// The rule that is broken.
    pub rule: &'static str,
    /// What is wrong, and where.
    pub message: String,
    /// What would be right.
    pub help: String,
}

/// Reads a value.
pub(crate) fn read(text: &str) -> Result<Written, Wrong> {
    let root = tree::parse(text).map_err(|e| Wrong {
        rule: e.rule,
        message: format!("line {}, column {}: {}", e.place.line, e.place.column, e.message),
        help: e.help,
    })?;
    root.0.map_or_else(|| Ok(Written::Plain("null".into())), |root| of(&root))
}

fn of(node: &Node<'_>) -> Result<Written, Wrong> {
    Ok(match &node.value {
        _ if node.is_null() => Written::Plain("null".into()),
        Value::Scalar { text, plain: true } if is_word(text) => Written::Plain(text.to_string()),
        Value::Scalar { text, .. } => Written::Text(text.to_string()),
        Value::List(items) => Written::List(items.iter().map(of).collect::<Result<_, _>>()?),
        Value::Map(pairs) => {
            let (mut map, mut seen) = (Map::new(), std::collections::HashSet::with_capacity(pairs.len()));
            for (key, value) in pairs {
                let Value::Scalar { text, .. } = &key.value else { return Err(key_is_no_name(key)) };
                if !seen.insert(text.as_ref()) {
                    return Err(Wrong {
                        rule: "duplicate-key",
                        message: format!("line {}: {text} stands here a second time", key.place.line),
                        help: "remove one of the two".into(),
                    });
                }
                map.put(text.to_string(), of(value)?);
            }
            Written::Map(map)
        }
        // The parser of documents makes them, for a list `routes`.
        Value::Lines(lines) => {
            Written::List(lines.iter().map(|(_, text)| Written::Text(text.to_owned())).collect())
        }
    })
}

fn key_is_no_name(key: &Node<'_>) -> Wrong {
    Wrong {
        rule: "type",
        message: format!("line {}: expected a name as key, found {}", key.place.line, key.describe()),
        help: "a name, a colon and a space, a value".into(),
    }
}

/// Whether an unquoted text is the same wherever it stands, in a line with others too: such as a number or a switch.
fn is_word(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    let sign = text.strip_prefix(['-', '+']).is_some_and(|t| t.starts_with(|c: char| c.is_ascii_digit()));
    (first || sign) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_a_document_has_at_that_place() {
        let value = "{mtu: 9000, name: \"9000\", list: [a, \"b, c\", -5], none: ~, text: 'x: y', on: true}";
        let mut out = String::new();
        crate::written::write_field(&mut out, "value", &read(value).unwrap(), 0);
        assert_eq!(
            out,
            "value:\n  mtu: 9000\n  name: \"9000\"\n  list:\n    - a\n    - b, c\n    - -5\n  none: null\n  text: \"x: \
             y\"\n  \"on\": true\n"
        );
        assert_eq!(read("").unwrap(), Written::Plain("null".into()));
        assert_eq!(read("routes:\n- a b\n- c d\n").unwrap(), read("{routes: [a b, c d]}").unwrap());
    }

    #[test]
    fn what_is_no_value() {
        let rule = |text| read(text).unwrap_err().rule;
        assert_eq!(rule("{a: 1, a: 2}"), "duplicate-key");
        assert_eq!(rule("{[a]: 1}"), "type");
        assert_eq!(rule("[a"), "yaml-syntax");
        assert_eq!(rule("!x a"), "yaml-tag");
        assert_eq!(rule("--- a\n--- b\n"), "one-document");
    }
}
