//! Long runs of routes, one plain line each, past the YAML parser.
//!
//! A full Internet table is a million list items like `  - 10.0.0.0/8 via 192.0.2.1 left`, and the YAML parser takes most
//! of a microsecond and a tree node for each. Such a run below the key `routes` is cut out of the text before the parser
//! sees it; a short item is left in the place of its first line, blank lines in the place of the others, so that all places
//! stay right. When the parser finds the short items as plain items of that very list, what stood there were plain
//! items too, and they are put back. When it does not, or finds an error, the whole text is parsed.

use super::diag::Place;
use super::tree::{self, Node, TreeError, Value};

/// Shorter runs are left to the parser.
const LEAST: usize = if cfg!(test) { 2 } else { 64 };
const STAND_IN: &str = "x";

/// List items of one plain line each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines<'t> {
    text: &'t str,
    /// Number of the first line.
    first: usize,
    count: usize,
    /// Spaces in front of the dash.
    indent: usize,
}

impl<'t> Lines<'t> {
    /// The items with their places.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &'t str)> + use<'t> {
        let Lines { text, first, indent, .. } = *self;
        text.lines().enumerate().map(move |(i, line)| {
            let item = line.get(indent + 2..).unwrap_or_default();
            let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            (Place::new(small(first + i), small(indent + 3), small(item.len())), item)
        })
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.count
    }
}

/// The spaces in front of the dash of a line that is a list item of plain words, and cannot be anything else in a
/// block list of this indent.
fn simple(line: &str) -> Option<usize> {
    let indent = line.bytes().take_while(|b| *b == b' ').count();
    let item = line.get(indent..)?.strip_prefix("- ")?.as_bytes();
    let (first, last) = (*item.first()?, *item.last()?);
    if !(first.is_ascii_alphanumeric() || first == b':') || !(last.is_ascii_alphanumeric() || last == b'.') {
        return None;
    }
    let (mut before, mut words) = (b'-', 1);
    for &b in item {
        match b {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' | b':' | b'/' | b'_' | b'-' | b',' => {}
            // A colon before a space would make it a mapping.
            b' ' if before != b':' => words += 1,
            _ => return None,
        }
        before = b;
    }
    // A single word might be null.
    (words > 1).then_some(indent)
}

/// The text with stand-ins, and what they stand for.
pub(super) struct Short<'t> {
    text: String,
    runs: Vec<Lines<'t>>,
}

/// Cuts the runs out of a document; `None` when it has none.
pub(super) fn shorten(text: &str) -> Option<Short<'_>> {
    let key = if text.starts_with("routes:") { 0 } else { text.find("\nroutes:")? + 1 };
    let body = key + text.get(key..)?.find('\n')? + 1;
    if !text.get(key + "routes:".len()..body)?.bytes().all(|b| b == b' ' || b == b'\n') {
        return None;
    }
    let mut short = Short { text: String::with_capacity(body + 4096), runs: vec![] };
    short.text.push_str(text.get(..body)?);
    let mut number = 1 + text.get(..body)?.bytes().filter(|b| *b == b'\n').count();
    let (mut at, mut indent) = (body, None);
    while let Some(rest) = text.get(at..).filter(|r| !r.is_empty()) {
        // A run has one indent, and so have all runs: that of the list.
        let (mut end, mut count) = (0, 0);
        for line in rest.split_inclusive('\n') {
            let found = simple(line.strip_suffix('\n').unwrap_or(line));
            if found.is_none() || found != *indent.get_or_insert(found) {
                break;
            }
            (end, count) = (end + line.len(), count + 1);
        }
        if count >= LEAST {
            let run = Lines { text: rest.get(..end)?, first: number, count, indent: indent.flatten()? };
            short.text.extend(std::iter::repeat_n(' ', run.indent));
            short.text.push_str("- ");
            short.text.push_str(STAND_IN);
            short.text.extend(std::iter::repeat_n('\n', count));
            short.runs.push(run);
        } else if count > 0 {
            short.text.push_str(rest.get(..end)?);
        }
        (at, number) = (at + end, number + count);
        // The line that ended it.
        let rest = text.get(at..)?;
        let line = rest.split_inclusive('\n').next().unwrap_or_default();
        if !line.starts_with([' ', '-', '#', '\n']) {
            break;
        }
        short.text.push_str(line);
        (at, number) = (at + line.len(), number + 1);
    }
    short.text.push_str(text.get(at..)?);
    (!short.runs.is_empty()).then_some(short)
}

impl<'t> Short<'t> {
    /// The tree of the whole document; `None` when the whole text must be parsed.
    pub fn parse(&'t self) -> Option<Node<'t>> {
        let lines: usize = self.runs.iter().map(|r| r.count).sum();
        let (root, nodes) = tree::parse(&self.text).ok()?;
        let mut root = root.filter(|_| nodes + lines <= tree::MAX_NODES)?;
        let Value::Map(pairs) = &mut root.value else { return None };
        let routes = |key: &Node<'_>| matches!(&key.value, Value::Scalar { text, .. } if text == "routes");
        let mut runs = self.runs.iter().peekable();
        for (_, value) in pairs.iter_mut().filter(|(key, _)| routes(key)) {
            let Value::List(items) = &mut value.value else { continue };
            for item in items {
                let Some(run) = runs.next_if(|r| r.holds(item)) else { continue };
                item.value = Value::Lines(*run);
            }
        }
        runs.next().is_none().then_some(root)
    }
}

impl Lines<'_> {
    /// Whether `item` is the stand-in of this run.
    fn holds(&self, item: &Node<'_>) -> bool {
        let (line, column) = (self.first, self.indent + 3);
        let at = item.place.line as usize == line && item.place.column as usize == column;
        at && matches!(&item.value, Value::Scalar { text, plain: true } if text == STAND_IN)
    }
}

