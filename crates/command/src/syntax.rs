//! Reads syntax strings into trees.

use std::fmt;

use crate::ArgType;

/// How deep groups may nest.
const MAX_DEPTH: usize = 16;

/// A piece of a command's syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Word(String),
    Arg {
        name: String,
        kind: ArgType,
    },
    Seq(Vec<Node>),
    Alt(Vec<Node>),
    Optional(Box<Node>),
    /// Neighbouring optional parts: any order, each at most once.
    AnyOrder(Vec<Node>),
    /// One or more times.
    Repeat(Box<Node>),
    Label(String, Box<Node>),
}

impl Node {
    /// Whether it matches no word at all.
    pub(crate) fn nullable(&self) -> bool {
        match self {
            Node::Word(_) | Node::Arg { .. } => false,
            Node::Seq(parts) => parts.iter().all(Node::nullable),
            Node::Alt(parts) => parts.iter().any(Node::nullable),
            Node::Optional(_) | Node::AnyOrder(_) => true,
            Node::Repeat(part) | Node::Label(_, part) => part.nullable(),
        }
    }
}

/// Reads a whole command; it starts with a keyword.
pub(crate) fn parse(text: &str) -> Result<Node, String> {
    let mut parser = Parser { rest: text };
    let node = parser.alternatives(0)?;
    if !parser.rest.is_empty() {
        return Err(format!("'{}' closes nothing", parser.rest));
    }
    let starts_with_word = match &node {
        Node::Word(_) => true,
        Node::Seq(parts) => matches!(parts.first(), Some(Node::Word(_))),
        _ => false,
    };
    match starts_with_word {
        true => Ok(node),
        false => Err("a command starts with a keyword".to_owned()),
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn skip(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn alternatives(&mut self, depth: usize) -> Result<Node, String> {
        if depth > MAX_DEPTH {
            return Err("groups nest too deep".to_owned());
        }
        let mut alternatives = vec![self.sequence(depth)?];
        while self.skip() == Some('|') {
            self.take("|");
            alternatives.push(self.sequence(depth)?);
        }
        Ok(match alternatives.len() {
            1 => alternatives.swap_remove(0),
            _ => Node::Alt(alternatives),
        })
    }

    fn sequence(&mut self, depth: usize) -> Result<Node, String> {
        let mut parts: Vec<Node> = Vec::new();
        while let Some(c) = self.skip() {
            if matches!(c, '|' | ')' | ']') {
                break;
            }
            let part = self.item(depth)?;
            match (parts.last_mut(), part) {
                (Some(Node::AnyOrder(set)), Node::Optional(part)) => set.push(*part),
                (Some(last @ Node::Optional(_)), Node::Optional(part)) => {
                    if let Node::Optional(first) = std::mem::replace(last, Node::AnyOrder(Vec::new())) {
                        *last = Node::AnyOrder(vec![*first, *part]);
                    }
                }
                (_, part) => parts.push(part),
            }
        }
        if let Some(at) = parts.iter().position(is_rest)
            && at + 1 < parts.len()
        {
            return Err("nothing may follow an argument that takes the rest of the line".to_owned());
        }
        Ok(match parts.len() {
            0 => return Err("an empty alternative".to_owned()),
            1 => parts.swap_remove(0),
            _ => Node::Seq(parts),
        })
    }

    fn item(&mut self, depth: usize) -> Result<Node, String> {
        let (node, optional) = if self.take("<") {
            (self.argument()?, false)
        } else if self.take("(") {
            (self.group(depth, ")")?, false)
        } else if self.take("[") {
            (self.group(depth, "]")?, true)
        } else {
            let end = self.rest.find(|c: char| c.is_whitespace() || "<>()[]|:".contains(c));
            let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            self.rest = rest;
            if self.take(":") {
                if word.is_empty() || !self.rest.starts_with(['(', '[']) {
                    return Err("a label is a word and ':' before a group".to_owned());
                }
                return match self.item(depth)? {
                    // Repetition binds closer than the label in the text, looser in the tree.
                    Node::Optional(inner) => Ok(Node::Optional(Box::new(label(word, *inner)))),
                    other => Ok(label(word, other)),
                };
            }
            if word.is_empty() || word.contains("...") || word.contains(['"', '\'', '#', '?']) {
                return Err(format!("unexpected '{}'", self.rest.chars().next().unwrap_or('.')));
            }
            return Ok(Node::Word(word.to_owned()));
        };
        let repeated = self.take("...");
        if (repeated || optional) && node.nullable() {
            return Err("an optional or repeated part must not be empty itself".to_owned());
        }
        let node = if repeated { Node::Repeat(Box::new(node)) } else { node };
        Ok(if optional { Node::Optional(Box::new(node)) } else { node })
    }

    fn group(&mut self, depth: usize, close: &str) -> Result<Node, String> {
        let node = self.alternatives(depth + 1)?;
        match self.take(close) {
            true => Ok(node),
            false => Err(format!("'{close}' is missing")),
        }
    }

    fn argument(&mut self) -> Result<Node, String> {
        let (inner, rest) = self.rest.split_once('>').ok_or("'>' is missing")?;
        self.rest = rest;
        let (name, kind) = inner.split_once(':').unwrap_or((inner, "string"));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(format!("'{name}' is no name for an argument"));
        }
        Ok(Node::Arg { name: name.to_owned(), kind: ArgType::parse(kind)? })
    }
}

fn label(name: &str, node: Node) -> Node {
    match node {
        Node::Repeat(inner) => Node::Repeat(Box::new(Node::Label(name.to_owned(), inner))),
        other => Node::Label(name.to_owned(), Box::new(other)),
    }
}

/// Whether the part may end in an argument that takes the rest of the line.
fn is_rest(node: &Node) -> bool {
    match node {
        Node::Word(_) => false,
        Node::Arg { kind, .. } => *kind == ArgType::Rest,
        Node::Seq(parts) | Node::Alt(parts) | Node::AnyOrder(parts) => parts.iter().any(is_rest),
        Node::Optional(part) | Node::Repeat(part) | Node::Label(_, part) => is_rest(part),
    }
}

/// The syntax as operators read it: without types and labels.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Word(word) => f.write_str(word),
            Node::Arg { name, .. } => write!(f, "<{name}>"),
            Node::Seq(parts) => join(f, parts, " "),
            Node::Alt(parts) => {
                f.write_str("(")?;
                join(f, parts, "|")?;
                f.write_str(")")
            }
            Node::Optional(part) => bracket(f, part),
            Node::AnyOrder(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    if index > 0 {
                        f.write_str(" ")?;
                    }
                    bracket(f, part)?;
                }
                Ok(())
            }
            Node::Repeat(part) => match part.as_ref() {
                Node::Arg { .. } | Node::Alt(_) => write!(f, "{part}..."),
                Node::Label(_, inner) if matches!(inner.as_ref(), Node::Alt(_)) => write!(f, "{part}..."),
                _ => write!(f, "({part})..."),
            },
            Node::Label(_, part) => write!(f, "{part}"),
        }
    }
}

