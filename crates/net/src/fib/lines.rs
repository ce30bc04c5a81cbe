//! Route commands by the thousand: the lines of a script in their plain form, read without the general parser and
//! applied as one transaction.
//!
//! Plain are the commands `ip route add|set|del` with all words in full, no quotes and no comment. What this reader
//! takes means the same to the general parser (a test compares them); whatever it does not take, and whatever is
//! refused, is left to the general parser, which knows what to say about it.

use crate::router::{Op, Rank, RouteBatch, RoutePath, Router, Target, TargetId};
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::IpAddr;

/// The most lines of one transaction: other work of the control thread waits for so long.
const MOST: usize = 1 << 18;
/// Longer lines are not plain.
const MAX_LINE: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Verb {
    Add,
    Set,
    Del,
}

/// A plain line: its verb, its prefix and the words behind that.
#[derive(Debug, PartialEq)]
struct Plain<'l> {
    verb: Verb,
    prefix: IpNet,
    table: u32,
    paths: &'l str,
}

/// Splits off the first word.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_ascii_start();
    let end = text.bytes().position(|b| b.is_ascii_whitespace()).unwrap_or(text.len());
    text.split_at(end)
}

fn plain(line: &str) -> Option<Plain<'_>> {
    let odd =
        |b: u8| !(b.is_ascii_graphic() || b == b' ' || b == b'\t') || matches!(b, b'"' | b'\'' | b'#' | b'?');
    if line.len() > MAX_LINE || line.bytes().any(odd) {
        return None;
    }
    let (ip, rest) = word(line);
    let (route, rest) = word(rest);
    if ip != "ip" || route != "route" {
        return None;
    }
    let (verb, rest) = word(rest);
    let verb = match verb {
        "add" => Verb::Add,
        "set" => Verb::Set,
        "del" => Verb::Del,
        _ => return None,
    };
    let (prefix, rest) = word(rest);
    let prefix = match prefix.parse::<IpNet>() {
        Ok(p) => p,
        Err(_) => prefix.parse::<IpAddr>().ok()?.into(),
    };
    let (table, rest) = match word(rest) {
        ("table", rest) => {
            let (number, rest) = word(rest);
            let digits = number.bytes().all(|b| b.is_ascii_digit());
            (Some(number).filter(|_| digits)?.parse().ok()?, rest)
        }
        _ => (0, rest),
    };
    (prefix == prefix.trunc()).then_some(Plain { verb, prefix, table, paths: rest.trim_ascii() })
}

