//! The text of a document, edited so that it says something else.
//!
//! [`rewrite`] compares two texts as trees and moves no more of the old one than differs: what is the same stays byte for byte, with
//! comments and blank lines; a value is replaced where it stands; what is gone goes with the comment lines directly above it; what is
//! new comes behind what it stands behind in the new text. It knows lines and indents, not what they mean: who calls it reads the
//! result back, as there are texts (aliases, block scalars) of which it does not know enough.

mod compare;
mod lines;
#[cfg(test)]
mod tests;

use super::runs;
use super::tree::{Node, Value};
use compare::{Item, hash, items, name, pairs_of, prefix, same, score};
use ipnet::IpNet;
use lines::{Edit, Text};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound::{Included, Unbounded};

/// Items of a list that are compared each with each, to find what has become of one.
const COMPARED: usize = 40_000;
/// The deepest place at which a name stands for an object: `l3.interfaces.eth0`.
const NAMES: usize = 3;
/// The section whose items are named by their prefixes.
const ROUTES: &str = "routes";

/// What may differ between two texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Everything.
    pub all: bool,
    /// What stands at these places, and below.
    pub places: BTreeSet<Vec<String>>,
    /// What stands below these names, wherever they are.
    pub names: HashSet<String>,
    /// Routes of these prefixes.
    pub prefixes: HashSet<IpNet>,
    /// Fields that are gone where the new text has them not; others may only have their default.
    pub gone: HashSet<String>,
    /// Places that need not be written where they were not.
    pub unsaid: HashSet<Vec<String>>,
    /// The new text is to the letter what is wanted.
    pub exact: bool,
    /// Fields of mappings are put in the order of the new text.
    pub ordered: bool,
    /// Sections in which something differs are taken whole.
    pub sections: bool,
}

/// How much of a place may differ.
#[derive(Clone, Copy, PartialEq)]
enum Touch {
    All,
    Below,
    None,
}

impl Scope {
    fn of(&self, path: &[String]) -> Touch {
        let named = || path.iter().take(NAMES).any(|n| self.names.contains(n));
        let above = || (1..=path.len()).any(|n| path.get(..n).is_some_and(|p| self.places.contains(p)));
        let route = !self.prefixes.is_empty() && matches!(path, [first, _, ..] if first == ROUTES);
        if self.all || above() || named() || route {
            return Touch::All;
        }
        let next = self.places.range::<[String], _>((Included(path), Unbounded)).next();
        let routes = matches!(path, [only] if only == ROUTES) && !self.prefixes.is_empty();
        let names = path.len() < NAMES && !self.names.is_empty();
        if path.is_empty() || routes || names || next.is_some_and(|p| p.starts_with(path)) {
            return Touch::Below;
        }
        Touch::None
    }
}

/// The text is of a kind that is not edited here.
#[derive(Debug)]
struct Cannot;

/// The old text, changed as far as [`Scope`] says it may differ; `None` where that cannot be.
pub(crate) fn rewrite(old: &str, new: &str, scope: &Scope) -> Option<String> {
    let (short_old, short_new) = (runs::shorten(old), runs::shorten(new));
    let is = runs::parse(old, short_old.as_ref()).ok()?;
    let wants = runs::parse(new, short_new.as_ref()).ok()?;
    let (old, new) = (Text::of(old)?, Text::of(new)?);
    let mut editor = Editor { old, new, scope, edits: vec![], path: vec![] };
    match (is.as_ref().filter(|n| !n.is_null()), wants.as_ref().filter(|n| !n.is_null())) {
        (None, None) => return Some(editor.old.all().to_owned()),
        // Comments alone: they stay in front.
        (None, Some(_)) => {
            let end = if editor.old.all().is_empty() || editor.old.all().ends_with('\n') { "" } else { "\n" };
            return Some(format!("{}{end}{}", editor.old.all(), editor.new.all()));
        }
        (Some(_), None) => return None,
        (Some(is), Some(wants)) => {
            let (a, b) = (pairs_of(is)?, pairs_of(wants)?);
            let end = editor.old.count() + 1;
            let left = editor.map(a, b, end).ok()?;
            if left == 0 {
                return None;
            }
        }
    }
    let end = editor.old.count() + 1;
    editor.old.edited(1, end, editor.edits)
}