fn join(f: &mut fmt::Formatter<'_>, parts: &[Node], with: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(with)?;
        }
        write!(f, "{part}")?;
    }
    Ok(())
}

fn bracket(f: &mut fmt::Formatter<'_>, part: &Node) -> fmt::Result {
    let (inner, dots) = match part {
        Node::Repeat(inner) => (inner.as_ref(), "..."),
        other => (other, ""),
    };
    let inner = match inner {
        Node::Label(_, unlabelled) => unlabelled.as_ref(),
        other => other,
    };
    f.write_str("[")?;
    match inner {
        Node::Alt(parts) => join(f, parts, "|")?,
        other => write!(f, "{other}")?,
    }
    write!(f, "]{dots}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_as_written_without_types() {
        for (written, shown) in [
            ("show interface [addr]", "show interface [addr]"),
            ("ip route add <p:prefix> paths:(via <a:ip>)...", "ip route add <p> (via <a>)..."),
            ("a [b|c <x>] [d] (e|f)", "a [b|c <x>] [d] (e|f)"),
            ("a x:[b|c]...", "a [b|c]..."),
            ("a <x>... (b|c)...", "a <x>... (b|c)..."),
            ("a [<x:u8>]...", "a [<x>]..."),
        ] {
            assert_eq!(parse(written).map(|n| n.to_string()), Ok(shown.to_owned()));
        }
    }

    #[test]
    fn faulty_syntax_is_refused() {
        for text in [
            "",
            "a (b",
            "a [b",
            "a b)",
            "a <b",
            "a <>",
            "a <b c>",
            "<a> b",
            "[a] b",
            "a|b",
            "a ()",
            "a (b|)",
            "a [[b]]",
            "a ([b])...",
            "a <r:rest> b",
            "a x: b",
            "a b...",
            "a \"b\"",
            "a <x:u99>",
            "a >",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&format!("a {}b{}", "(".repeat(10_000), ")".repeat(10_000))).is_err());
    }
}
