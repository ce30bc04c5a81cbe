//! The text under which something is kept: that of the document before, as far as it says the same.

use super::desired::{From, Wanted};
use crate::engine::{self, Side};
use crate::yaml::rewrite::{Scope, rewrite};
use std::collections::HashSet;

/// Texts that are longer are edited in two ways at most: each takes as long as it takes to load them.
const LONG: usize = 4 << 20;

/// Bytes that editing takes for each byte of both texts, about.
const GROWTH: usize = 12;

/// What is told where a text could not be edited.
pub(super) const ANEW: &str =
    "it was written anew: comments and order of the document before stay with that one in the history";
/// The same where it was, in some sections.
const SECTIONS: &str = "sections that differ were written anew, without the comments within them";

/// The text of a document before, edited to say what `new` says, which becomes the objects `target`; and what is to be told of it.
/// `None`: it cannot be edited. Every edited text is read back, and counts only when it becomes the same objects. Takes as long as
/// loading the document some times: not for the control thread.
pub(super) fn edited(last: &Wanted, new: &str, target: &Side) -> Option<(String, Option<&'static str>)> {
    // Both texts are there as trees, with what was edited, and that is loaded.
    graph::memory::check(GROWTH * (last.text.get().len() + new.len())).ok()?;
    let settings = settings_of(new)?;
    let plan = engine::plan(&last.side, target).ok()?;
    let same_settings = last.settings == settings;
    if plan.is_empty() && same_settings {
        return Some((last.text.get().to_owned(), None));
    }
    let differing = plan.differing([&last.side, target]);
    drop(plan);
    let mut places = differing.places;
    if !same_settings {
        places.insert(vec!["quiver".into()]);
    }
    let unsaid = differing.names.iter().filter(|name| !target.has_mac(name));
    let unsaid: HashSet<Vec<String>> = unsaid
        .flat_map(|name| {
            ["interfaces", "loopbacks", "taps"].map(|s| vec![s.to_owned(), name.clone(), "mac".into()])
        })
        .collect();
    let (names, prefixes, gone) = (differing.names, differing.prefixes, differing.gone);
    let gently = Scope { places, names, prefixes, gone, unsaid, ..Scope::default() };
    let exactly = Scope { exact: true, ..gently.clone() };
    let mut in_order = Scope { ordered: true, ..exactly.clone() };
    if differing.order {
        in_order.places.insert(vec!["interfaces".into()]);
    }
    let by_sections = Scope { sections: true, ..in_order.clone() };
    let ways = [(gently, None), (exactly, None), (in_order, None), (by_sections, Some(SECTIONS))];
    let long = last.text.get().len().max(new.len()) > LONG;
    // The gentlest way, and that which finds an end where others do not.
    let tried = ways.into_iter().enumerate().filter(|(n, _)| !long || matches!(n, 0 | 3));
    tried.map(|(_, way)| way).find_map(|(scope, told)| {
        let text = rewrite(last.text.get(), new, &scope)?;
        says(&text, target, last, new).then_some((text, told))
    })
}

/// Whether a text becomes these objects, and has the settings of the new one.
fn says(text: &str, target: &Side, last: &Wanted, new: &str) -> bool {
    let Ok(mut wanted) = Wanted::read(text.as_bytes().to_vec()) else { return false };
    wanted.side.forget_macs_unlike(target);
    let settings = settings_of(new).unwrap_or_else(|| last.settings.clone());
    wanted.settings == settings && engine::plan(&wanted.side, target).is_ok_and(|p| p.is_empty())
}

/// The settings of a text as a dump writes it.
fn settings_of(text: &str) -> Option<crate::yaml::Settings> {
    let from = match text.starts_with("quiver:") {
        true => 0,
        false => text.find("\nquiver:").map_or(text.len(), |at| at + 1),
    };
    let section = text.get(from..)?;
    let lines = section.split_inclusive('\n').enumerate();
    let end: usize =
        lines.take_while(|(n, l)| *n == 0 || l.starts_with([' ', '#'])).map(|(_, l)| l.len()).sum();
    Wanted::read(section.get(..end)?.as_bytes().to_vec()).ok().map(|w| w.settings)
}

/// What is told of a text that could not be edited: nothing where no comment is lost.
pub(super) fn anew(last: &Wanted) -> Option<&'static str> {
    last.text.get().lines().any(|l| l.trim_start().starts_with('#') || l.contains(" #")).then_some(ANEW)
}

