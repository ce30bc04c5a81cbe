//! Labels by the thousand: plain lines of a script, applied as one transaction, as [`crate::fib::lines`] does for routes.
//!
//! Plain are the commands `mpls local-label add|set|del` for one path to an address, with all words in full and no modes. What this
//! reader takes means the same to the general parser (a test compares them); what it does not take, or what is refused,
//! is left to that one.

use crate::labels::OutLabels;
use crate::mpls::{LabelBatch, MplsOp};
use crate::router::{Op, RoutePath, Router, Target};
use std::net::IpAddr;

/// The most lines of one transaction: other work of the control thread waits for so long.
const MOST: usize = 1 << 17;
const MAX_LINE: usize = 512;
/// Words that no interface may be called here: the general parser may take their beginnings for them.
const KEYWORDS: [&str; 7] = ["via", "weight", "out-labels", "uniform", "pipe", "ttl", "exp"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verb {
    Add,
    Set,
    Del,
}

/// A plain line.
#[derive(Clone, Debug, PartialEq)]
struct Plain<'l> {
    verb: Verb,
    label: u32,
    /// `None`: both places in the stack.
    bottom: Option<bool>,
    table: u32,
    address: IpAddr,
    interface: Option<&'l str>,
    labels: OutLabels,
}

fn number(word: &str) -> Option<u32> {
    let plain = word.bytes().all(|b| b.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    word.parse().ok().filter(|_| plain)
}

fn plain(line: &str) -> Option<Plain<'_>> {
    let odd =
        |b: u8| !(b.is_ascii_graphic() || b == b' ' || b == b'\t') || matches!(b, b'"' | b'\'' | b'#' | b'?');
    if line.len() > MAX_LINE || line.bytes().any(odd) {
        return None;
    }
    let mut words = line.split_ascii_whitespace().peekable();
    if words.next() != Some("mpls") || words.next() != Some("local-label") {
        return None;
    }
    let verb = match words.next()? {
        "add" => Verb::Add,
        "set" => Verb::Set,
        "del" => Verb::Del,
        _ => return None,
    };
    let label = number(words.next()?).filter(|l| *l < 1 << 20)?;
    let bottom = words.next_if(|w| matches!(*w, "eos" | "non-eos")).map(|w| w == "eos");
    let table = match words.next_if_eq(&"table") {
        Some(_) => number(words.next()?)?,
        None => 0,
    };
    words.next_if_eq(&"via")?;
    let address = words.next()?.parse().ok()?;
    let is_name = |w: &str| w != "--json" && !KEYWORDS.iter().any(|k| k.starts_with(w));
    let interface = words.next_if(|w| is_name(w));
    let mut labels = vec![];
    if words.next_if_eq(&"out-labels").is_some() {
        for word in words.by_ref() {
            labels.push(number(word)?);
        }
        if labels.is_empty() {
            return None;
        }
    }
    let labels = OutLabels::new(&labels)?;
    words.next().is_none().then_some(Plain { verb, label, bottom, table, address, interface, labels })
}

/// Whether the general parser need not look at the line to know that it is a command.
pub fn is_plain(line: &str) -> bool {
    plain(line).is_some()
}

/// The changes of the plain lines with which `lines` begin, and for each the number of its line.
fn read(router: &Router, lines: &[&str]) -> (LabelBatch, Vec<u32>, usize) {
    let (mut batch, mut numbers, mut taken) = (LabelBatch::in_table(0), vec![], 0);
    for line in lines.iter().take(MOST) {
        let Some(p) = plain(line) else { break };
        let interface = match p.interface {
            Some(name) => match router.interface_index(name) {
                Some(i) => Some(i),
                None => break,
            },
            None => None,
        };
        if p.table != batch.table() {
            if !batch.is_empty() {
                break;
            }
            batch = LabelBatch::in_table(p.table);
        }
        let path =
            RoutePath { address: Some(p.address), interface, labels: p.labels, ..RoutePath::default() };
        let target = Target::Paths(vec![path]);
        let verb = match p.verb {
            Verb::Add => LabelBatch::add,
            Verb::Set => LabelBatch::set,
            Verb::Del => LabelBatch::del_paths,
        };
        for bottom in [true, false].into_iter().filter(|b| p.bottom.is_none_or(|only| only == *b)) {
            // Without a word that says which, those go that are there: the general parser looks.
            if p.verb == Verb::Del && p.bottom.is_none() {
                return (batch, numbers, taken);
            }
            verb(&mut batch, p.label, bottom, &target);
            numbers.push(taken as u32);
        }
        taken += 1;
    }
    (batch, numbers, taken)
}