/// An entry of a mapping or list of the old text.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Where the comments begin that belong to it.
    lead: usize,
    /// Its first line.
    first: usize,
    /// Behind its last line, and comments within it.
    end: usize,
}

struct Editor<'t, 's> {
    old: Text<'t>,
    new: Text<'t>,
    scope: &'s Scope,
    edits: Vec<Edit>,
    path: Vec<String>,
}

type Pair<'n> = (Node<'n>, Node<'n>);

impl<'t> Editor<'t, '_> {
    fn within<R>(&mut self, name: &str, act: impl FnOnce(&mut Self) -> R) -> R {
        self.path.push(name.to_owned());
        let done = act(self);
        self.path.pop();
        done
    }

    /// Does something, and takes its edits back where it cannot be done.
    fn attempt(&mut self, act: impl FnOnce(&mut Self) -> Result<usize, Cannot>) -> Result<usize, Cannot> {
        let before = self.edits.len();
        let done = act(self);
        if !matches!(done, Ok(left) if left != 0) {
            self.edits.truncate(before);
        }
        done
    }

    /// Brings a mapping to another; how many entries it has then. `end` is the line behind it.
    fn map(&mut self, old: &[Pair<'t>], new: &[Pair<'t>], end: usize) -> Result<usize, Cannot> {
        let spans = spans(&self.old, old.iter().map(|(k, _)| k.place), end)?;
        let column = old.first().map_or(1, |(k, _)| k.place.column as usize);
        // Within `{}`: no line can be put between.
        let before = old.first().and_then(|(k, _)| self.old.before(k.place));
        let in_line = before.is_some_and(|b| !b.bytes().all(|b| b == b' ' || b == b'-'));
        let wanted: HashMap<&str, &Pair<'t>> = new.iter().filter_map(|p| Some((name(&p.0)?, p))).collect();
        let mut known: HashMap<&str, usize> = HashMap::with_capacity(old.len());
        let mut left = 0;
        // What becomes of each, and what is edited within it.
        let mut becomes: Vec<Option<usize>> = vec![None; old.len()];
        let mut within: Vec<Vec<Edit>> = Vec::with_capacity(old.len());
        let places: HashMap<&str, usize> =
            new.iter().enumerate().filter_map(|(n, p)| Some((name(&p.0)?, n))).collect();
        for (n, ((key, value), span)) in old.iter().zip(&spans).enumerate() {
            let text = name(key).ok_or(Cannot)?;
            if known.insert(text, n).is_some() {
                return Err(Cannot);
            }
            let bound = spans.get(n + 1).map_or(end, |s| s.lead);
            let found = wanted.get(text).copied();
            let before = self.edits.len();
            let kept = self.within(text, |e| e.entry((key, value), found, *span, bound))?;
            within.push(self.edits.split_off(before));
            left += usize::from(kept);
            if let Some(slot) = becomes.get_mut(n).filter(|_| kept) {
                *slot = places.get(text).copied();
            }
        }
        let ordered = self.scope.ordered && self.scope.of(&self.path) == Touch::All;
        let in_order = if ordered { longest(&becomes) } else { HashSet::new() };
        let stays = |n: &usize| !ordered || in_order.contains(n) || becomes.get(*n) == Some(&None);
        let mut moved: HashMap<&str, String> = HashMap::new();
        for (n, (edits, span)) in within.into_iter().zip(&spans).enumerate() {
            if stays(&n) {
                self.edits.extend(edits);
                continue;
            }
            let key = old.get(n).map(|(key, _)| key).ok_or(Cannot)?;
            if !self.old.begins_at(key.place) {
                return Err(Cannot);
            }
            let mut text = self.old.edited(span.lead, span.end, edits).ok_or(Cannot)?;
            text.push_str(if text.ends_with('\n') { "" } else { "\n" });
            moved.insert(name(key).ok_or(Cannot)?, text);
            self.edits.push(Edit { from: span.lead, to: span.end, text: String::new() });
        }
        // In front of what stands behind a dash there is no line.
        let begins = old.first().is_none_or(|(key, _)| self.old.begins_at(key.place));
        let mut after = None;
        for pair in new {
            let text = name(&pair.0).ok_or(Cannot)?;
            if let Some(n) = known.get(text).filter(|n| stays(n)) {
                after = Some(*n);
                continue;
            }
            let text = match moved.remove(text) {
                Some(text) => text,
                None => {
                    let mut path = self.path.clone();
                    path.push(text.to_owned());
                    let Some(lines) = self.picked(&mut path, pair) else { continue };
                    if in_line {
                        return Err(Cannot);
                    }
                    left += 1;
                    let indent = column.saturating_sub(1);
                    let from = pair.0.place.column as usize - 1;
                    self.new.taken(&lines, from, indent, None).ok_or(Cannot)?
                }
            };
            if after.is_none() && self.scope.ordered && !begins {
                return Err(Cannot);
            }
            let at = place_behind(&spans, after, self.scope.ordered).ok_or(Cannot)?;
            self.edits.push(Edit { from: at, to: at, text });
        }
        Ok(left)
    }

    /// One field of a mapping; whether it is still there.
    fn entry(
        &mut self,
        (key, value): (&Node<'t>, &Node<'t>),
        wanted: Option<&Pair<'t>>,
        span: Span,
        bound: usize,
    ) -> Result<bool, Cannot> {
        let touch = self.scope.of(&self.path);
        if touch == Touch::None {
            return Ok(true);
        }
        let whole = self.scope.sections && self.path.len() == 1;
        let Some(pair) = wanted else {
            if touch == Touch::Below && !whole {
                let done = match &value.value {
                    Value::Map(pairs) => self.attempt(|e| e.map(pairs, &[], bound)),
                    Value::List(list) if self.path == [ROUTES] => self.attempt(|e| e.list(list, &[], bound)),
                    _ => return Ok(true),
                };
                return match done {
                    Ok(0) => self.remove(span, key),
                    Ok(_) => Ok(true),
                    Err(e) => Err(e),
                };
            }
            return match self.may_be_default(key, value) && !whole {
                true => Ok(true),
                false => self.remove(span, key),
            };
        };
        if same(value, &pair.1, !self.scope.exact) {
            return Ok(true);
        }
        let done = match (&value.value, &pair.1.value) {
            _ if whole => Err(Cannot),
            (Value::Map(a), Value::Map(b)) if !a.is_empty() && !b.is_empty() => {
                let by_lines = self.attempt(|e| e.map(a, b, bound));
                by_lines.or_else(|Cannot| self.in_place(value, &pair.1))
            }
            (Value::List(a), Value::List(b)) if !a.is_empty() && !b.is_empty() => {
                if touch == Touch::Below && self.path != [ROUTES] {
                    return Ok(true);
                }
                self.attempt(|e| e.list(a, b, bound))
            }
            (Value::Scalar { .. }, Value::Scalar { .. }) if touch == Touch::All => {
                self.attempt(|e| e.scalar(value, &pair.1))
            }
            (_, Value::Map(_)) if touch == Touch::Below => {
                // There was nothing: what is new comes with its name.
                let mut path = self.path.clone();
                let Some(lines) = self.picked(&mut path, pair) else { return Ok(true) };
                return self.replace(key, &pair.0, &lines, span).map(|()| true);
            }
            _ if touch == Touch::Below && self.path != [ROUTES] => return Ok(true),
            _ => Err(Cannot),
        };
        match done {
            Ok(0) => self.remove(span, key),
            Ok(_) => Ok(true),
            Err(Cannot) => {
                let first = pair.0.place.line as usize;
                let end = self.new.content_end(first, self.new.end_of_block(pair.0.place));
                self.replace(key, &pair.0, &[(first, end)], span).map(|()| true)
            }
        }
    }

    /// Whether a field that the new text has not may stay, as it may have its default.
    fn may_be_default(&self, key: &Node<'_>, value: &Node<'_>) -> bool {
        let text = name(key).unwrap_or_default();
        let gone = self.scope.gone.contains(text) || self.scope.places.contains(&self.path);
        let default = match &value.value {
            Value::Scalar { .. } => true,
            Value::List(list) => list.iter().all(|i| matches!(i.value, Value::Scalar { .. })),
            _ => false,
        };
        default && !self.scope.exact && !gone
    }

    fn remove(&mut self, span: Span, key: &Node<'_>) -> Result<bool, Cannot> {
        // What stands behind a dash cannot go without the dash.
        if !self.old.begins_at(key.place) {
            return Err(Cannot);
        }
        // What a file begins with is about the file.
        let from = if span.lead == 1 && self.path.len() == 1 { span.first } else { span.lead };
        self.edits.push(Edit { from, to: span.end, text: String::new() });
        Ok(false)
    }

    /// Puts an entry of the new text in the place of one of the old.
    fn replace(
        &mut self,
        old: &Node<'_>,
        new: &Node<'_>,
        lines: &[(usize, usize)],
        span: Span,
    ) -> Result<(), Cannot> {
        let head = self.old.before(old.place).ok_or(Cannot)?;
        let indent = (old.place.column as usize).saturating_sub(1);
        let mut text =
            self.new.taken(lines, new.place.column as usize - 1, indent, Some(head)).ok_or(Cannot)?;
        if let Some(comment) = self.old.comment(span.first) {
            let at = text.find('\n').unwrap_or(text.len());
            text.insert_str(at, comment);
        }
        self.edits.push(Edit { from: span.first, to: span.end, text });
        Ok(())
    }

    /// A value where it stands.
    fn scalar(&mut self, old: &Node<'_>, new: &Node<'_>) -> Result<usize, Cannot> {
        let with = self.new.scalar(new).ok_or(Cannot)?;
        self.edits.extend(self.old.with_scalars(&[(old, with.into())]).ok_or(Cannot)?);
        Ok(1)
    }

    /// The values of a mapping that stands in one line, each where it is: no field can come or go.
    fn in_place(&mut self, old: &Node<'t>, new: &Node<'t>) -> Result<usize, Cannot> {
        let mut values = vec![];
        self.values(old, new, &mut values)?;
        self.edits.extend(self.old.with_scalars(&values).ok_or(Cannot)?);
        Ok(1)
    }

    /// The values below one that become others, with what is to stand in their places.
    fn values<'n>(
        &mut self,
        old: &'n Node<'t>,
        new: &'n Node<'t>,
        to: &mut Vec<(&'n Node<'t>, Cow<'n, str>)>,
    ) -> Result<(), Cannot> {
        let touch = self.scope.of(&self.path);
        if touch == Touch::None || same(old, new, !self.scope.exact) {
            return Ok(());
        }
        match (&old.value, &new.value) {
            (Value::Map(a), Value::Map(b)) => {
                let at =
                    |key: &Node<'_>| b.iter().position(|(k, _)| name(k).is_some() && name(k) == name(key));
                let in_order = a.iter().filter_map(|(k, _)| at(k)).is_sorted();
                if self.scope.ordered && touch == Touch::All && !in_order {
                    return Err(Cannot);
                }
                for (key, value) in a {
                    let wanted = at(key).and_then(|n| b.get(n));
                    self.within(name(key).ok_or(Cannot)?, |e| match (wanted, e.scope.of(&e.path)) {
                        (Some((_, wanted)), _) => e.values(value, wanted, to),
                        (None, Touch::All) if !e.may_be_default(key, value) => Err(Cannot),
                        (None, Touch::Below) if !matches!(value.value, Value::Scalar { .. }) => Err(Cannot),
                        (None, _) => Ok(()),
                    })?;
                }
                for pair in b.iter().filter(|(key, _)| a.iter().all(|(k, _)| name(k) != name(key))) {
                    let mut path = self.path.clone();
                    path.push(name(&pair.0).ok_or(Cannot)?.to_owned());
                    if self.picked(&mut path, pair).is_some() {
                        return Err(Cannot);
                    }
                }
                Ok(())
            }
            (Value::List(a), Value::List(b)) if a.len() == b.len() && touch == Touch::All => {
                a.iter().zip(b).try_for_each(|(a, b)| self.values(a, b, to))
            }
            (Value::Scalar { .. }, Value::Scalar { text, plain }) if touch == Touch::All => {
                // Some texts must be quoted between braces alone.
                let with = match *plain && text.contains([',', ':', '[', ']', '{', '}']) {
                    true => crate::written::in_line(text).into(),
                    false => self.new.scalar(new).ok_or(Cannot)?.into(),
                };
                to.push((old, with));
                Ok(())
            }
            _ => Err(Cannot),
        }
    }

    /// The lines of what is new at a place, as far as it may differ.
    fn picked(&self, path: &mut Vec<String>, pair: &Pair<'t>) -> Option<Vec<(usize, usize)>> {
        let first = pair.0.place.line as usize;
        let whole = || vec![(first, self.new.content_end(first, self.new.end_of_block(pair.0.place)))];
        match self.scope.of(path) {
            Touch::None => None,
            Touch::All if self.scope.unsaid.contains(path) && !self.scope.exact => None,
            Touch::All => Some(whole()),
            Touch::Below if self.scope.sections && path.len() == 1 => Some(whole()),
            Touch::Below => match &pair.1.value {
                Value::Map(pairs) => {
                    let mut lines = vec![(first, first + 1)];
                    for below in pairs {
                        path.push(name(&below.0)?.to_owned());
                        lines.extend(self.picked(path, below).unwrap_or_default());
                        path.pop();
                    }
                    (lines.len() > 1).then_some(lines)
                }
                Value::List(_) if path[..] == [ROUTES] => Some(whole()),
                _ => None,
            },
        }
    }

    /// Brings a list to another; how many items it has then.
    fn list(&mut self, old: &[Node<'t>], new: &[Node<'t>], end: usize) -> Result<usize, Cannot> {
        let (old, new) = (items(old), items(new));
        let routes = self.path == [ROUTES] && self.scope.of(&self.path) == Touch::Below;
        let touched = |item: &Item<'_, '_>| {
            !routes || prefix(item).is_some_and(|net| self.scope.prefixes.contains(&net))
        };
        let spans = spans(&self.old, old.iter().map(Item::place), end)?;
        // The dash stands on a line before it.
        let apart = |text: &Text<'_>, i: &Item<'_, '_>| matches!(i, Item::Node(n) if text.begins_at(n.place));
        if old.iter().any(|i| apart(&self.old, i)) || new.iter().any(|i| apart(&self.new, i)) {
            return Err(Cannot);
        }
        if spans.iter().any(|s| !self.old.is_item(s.first)) {
            return Err(Cannot);
        }
        let lenient = !self.scope.exact;
        let mut fits: HashMap<u64, VecDeque<usize>> = HashMap::new();
        for (n, item) in new.iter().enumerate().filter(|(_, i)| touched(i)) {
            fits.entry(hash(item, lenient)).or_default().push_back(n);
        }
        // The new item that each of the old has become, and the other way round.
        let mut becomes: Vec<Option<usize>> = vec![None; old.len()];
        let mut was: HashMap<usize, usize> = HashMap::new();
        let (mut loose, mut free) = (vec![], vec![]);
        for (n, item) in old.iter().enumerate().filter(|(_, i)| touched(i)) {
            let found = fits.get_mut(&hash(item, lenient)).and_then(VecDeque::pop_front);
            match found {
                Some(m) => {
                    was.insert(m, n);
                    if let Some(slot) = becomes.get_mut(n) {
                        *slot = Some(m);
                    }
                }
                None => loose.push(n),
            }
        }
        free.extend(fits.into_values().flatten());
        free.sort_unstable();
        let mut changed: HashMap<usize, usize> = HashMap::new();
        // What is about a prefix becomes what the first of that prefix is now; the rest is compared each with each.
        let mut about: HashMap<IpNet, VecDeque<usize>> = HashMap::new();
        for m in &free {
            if let Some(net) = new.get(*m).and_then(prefix) {
                about.entry(net).or_default().push_back(*m);
            }
        }
        loose.retain(|n| {
            let net = old.get(*n).and_then(prefix);
            let found = net.and_then(|net| about.get_mut(&net)?.pop_front());
            if let Some(m) = found {
                was.insert(m, *n);
                changed.insert(*n, m);
            }
            found.is_none()
        });
        free.retain(|m| !was.contains_key(m));
        if loose.len() * free.len() <= COMPARED {
            for n in &loose {
                let best = |m: &&usize| old.get(*n).zip(new.get(**m)).map_or(0, |(a, b)| score(a, b));
                let rest = free.iter().filter(|m| !was.contains_key(m));
                let Some(m) = rest.max_by_key(|m| (best(m), std::cmp::Reverse(**m))).copied() else { break };
                if best(&&m) != 0 {
                    was.insert(m, *n);
                    changed.insert(*n, m);
                }
            }
        }
        for (n, m) in &changed {
            if let Some(slot) = becomes.get_mut(*n) {
                *slot = Some(*m);
            }
        }
        // Items whose order is another are moved.
        let in_order: HashSet<usize> = match routes {
            true => HashSet::new(),
            false => longest(&becomes),
        };
        let stays = |n: &usize| routes || in_order.contains(n);
        let mut left = 0;
        let mut moved: HashMap<usize, String> = HashMap::new();
        for (n, (item, span)) in old.iter().zip(&spans).enumerate() {
            let bound = spans.get(n + 1).map_or(end, |s| s.lead);
            let new_item = becomes.get(n).copied().flatten();
            match new_item {
                None if !touched(item) => left += 1,
                None => self.edits.push(Edit { from: span.lead, to: span.end, text: String::new() }),
                Some(m) if !stays(&n) => {
                    if !changed.contains_key(&n) {
                        let mut text = self.old.edited(span.lead, span.end, vec![]).ok_or(Cannot)?;
                        text.push_str(if text.ends_with('\n') { "" } else { "\n" });
                        moved.insert(m, text);
                    }
                    self.edits.push(Edit { from: span.lead, to: span.end, text: String::new() });
                }
                Some(m) => {
                    left += 1;
                    if let (true, Some(wants)) = (changed.contains_key(&n), new.get(m)) {
                        self.item(item, wants, *span, bound)?;
                    }
                }
            }
        }
        let indent = spans.first().map_or(0, |s| self.old.indent(s.first));
        let mut after = None;
        for (m, item) in new.iter().enumerate() {
            if !touched(item) {
                continue;
            }
            if let Some(n) = was.get(&m).filter(|n| stays(n)) {
                after = Some(*n);
                continue;
            }
            let text = match moved.remove(&m) {
                Some(text) => text,
                None => {
                    let first = item.place().line as usize;
                    let lines = [(first, self.new.item_end(first))];
                    self.new.taken(&lines, self.new.indent(first), indent, None).ok_or(Cannot)?
                }
            };
            let behind = if routes { spans.len().checked_sub(1) } else { after };
            let at = place_behind(&spans, behind, true).ok_or(Cannot)?;
            self.edits.push(Edit { from: at, to: at, text });
            left += 1;
        }
        Ok(left)
    }

    /// An item that has become another.
    fn item(
        &mut self,
        old: &Item<'_, 't>,
        new: &Item<'_, 't>,
        span: Span,
        bound: usize,
    ) -> Result<(), Cannot> {
        let done = match (old, new) {
            (Item::Node(a), Item::Node(b)) => match (&a.value, &b.value) {
                (Value::Map(x), Value::Map(y)) => self
                    .attempt(|e| e.within("", |e| e.map(x, y, bound)))
                    .or_else(|Cannot| self.within("", |e| e.in_place(a, b))),
                (Value::Scalar { .. }, Value::Scalar { .. }) => self.attempt(|e| e.scalar(a, b)),
                _ => Err(Cannot),
            },
            (Item::Node(a), Item::Line(_, text)) if matches!(a.value, Value::Scalar { .. }) => {
                let edits = self.old.with_scalars(&[(a, (*text).into())]);
                edits.map(|edits| self.edits.extend(edits)).map(|()| 1).ok_or(Cannot)
            }
            _ => Err(Cannot),
        };
        if matches!(done, Ok(left) if left != 0) {
            return Ok(());
        }
        let first = new.place().line as usize;
        let indent = self.old.indent(span.first);
        let lines = [(first, self.new.item_end(first))];
        let text = self.new.taken(&lines, self.new.indent(first), indent, None).ok_or(Cannot)?;
        self.edits.push(Edit { from: span.first, to: span.end, text });
        Ok(())
    }
}