/// The text with which changes of places are kept: that of the last document of the history, edited.
pub(super) fn of_changes(
    folder: &std::sync::Arc<crate::saved::Folder>,
    new: &str,
    target: &Side,
) -> (Option<String>, Option<&'static str>) {
    let number = folder.numbers().ok().and_then(|all| all.first().copied());
    match number.map(|n| From::Kept(std::sync::Arc::clone(folder), n).load()) {
        None => (None, None),
        // There is one, of which nothing can be kept.
        Some(Err(_)) => (None, Some(ANEW)),
        Some(Ok(last)) => match edited(&last, new, target) {
            Some((text, told)) => (Some(text), told),
            None => (None, anew(&last)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "\
# The router of the lab.
loopbacks:
  # for the sessions
  loop0:
    mtu: 1500             # as everywhere
    addresses: [10.0.0.1/24]  # one alone
    description: \"old\"    # to be named
  loop1: {mtu: 9000}   # spare

l3:
  interfaces:
    # two more
    loop0: {mtu: {ip4: 1400}}
routes:
  # the way out
  - 0.0.0.0/0 via 10.0.0.2   # for now
  - prefix: 10.1.0.0/16
    via: 10.0.0.3
";

    fn wanted(text: &str) -> Wanted {
        Wanted::read(text.as_bytes().to_vec()).unwrap_or_else(|e| panic!("{text}\n{}", e.message))
    }

    /// Edits a text, by what a router writes that runs the document `new`.
    fn edit(old: &str, new: &str) -> (String, Option<&'static str>) {
        let target = wanted(new).side;
        let (text, told) = edited(&wanted(old), new, &target).unwrap();
        let left = engine::plan(&wanted(&text).side, &target).unwrap();
        assert!(left.is_empty(), "{text}\n{left:?}");
        (text, told)
    }

    /// The same document as a dump has it.
    const DUMP: &str = "\
loopbacks:
  loop0:
    addresses:
      - 10.0.0.1/24
    description: old
  loop1:
    mtu: 9000
l3:
  interfaces:
    loop0:
      mtu:
        ip4: 1400
routes:
  - 0.0.0.0/0 via 10.0.0.2
  - 10.1.0.0/16 via 10.0.0.3
";

    #[test]
    fn only_what_differs_is_edited() {
        assert_eq!(edit(OLD, DUMP), (OLD.to_owned(), None));
        for (what, with, was, is) in [
            ("description: old", "description: new", "\"old\"    # to", "new    # to"),
            ("    description: old\n", "", "    description: \"old\"    # to be named\n", ""),
            ("mtu: 9000", "mtu: 1600", "  loop1: {mtu: 9000}   # spare", "  loop1: {mtu: 1600}   # spare"),
            ("  loop1:\n    mtu: 9000\n", "", "  loop1: {mtu: 9000}   # spare\n", ""),
            ("via 10.0.0.2", "via 10.0.0.4", "via 10.0.0.2   # for", "via 10.0.0.4   # for"),
            ("  - 10.1.0.0/16 via 10.0.0.3\n", "", "  - prefix: 10.1.0.0/16\n    via: 10.0.0.3\n", ""),
            (
                "  - 10.1.0.0/16",
                "  - 10.2.0.0/16 drop\n  - 10.1.0.0/16",
                "    via: 10.0.0.3\n",
                "    via: 10.0.0.3\n  - 10.2.0.0/16 drop\n",
            ),
            (
                "    mtu: 9000\n",
                "    mtu: 9000\n  loop2:\n    mtu: 1400\n",
                "# spare\n",
                "# spare\n  loop2:\n    mtu: 1400\n",
            ),
            (
                "l3:\n  interfaces:\n    loop0:\n      mtu:\n        ip4: 1400\n",
                "",
                "l3:\n  interfaces:\n    # two more\n    loop0: {mtu: {ip4: 1400}}\n",
                "",
            ),
        ] {
            assert!(DUMP.contains(what) && OLD.contains(was), "{what} {was}");
            let (text, told) = edit(OLD, &DUMP.replace(what, with));
            assert_eq!((text, told), (OLD.replace(was, is), None), "{what} -> {with}");
        }
    }

    #[test]
    fn values_in_one_line_are_edited_where_they_stand() {
        let old = "\
quiver: {workers: 1, state: /tmp/state, sockets: {ctl: /tmp/ctl}}  # one alone
loopbacks:
  loop0: {mtu: 9000, description: \"old\", addresses: [10.0.0.1/24, \"2001:db8::1/64\"]}  # ticket 7
  loop1: {mtu: 1500, description: other}
";
        let dump = "\
quiver:
  sockets:
    ctl: /tmp/ctl
  state: /tmp/state
loopbacks:
  loop0:
    description: old
    mtu: 9000
    addresses: [10.0.0.1/24, \"2001:db8::1/64\"]
  loop1:
    description: other
";
        assert_eq!(edit(old, dump), (old.to_owned(), None));
        for (what, with, was, is) in [
            ("description: old", "description: new name", "\"old\"", "new name"),
            ("mtu: 9000", "mtu: 1600", "mtu: 9000", "mtu: 1600"),
            ("10.0.0.1/24", "10.0.0.2/24", "10.0.0.1/24", "10.0.0.2/24"),
            ("\"2001:db8::1/64\"", "\"2001:db8::2/64\"", "\"2001:db8::1/64\"", "\"2001:db8::2/64\""),
            ("description: other", "description: \"a: b\"", "other", "\"a: b\""),
            ("  state: /tmp/state", "  state: /tmp/other", "/tmp/state", "/tmp/other"),
        ] {
            let (text, told) = edit(old, &dump.replace(what, with));
            assert_eq!((text, told), (old.replace(was, is), None), "{what} -> {with}");
        }
    }

    #[test]
    fn what_cannot_be_edited_is_refused() {
        let target = wanted("loopbacks:\n  loop0:\n    mtu: 1400\n").side;
        let new = "loopbacks:\n  loop0:\n    mtu: 1400\n";
        // Its last line has more than the routes.
        let old = "{\n  loopbacks: {loop0: {mtu: 1500}},\n  routes: [0.0.0.0/0 drop]}\n";
        assert!(edited(&wanted(old), new, &target).is_none());
        let (text, _) = edit("{loopbacks: {loop0: {mtu: 1500}}} # all\n", new);
        assert_eq!(text, "{loopbacks: {loop0: {mtu: 1400}}} # all\n");
        let shared = "loopbacks:\n  loop0: &a\n    mtu: 1500 # of both\n  loop1: *a\n";
        let new = "loopbacks:\n  loop0:\n    mtu: 1400\n  loop1: {}\n";
        let (text, _) = edit(shared, new);
        assert!(!text.contains("1500"), "{text}");
    }
}