/// Runs plain lines, from the first on, as one transaction, and answers how many it ran; it ends before the first that is not
/// plain or would be refused.
pub fn run(router: &mut Router, lines: &[&str]) -> usize {
    let mut n = lines.len();
    loop {
        let (batch, numbers, taken) = read(router, lines.get(..n).unwrap_or(lines));
        if taken < 2 {
            return 0;
        }
        match router.commit(vec![Op::from(MplsOp::Routes(batch))]) {
            Ok(()) => return taken,
            Err(e) => n = numbers.get(e.route).map_or(0, |l| *l as usize).min(taken - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpls::{check_label, label_route, label_routes};
    use crate::router::RouterConfig;
    use command::{Completer, Parsed, Registry};
    use proptest::prelude::*;

    struct Two;

    impl Completer for Two {
        fn values(&self, _: &str, _: &str) -> Vec<String> {
            vec![]
        }

        fn known(&self, kind: &str, name: &str) -> Option<bool> {
            (kind == "interface").then_some(["loop0", "e0"].contains(&name))
        }
    }

    fn words() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            "eos",
            "non-eos",
            "e",
            "table",
            "7",
            "via",
            "10.0.0.1",
            "fe80::1",
            "loop0",
            "e0",
            "w",
            "exp",
            "out-labels",
            "out",
            "200",
            "1048575",
            "1048576",
            "0",
            "017",
            "0x20",
            "uniform",
            "drop",
            "--json",
            "#",
        ]);
        let head =
            prop::sample::select(vec!["mpls local-label", " mpls\tlocal-label", "mpls local", "ip route"]);
        let verb = prop::sample::select(vec!["add", "set", "del", "a"]);
        let label = prop::sample::select(vec!["100", "16", "0100", "0x64", "1048576", "x"]);
        let good = prop::sample::select(vec![
            "via 10.0.0.1",
            "eos via 10.0.0.1 loop0 out-labels 200",
            "non-eos table 7 via fe80::1 e0 out-labels 33 200",
            "via 10.0.0.1 out-labels 3",
        ]);
        let rest = prop_oneof![
            good.prop_map(String::from),
            prop::collection::vec(word, 0..7).prop_map(|w| w.join(" ")),
        ];
        (head, verb, label, rest).prop_map(|(h, v, l, r)| format!("{h} {v} {l} {r}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn a_plain_line_means_the_same_to_the_general_parser(line in words()) {
            thread_local!(static REGISTRY: &'static Registry<Router> =
                Box::leak(Box::new(Registry::new(crate::mpls::commands::all()).unwrap())));
            let registry = REGISTRY.with(|r| *r);
            if let Some(p) = plain(&line).filter(|p| p.interface.is_none_or(|i| Two.known("interface", i) == Some(true))) {
                let parsed = registry.parse(&line, &Two);
                let Ok(Parsed::Command(_, args)) = &parsed else {
                    return Err(TestCaseError::fail(format!("{line}: not taken")));
                };
                let path = args.groups("path").next().unwrap();
                let bottom = args.one_of(&["eos", "non-eos"]).map(|w| w == "eos");
                prop_assert_eq!((args.get::<u32>("label").unwrap(), bottom), (p.label, p.bottom));
                prop_assert_eq!(args.opt::<u32>("table").unwrap().unwrap_or(0), p.table);
                prop_assert_eq!(path.opt::<IpAddr>("address").unwrap(), Some(p.address));
                prop_assert_eq!(path.opt::<String>("interface").unwrap(), p.interface.map(String::from));
                prop_assert_eq!(crate::cli::labels::labels(path).unwrap(), p.labels);
            }
        }
    }

    #[test]
    fn lines_are_applied_up_to_the_first_that_is_refused() {
        let mut r = Router::new(RouterConfig::default()).unwrap();
        r.commit(vec![Op::CreateLoopback { instance: None, mac: None }]).unwrap();
        let lines: Vec<String> = (100..5000)
            .map(|l| match l {
                3000 => "mpls local-label add 3000 eos via 10.0.0.9 loop0 out-labels 12".into(),
                _ => format!("mpls local-label add {l} eos via 10.0.0.9 loop0 out-labels {}", l + 7),
            })
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(run(&mut r, &lines), 2900);
        assert_eq!(label_routes(&r, 0, 16).count(), 2900);
        assert_eq!(run(&mut r, &lines[2901..]), 1999);
        assert_eq!(run(&mut r, &lines[..1]), 0, "one alone is told better by the general parser");
        let route = label_route(&r, 0, 4999, true).unwrap();
        let Target::Paths(p) = &route.target else { panic!("paths") };
        assert_eq!(p[0].labels.as_slice(), [5006]);
        // All of them lead over one next-hop group.
        assert_eq!(r.group(route.group).unwrap().routes, 4899);
        assert!(check_label(4999).is_ok());
    }
}
