//! A text by its lines, numbered from 1.

use super::super::diag::Place;
use super::super::tree::{self, Node, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Lines `from..to` become a text; where both are the same it is put in front of the line.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub from: usize,
    pub to: usize,
    pub text: String,
}

pub(super) struct Text<'t> {
    text: &'t str,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl<'t> Text<'t> {
    /// `None` where lines end in other ways than they do here.
    pub fn of(text: &'t str) -> Option<Text<'t>> {
        let bytes = text.as_bytes();
        let alone = |(n, b): (usize, &u8)| *b == b'\r' && bytes.get(n + 1) != Some(&b'\n');
        if text.starts_with('\u{feff}') || bytes.iter().enumerate().any(alone) {
            return None;
        }
        let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(n, _)| n + 1);
        let starts = std::iter::once(0).chain(ends).filter(|at| *at < bytes.len()).collect();
        Some(Text { text, starts })
    }

    pub fn all(&self) -> &'t str {
        self.text
    }

    /// How many lines there are.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    fn start(&self, line: usize) -> usize {
        line.checked_sub(1).and_then(|n| self.starts.get(n)).copied().unwrap_or(self.text.len())
    }

    fn raw(&self, from: usize, to: usize) -> &'t str {
        self.text.get(self.start(from)..self.start(to)).unwrap_or_default()
    }

    fn line(&self, n: usize) -> &'t str {
        self.raw(n, n + 1).trim_end_matches(['\n', '\r'])
    }

    /// Spaces in front of it.
    pub fn indent(&self, n: usize) -> usize {
        self.line(n).bytes().take_while(|b| *b == b' ').count()
    }

    fn is_blank(&self, n: usize) -> bool {
        self.line(n).trim().is_empty()
    }

    fn is_comment(&self, n: usize) -> bool {
        self.line(n).trim_start().starts_with('#')
    }

    fn is_content(&self, n: usize) -> bool {
        !self.is_blank(n) && !self.is_comment(n) && !matches!(self.line(n).trim_end(), "..." | "---")
    }

    /// Whether it is an item of a list.
    pub fn is_item(&self, n: usize) -> bool {
        let line = self.line(n).trim();
        line == "-" || line.starts_with("- ")
    }

    /// Whether nothing stands in front of a place.
    pub fn begins_at(&self, place: Place) -> bool {
        self.before(place).is_some_and(|b| b.bytes().all(|b| b == b' '))
    }

    /// What stands in front of a place.
    pub fn before(&self, place: Place) -> Option<&'t str> {
        let line = self.line(place.line as usize);
        line.get(..byte(line, (place.column as usize).checked_sub(1)?)?)
    }

    /// Behind the last line of what begins at `first` and stands in front of `bound`.
    pub fn content_end(&self, first: usize, bound: usize) -> usize {
        let bound = bound.min(self.count() + 1);
        (first..bound).rev().find(|n| self.is_content(*n)).unwrap_or(first) + 1
    }

    /// The same, and comments that are indented deeper than it.
    pub fn inner_end(&self, first: usize, bound: usize, indent: usize) -> usize {
        let end = self.content_end(first, bound);
        let within = |n: &usize| self.is_comment(*n) && self.indent(*n) > indent;
        let lines = (end..bound.min(self.count() + 1)).take_while(|n| self.is_blank(*n) || within(n));
        lines.filter(within).last().map_or(end, |n| n + 1)
    }

    /// Where the comment lines begin that stand directly above a line, and not above `from`.
    pub fn lead(&self, first: usize, from: usize, indent: usize) -> usize {
        let above = (from..first).rev().take_while(|n| self.is_comment(*n) && self.indent(*n) <= indent);
        above.last().unwrap_or(first)
    }

    /// The line behind the block that begins at a place.
    pub fn end_of_block(&self, place: Place) -> usize {
        let (first, indent) = (place.line as usize, (place.column as usize).saturating_sub(1));
        let ends = |n: &usize| self.is_content(*n) && self.indent(*n) <= indent;
        (first + 1..=self.count()).find(ends).unwrap_or(self.count() + 1)
    }

    /// Behind the item that begins on a line.
    pub fn item_end(&self, first: usize) -> usize {
        let place = Place::new(u32::try_from(first).unwrap_or(u32::MAX), 1 + self.indent(first) as u32, 1);
        self.content_end(first, self.end_of_block(place))
    }

    /// The comment at the end of a line, with the spaces in front of it.
    pub fn comment(&self, n: usize) -> Option<&'t str> {
        let line = self.line(n);
        let is_whole = |text: &str| ['"', '\''].iter().all(|q| text.matches(*q).count() % 2 == 0);
        let mut places = line.match_indices(" #").filter_map(|(at, _)| line.get(..at));
        let before = places.find(|before| is_whole(before) && !before.trim().is_empty())?;
        line.get(before.trim_end().len()..)
    }

    /// Where a value stands on its line, if it is there as a whole.
    fn place(&self, node: &Node<'_>) -> Option<Range<usize>> {
        let Value::Scalar { text, plain } = &node.value else { return None };
        let line = self.line(node.place.line as usize);
        let from = (node.place.column as usize).checked_sub(1)?;
        let (start, end) = (byte(line, from)?, byte(line, from + node.place.width as usize)?);
        let read = tree::parse(line.get(start..end)?).ok()?.0?;
        match read.value {
            Value::Scalar { text: t, plain: p } if t == *text && p == *plain => Some(start..end),
            _ => None,
        }
    }

    /// A value as it is written.
    pub fn scalar(&self, node: &Node<'_>) -> Option<&'t str> {
        self.line(node.place.line as usize).get(self.place(node)?)
    }

    /// The lines of values with others in their places.
    pub fn with_scalars(&self, values: &[(&Node<'_>, Cow<'_, str>)]) -> Option<Vec<Edit>> {
        let mut lines: BTreeMap<usize, BTreeMap<_, _>> = BTreeMap::new();
        for (node, with) in values {
            let Range { start, end } = self.place(node)?;
            lines.entry(node.place.line as usize).or_default().insert(start, (end, with));
        }
        let mut out = vec![];
        for (n, values) in lines {
            let (line, mut text, mut at) = (self.line(n), String::new(), 0);
            for (start, (end, with)) in values {
                text.push_str(line.get(at..start)?);
                text.push_str(with);
                at = end;
            }
            text.push_str(line.get(at..)?);
            text.push('\n');
            out.push(Edit { from: n, to: n + 1, text });
        }
        Some(out)
    }

    /// Lines that stand `from` spaces deep, to stand `to` deep; the first behind `head`, where there is one.
    pub fn taken(
        &self,
        lines: &[(usize, usize)],
        from: usize,
        to: usize,
        head: Option<&str>,
    ) -> Option<String> {
        let mut out = String::new();
        for n in lines.iter().flat_map(|(a, b)| *a..*b) {
            match (head, self.is_blank(n)) {
                (Some(head), _) if out.is_empty() => out.push_str(head),
                (_, true) => {}
                _ => out.extend(std::iter::repeat_n(' ', to)),
            }
            let line = self.line(n);
            if !self.is_blank(n) {
                let (indent, rest) = line.split_at_checked(from)?;
                // Behind a dash the first one has no spaces in front.
                let first = out.len() <= to && head.is_some();
                if !first && indent.bytes().any(|b| b != b' ') {
                    return None;
                }
                out.push_str(rest);
            }
            out.push('\n');
        }
        Some(out)
    }

    /// Lines as they are, of which the last one ends.
    fn lines(&self, from: usize, to: usize) -> Cow<'t, str> {
        let text = self.raw(from, to);
        match text.is_empty() || text.ends_with('\n') {
            true => text.into(),
            false => format!("{text}\n").into(),
        }
    }

    /// Some lines with edits.
    pub fn edited(&self, from: usize, to: usize, mut edits: Vec<Edit>) -> Option<String> {
        edits.sort_by_key(|e| (e.from, e.to != e.from));
        let unix = !self.text.contains("\r\n");
        let grows: usize = edits.iter().map(|e| e.text.len()).sum();
        let mut out = String::with_capacity(self.raw(from, to).len() + grows + 1);
        let mut at = from;
        for edit in &edits {
            if edit.from < at || edit.to < edit.from || edit.to > to {
                return None;
            }
            // Only what something stands behind must end.
            out.push_str(&self.lines(at, edit.from));
            match unix {
                true => out.push_str(&edit.text),
                false => out.push_str(&edit.text.replace("\r\n", "\n").replace('\n', "\r\n")),
            }
            at = edit.to;
        }
        out.push_str(self.raw(at, to));
        Some(out)
    }
}

/// The byte at which a character begins, or the end.
fn byte(line: &str, character: usize) -> Option<usize> {
    if line.is_ascii() {
        return (character <= line.len()).then_some(character);
    }
    line.char_indices().map(|(n, _)| n).chain([line.len()]).nth(character)
}