/// The tree of `text`, by way of `short` if that can be.
pub(super) fn parse<'t>(text: &'t str, short: Option<&'t Short<'t>>) -> Result<Option<Node<'t>>, TreeError> {
    match short.and_then(Short::parse) {
        Some(root) => Ok(Some(root)),
        None => tree::parse(text).map(|(root, _)| root),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::borrow::Cow;

    /// Puts items in the place of runs.
    fn expand<'t>(node: &Node<'t>) -> Node<'t> {
        let value = match &node.value {
            Value::List(items) => Value::List(
                items
                    .iter()
                    .flat_map(|item| match &item.value {
                        Value::Lines(lines) => {
                            let all = lines.iter();
                            all.map(|(place, text)| {
                                let text = Cow::Borrowed(text);
                                Node { place, value: Value::Scalar { text, plain: true } }
                            })
                            .collect()
                        }
                        _ => vec![expand(item)],
                    })
                    .collect(),
            ),
            Value::Map(pairs) => Value::Map(pairs.iter().map(|(k, v)| (expand(k), expand(v))).collect()),
            other => other.clone(),
        };
        Node { place: node.place, value }
    }

    fn show(result: Result<Option<Node<'_>>, TreeError>) -> String {
        match result {
            Ok(root) => format!("{:?}", root.as_ref().map(expand)),
            Err(e) => format!("{e:?}"),
        }
    }

    #[test]
    fn a_table_is_cut_out() {
        let text = "quiver: {workers: 1}\nroutes: \n  # all\n  - ::/0 via x\n  - 10.0.0.0/8 via 192.0.2.1, y weight 2\n\n  - \
                    {prefix: a}\n  - 10.1.0.0/16 drop\n  - 10.2.0.0/16 drop\nneighbors: []\n";
        let short = shorten(text).unwrap();
        let root = short.parse().unwrap();
        let Value::Map(pairs) = &root.value else { panic!() };
        let Value::List(items) = &pairs[1].1.value else { panic!() };
        let runs = items.iter().filter(|i| matches!(i.value, Value::Lines(_))).count();
        assert_eq!((items.len(), runs), (3, 2));
        assert_eq!(show(Ok(Some(root))), show(tree::parse(text).map(|r| r.0)));
    }

    #[test]
    fn what_is_no_simple_item() {
        for line in [
            "  - x",
            "  -  x y",
            "  - x y ",
            "  - x: y",
            "  - x y:",
            "  - x #y",
            "  - \"x y\"",
            "  - ~ x",
            "  - -x y",
            "  - [x y",
            "  - x\ty",
            "  x y",
            "  - x y\r",
            "\t- x y",
            "  - ? x",
            "  - x y,",
            "  - *x y",
            "  - &x y",
            "  - !x y",
            "  -",
        ] {
            assert_eq!(simple(line), None, "{line:?}");
        }
        assert_eq!((simple("- x y"), simple("    - ::/0 a.b:c")), (Some(0), Some(4)));
    }

    fn line() -> impl Strategy<Value = String> {
        let simple = prop::sample::select(vec![
            "  - a b",
            "  - 10.0.0.0/8 via 10.1.1.1 left",
            "  - ::/0 via fe80::1, x",
            "  - x y",
        ]);
        let odd = prop::sample::select(vec![
            "routes:",
            "routes: ",
            "routes: &a",
            " routes:",
            "   - a b",
            "- a b",
            "  -  a b",
            "    more",
            "   more",
            "  more",
            "  - |",
            "  - >-",
            "  - |2",
            "  - \"open",
            "close\"",
            "  - 'x y'",
            "  - \"x y\"",
            "# c",
            "  # c",
            "",
            "   ",
            "other: 1",
            "  - {a: b}",
            "  - [a b]",
            "  - a b:",
            "  - a: b",
            "    c: d",
            "  - prefixes:",
            "      - a b",
            "\t- a b",
            "{",
            "}",
            "x: |",
            "x: \"",
            "y: [",
            "]",
            "...",
            "---",
            "  - &a x",
            "  - *a",
            "  - null",
            "  - x",
            "? routes",
            ": x",
            "a\r",
            "  - a b\r",
            "\u{85}",
            "  - a b  ",
            "routes: x",
            "  -",
            "  - - a b",
            "%YAML 1.2",
            "  - x y\n  - z w\n  - u v",
        ]);
        prop_oneof![5 => simple, 3 => odd].prop_map(String::from)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn the_tree_is_that_of_the_whole_text(
            head in prop::collection::vec(line(), 0..3),
            lines in prop::collection::vec(line(), 0..14),
            end in any::<bool>(),
        ) {
            let mut text = head.into_iter().chain(["routes:".to_string()]).chain(lines).collect::<Vec<_>>().join("\n");
            text.extend(end.then_some('\n'));
            let short = shorten(&text);
            let want = show(tree::parse(&text).map(|r| r.0));
            prop_assert_eq!(show(parse(&text, short.as_ref())), want, "{}", text);
        }
    }
}