/// A path as it is written.
#[derive(Debug, PartialEq)]
enum PathWords<'l> {
    Path { address: Option<IpAddr>, interface: Option<&'l str>, weight: u8 },
    Word(&'static str),
}

/// Whether the general parser could take `word` for one of its own words.
fn is_keyword(word: &str, keywords: &[&str]) -> bool {
    keywords.iter().any(|k| k.starts_with(word))
}

/// The paths of a line, `None` when they are not plain.
fn paths(text: &str) -> Option<Vec<PathWords<'_>>> {
    const DISCARD: [&str; 3] = ["drop", "unreachable", "prohibit"];
    const LOOKUP: [&str; 2] = ["ip4-lookup-in-table", "ip6-lookup-in-table"];
    const KEYWORDS: [&str; 14] = [
        "via",
        "weight",
        "mtu",
        "preference",
        "metric",
        "next-hop-table",
        "out-labels",
        "uniform",
        "pipe",
        "ttl",
        "exp",
        "table",
        "count",
        "dev",
    ];
    let mut all = vec![];
    let mut words = text.split_ascii_whitespace().peekable();
    while let Some(via) = words.next() {
        let first = words.next().filter(|_| via == "via")?;
        if let Some(&discard) = DISCARD.iter().find(|d| **d == first) {
            all.push(PathWords::Word(discard));
            continue;
        }
        let address: Option<IpAddr> = first.parse().ok();
        let is_name = |w: &str| w != "--json" && !is_keyword(w, &KEYWORDS);
        let interface = match address {
            Some(_) => words.next_if(|w| is_name(w)),
            None => Some(first).filter(|w| is_name(w) && !is_keyword(w, &DISCARD) && !is_keyword(w, &LOOKUP)),
        };
        if address.is_none() && interface.is_none() {
            return None;
        }
        let weight = match words.next_if_eq(&"weight") {
            Some(_) => words.next().filter(|n| n.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?,
            None => 1,
        };
        if weight == 0 {
            return None;
        }
        all.push(PathWords::Path { address, interface, weight });
    }
    // A word that throws packets away stands alone.
    (all.len() == 1 || all.iter().all(|p| matches!(p, PathWords::Path { .. }))).then_some(all)
}

/// Whether the general parser need not look at the line to know that it is a command.
pub fn is_plain(line: &str) -> bool {
    plain(line).is_some_and(|p| match p.paths {
        "" => p.verb == Verb::Del,
        text => paths(text).is_some(),
    })
}

/// A batch of the plain lines with which `lines` begin.
struct Reader<'l, 'r> {
    router: &'r Router,
    /// Of one table.
    batch: RouteBatch,
    /// Targets by the words that name them.
    known: HashMap<(Verb, &'l str), Option<TargetId>>,
}

impl<'l> Reader<'l, '_> {
    /// Adds a line; false when it is not plain, or names an interface that does not exist.
    fn line(&mut self, line: &'l str) -> bool {
        let Some(Plain { verb, prefix, table, paths }) = plain(line) else { return false };
        if table != self.batch.table() {
            if !self.batch.is_empty() {
                return false;
            }
            self.batch = RouteBatch::in_table(table);
            self.known.clear();
        }
        if paths.is_empty() {
            // All routes of the prefix go: those of other ranks are for the general parser.
            let odd = |r: &Rank| *r != Rank::STATIC;
            if verb != Verb::Del || self.router.static_ranks(table, prefix).iter().any(odd) {
                return false;
            }
            self.batch.del(prefix);
            return true;
        }
        let known = self.known.get(&(verb, paths)).copied();
        let id = known.unwrap_or_else(|| {
            let id = self.target(verb, paths);
            self.known.insert((verb, paths), id);
            id
        });
        let Some(id) = id else { return false };
        match verb {
            Verb::Add => self.batch.add(prefix, id),
            Verb::Set => self.batch.set(prefix, id),
            Verb::Del => self.batch.del_paths(prefix, id),
        }
        true
    }

    fn target(&mut self, verb: Verb, text: &str) -> Option<TargetId> {
        let mut all: Vec<RoutePath> = vec![];
        for p in paths(text)? {
            let PathWords::Path { address, interface, weight } = p else {
                let PathWords::Word(w) = p else { return None };
                return Some(self.batch.target(Target::discard(w)?));
            };
            let interface = match interface {
                Some(name) => Some(self.router.interface_index(name)?),
                None => None,
            };
            let path = RoutePath { address, interface, weight, ..RoutePath::default() };
            // As if added one after the other.
            if verb == Verb::Add {
                all.retain(|p| !p.is_same(&path));
            }
            all.push(path);
        }
        Some(self.batch.target(Target::Paths(all)))
    }
}

fn read(router: &Router, lines: &[&str]) -> RouteBatch {
    let mut reader = Reader { router, batch: RouteBatch::new(), known: HashMap::new() };
    for line in lines.iter().take(MOST) {
        if !reader.line(line) {
            break;
        }
    }
    reader.batch
}

/// Runs plain lines, from the first on, as one transaction, and answers how many it ran. It ends before the first
/// line that is not plain or would be refused: that one is for the general parser. All is as if the lines had been
/// run one after the other.
pub fn run(router: &mut Router, lines: &[&str]) -> usize {
    let mut n = lines.len();
    loop {
        let batch = read(router, lines.get(..n).unwrap_or(lines));
        n = batch.len();
        if n < 2 {
            // One alone is told better by the general parser, when it is refused.
            return 0;
        }
        match router.commit(vec![Op::Routes(batch)]) {
            Ok(()) => return n,
            // What fits of a batch is about as much as fits of its first lines.
            Err(e) => n = e.fits.unwrap_or(e.route).min(n - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::{Parsed, Registry};
    use proptest::prelude::*;

    /// Words of route commands, right ones, near misses and what changes the meaning of a line.
    fn words() -> impl Strategy<Value = String> {
        let any = prop::sample::select(vec![
            "via",
            "via",
            "via",
            "weight",
            "weight",
            "1",
            "7",
            "255",
            "256",
            "0",
            "0x10",
            "01",
            "+1",
            "drop",
            "unreachable",
            "prohibit",
            "10.0.0.1",
            "10.0.0.2",
            "fe80::1",
            "loop0",
            "loop1",
            "w",
            "v",
            "d",
            "un",
            "wei",
            "next",
            "next-hop-table",
            "ip4-lookup-in-table",
            "ip",
            "--json",
            "#",
            "?",
            "\"loop0\"",
            "10.0.0.0/8",
            "ip",
            "1.2.3",
            "::ffff:1.2.3.4",
            "loop0?",
        ]);
        let good = prop_oneof![
            Just("via 10.0.0.1"),
            Just("via 10.0.0.1 loop0"),
            Just("via loop0"),
            Just("via fe80::1 loop1 weight 3"),
            Just("via loop1 weight 255"),
            Just("via drop"),
        ]
        .prop_map(String::from);
        let paths = prop::collection::vec(prop_oneof![3 => good, 2 => any.prop_map(String::from)], 0..5);
        let verb = prop::sample::select(vec!["add", "set", "del", "add", "set", "del", "a", "delete"]);
        let prefix = prop::sample::select(vec![
            "10.0.0.0/8",
            "0.0.0.0/0",
            "10.1.2.3",
            "10.1.2.3/32",
            "10.0.0.1/8",
            "::/0",
            "2001:db8::/32",
            "2001:DB8::/32",
            "2001:db8::1",
            "10.0.0.0/33",
            "10.0.0.0/08",
            "010.0.0.0/8",
            "x",
            "::ffff:10.0.0.0/104",
        ]);
        let head = prop::sample::select(vec![
            "ip route",
            "ip route",
            " ip \t route",
            "i route",
            "ip rou",
            "ip neighbor",
        ]);
        let table =
            prop::sample::select(vec!["", "", "table 7", "table 0", "table x", "tab 7", "table 07", "table"]);
        (head, verb, prefix, table, paths)
            .prop_map(|(h, v, p, t, paths)| format!("{h} {v} {p} {t} {}", paths.join(" ")))
    }

    fn text(target: &PathWords<'_>) -> (Option<String>, Option<IpAddr>, Option<String>, u8) {
        match target {
            PathWords::Word(w) => (Some((*w).into()), None, None, 1),
            PathWords::Path { address, interface, weight } => {
                (None, *address, interface.map(String::from), *weight)
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn a_plain_line_means_the_same_to_the_general_parser(line in words()) {
            struct Two;
            impl command::Completer for Two {
                fn values(&self, _: &str, _: &str) -> Vec<String> { vec![] }
                fn known(&self, kind: &str, name: &str) -> Option<bool> {
                    (kind == "interface").then_some(["loop0", "loop1"].contains(&name))
                }
            }
            if !is_plain(&line) {
                return Ok(());
            }
            thread_local!(static REGISTRY: &'static Registry<Router> =
                Box::leak(Box::new(Registry::new(crate::commands::all()).unwrap())));
            let registry = REGISTRY.with(|r| *r);
            prop_assert!(registry.check(&line).is_ok(), "{}", line);
            let plain = plain(&line).unwrap();
            let all = paths(plain.paths).unwrap();
            let known = |p: &PathWords<'_>| !matches!(p, PathWords::Path { interface: Some(i), .. } if !i.starts_with("loop"));
            if !all.iter().all(known) {
                // Left to the general parser when it runs.
                return Ok(());
            }
            let Ok(Parsed::Command(_, args)) = registry.parse(&line, &Two) else {
                return Err(TestCaseError::fail(format!("not a command: {line}")));
            };
            let verb = format!("{:?}", plain.verb).to_lowercase();
            prop_assert!(args.words().any(|w| w == verb), "{}", line);
            prop_assert_eq!(args.get::<IpNet>("prefix").unwrap(), plain.prefix);
            prop_assert_eq!(args.opt::<u32>("table").unwrap().unwrap_or(0), plain.table);
            let want: Vec<_> = args.groups("path").map(|g| (
                g.one_of(&["drop", "unreachable", "prohibit"]).map(String::from),
                g.opt::<IpAddr>("address").unwrap(),
                g.opt::<String>("interface").unwrap(),
                g.opt::<u8>("weight").unwrap().unwrap_or(1),
            )).collect();
            prop_assert_eq!(all.iter().map(text).collect::<Vec<_>>(), want, "{}", line);
        }
    }

    #[test]
    fn what_is_plain_and_what_is_not() {
        for line in [
            "ip route add 10.0.0.0/8 via 10.1.1.1",
            "  ip\troute set 2001:db8::/32 via fe80::1 loop0 weight 7 via loop1",
            "ip route del 10.0.0.0/8",
            "ip route add 10.0.0.1 via drop",
            "ip route add 10.0.0.0/8 table 4294967295 via drop",
            "ip route del 10.0.0.0/8 via prohibit",
        ] {
            assert!(is_plain(line), "{line}");
        }
        for line in [
            "",
            "ip route",
            "ip route add 10.0.0.0/8",
            "ip route add 10.0.0.1/8 via 10.1.1.1",
            "ip route add 10.0.0.0/8 via 10.1.1.1 # why",
            "ip route add 10.0.0.0/8 via 10.1.1.1 \"loop0\"",
            "ip route add 10.0.0.0/8 via 10.1.1.1 --json",
            "ip route add 10.0.0.0/8 via 10.1.1.1 ?",
            "ip route add 10.0.0.0/8 via 10.1.1.1 weight 0",
            "ip route add 10.0.0.0/8 via 10.1.1.1 weight 256",
            "ip route add 10.0.0.0/8 via 10.1.1.1 w 2",
            "ip route add 10.0.0.0/8 via un",
            "ip route add 10.0.0.0/8 via drop via 10.1.1.1",
            "ip route add 10.0.0.0/8 via drop weight 1",
            "ip r add 10.0.0.0/8 via 10.1.1.1",
            "ip route add 10.0.0.0/8 table 4294967296 via 10.1.1.1",
            "ip route add 10.0.0.0/8 via 10.1.1.1 next-hop-table 3",
            "ip route add 10.0.0.0/8 via 10.1.1.1 löp0",
            "show ip fib",
        ] {
            assert!(!is_plain(line), "{line}");
        }
    }
}