/// The lines of entries that begin at these places and end in front of a line. Each begins a line of its own.
fn spans(
    text: &Text<'_>,
    places: impl Iterator<Item = super::Place>,
    end: usize,
) -> Result<Vec<Span>, Cannot> {
    let places: Vec<super::Place> = places.collect();
    let mut out: Vec<Span> = Vec::with_capacity(places.len());
    for (n, place) in places.iter().enumerate() {
        let first = place.line as usize;
        let next = places.get(n + 1).map_or(end, |p| p.line as usize);
        let previous = out.last().map_or(0, |s| s.end);
        // The first field of an item stands behind its dash.
        let fits = n == 0 || text.begins_at(*place) || text.is_item(first);
        if next <= first || place.column != places.first().map_or(0, |p| p.column) || !fits {
            return Err(Cannot);
        }
        let indent = text.indent(first);
        let behind = text.inner_end(first, next, indent);
        out.push(Span { lead: text.lead(first, previous.max(1), indent), first, end: behind });
    }
    Ok(out)
}

/// Where what comes behind an entry is put. What stands first comes in front where the order counts, and else at the end.
fn place_behind(spans: &[Span], after: Option<usize>, front: bool) -> Option<usize> {
    match after {
        Some(n) => spans.get(n).map(|s| s.end),
        None if front => spans.first().map(|s| s.lead),
        None => spans.last().map(|s| s.end),
    }
}

/// The positions of a longest run of items that stand in order already.
fn longest(becomes: &[Option<usize>]) -> HashSet<usize> {
    // Ends of the best runs by their length, and what each item stands behind.
    let mut ends: Vec<(usize, usize)> = vec![];
    let mut before: HashMap<usize, usize> = HashMap::new();
    for (n, m) in becomes.iter().enumerate().filter_map(|(n, m)| Some((n, (*m)?))) {
        let at = ends.partition_point(|(end, _)| *end < m);
        if let Some((_, last)) = at.checked_sub(1).and_then(|i| ends.get(i)) {
            before.insert(n, *last);
        }
        match ends.get_mut(at) {
            Some(end) => *end = (m, n),
            None => ends.push((m, n)),
        }
    }
    let mut out = HashSet::new();
    let mut at = ends.last().map(|(_, n)| *n);
    while let Some(n) = at {
        out.insert(n);
        at = before.get(&n).copied();
    }
    out
}
