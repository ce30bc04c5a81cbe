use super::*;
use crate::written::{Map, Node as Written};
use crate::yaml::value::read;
use proptest::prelude::*;

/// Random choices that follow from a number.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn is(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Tree {
    One(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

fn one(d: &mut Dice) -> Tree {
    let words = [
        "12",
        "true",
        "10.0.0.1/24",
        "a b",
        "up-link",
        "\"12\"",
        "'x: y # z'",
        "\"é, ü\"",
        "10.1.0.0/16 via x y",
    ];
    Tree::One(words[d.below(words.len() as u64) as usize].into())
}

fn tree(d: &mut Dice, depth: u64) -> Tree {
    match d.below(if depth == 0 { 1 } else { 4 }) {
        0 => one(d),
        1 => {
            let maps = d.is(2);
            let item = |d: &mut Dice| if maps { map(d, depth - 1) } else { one(d) };
            Tree::List((0..1 + d.below(4)).map(|_| item(d)).collect())
        }
        _ => map(d, depth - 1),
    }
}

const KEYS: [&str; 8] = ["routes", "eth0", "mtu", "eth0.100", "100", "l3", "name", "taps"];

fn map(d: &mut Dice, depth: u64) -> Tree {
    let mut out: Vec<(String, Tree)> = vec![];
    for _ in 0..1 + d.below(4) {
        let key = KEYS[d.below(KEYS.len() as u64) as usize];
        if out.iter().all(|(k, _)| k != key) {
            out.push((key.into(), tree(d, depth)));
        }
    }
    Tree::Map(out)
}

/// The same with changes.
fn changed(d: &mut Dice, t: &Tree, depth: u64) -> Tree {
    match t {
        _ if d.is(12) => tree(d, depth),
        Tree::One(_) => t.clone(),
        Tree::List(items) => {
            let mut out: Vec<Tree> = vec![];
            for item in items {
                if !d.is(5) {
                    let new = changed(d, item, depth.saturating_sub(1));
                    // No document has lists of lists: those are taken whole.
                    out.push(if matches!(new, Tree::List(_)) { item.clone() } else { new });
                }
                if d.is(6) {
                    out.push(if matches!(item, Tree::Map(_)) { map(d, 1) } else { one(d) });
                }
            }
            if d.is(8) {
                out.reverse();
            }
            Tree::List(out)
        }
        Tree::Map(pairs) => {
            let mut out: Vec<(String, Tree)> = vec![];
            for (k, v) in pairs {
                if !d.is(6) {
                    out.push((k.clone(), changed(d, v, depth.saturating_sub(1))));
                }
            }
            let key = KEYS[d.below(KEYS.len() as u64) as usize];
            if d.is(3) && out.iter().all(|(k, _)| k != key) {
                let at = d.below(out.len() as u64 + 1) as usize;
                out.insert(at, (key.into(), tree(d, depth.saturating_sub(1))));
            }
            Tree::Map(out)
        }
    }
}

/// A text with comments, and what stands at the place of each.
struct Page {
    text: String,
    comments: Vec<(String, Vec<String>)>,
}

impl Page {
    fn comment(&mut self, path: &[String]) -> String {
        let name = format!("# c{}.", self.comments.len());
        self.comments.push((name.clone(), path.to_vec()));
        name
    }

    fn above(&mut self, d: &mut Dice, path: &[String], indent: usize) {
        if d.is(5) {
            self.text.push_str(["\n", "\n\n", "   \n"][d.below(3) as usize]);
        }
        if d.is(3) {
            let comment = self.comment(path);
            self.text.push_str(&format!("{:indent$}{comment}\n", ""));
        }
    }

    fn behind(&mut self, d: &mut Dice, path: &[String]) {
        if d.is(4) {
            let comment = self.comment(path);
            self.text.push_str(&format!("  {comment}"));
        }
        self.text.push('\n');
    }

    fn fields(
        &mut self,
        d: &mut Dice,
        pairs: &[(String, Tree)],
        path: &mut Vec<String>,
        indent: usize,
        dash: bool,
    ) {
        for (n, (key, value)) in pairs.iter().enumerate() {
            path.push(key.clone());
            if n > 0 || !dash {
                self.above(d, path, indent);
                self.text.push_str(&" ".repeat(indent));
            }
            self.text.push_str(&format!("{key}:"));
            self.value(d, value, path, indent);
            path.pop();
        }
    }

    fn value(&mut self, d: &mut Dice, value: &Tree, path: &mut Vec<String>, indent: usize) {
        match value {
            Tree::One(text) => {
                self.text.push_str(&format!(" {text}"));
                self.behind(d, path);
            }
            Tree::Map(pairs) if !pairs.is_empty() => {
                self.behind(d, path);
                let more = 1 + d.below(3) as usize;
                self.fields(d, pairs, path, indent + more, false);
            }
            Tree::List(items) if !items.is_empty() => {
                self.behind(d, path);
                let indent = indent + d.below(3) as usize;
                for item in items {
                    let name = if let Tree::One(text) = item { format!("[{text}") } else { "[".into() };
                    path.push(name);
                    self.above(d, path, indent);
                    self.text.push_str(&format!("{:indent$}- ", ""));
                    match item {
                        Tree::Map(pairs) if !pairs.is_empty() => {
                            self.fields(d, pairs, path, indent + 2, true)
                        }
                        Tree::One(text) => {
                            self.text.push_str(text);
                            self.behind(d, path);
                        }
                        _ => self.text.push_str("{}\n"),
                    }
                    path.pop();
                }
            }
            Tree::Map(_) => self.text.push_str(" {}\n"),
            Tree::List(_) => self.text.push_str(" []\n"),
        }
    }
}

fn page(d: &mut Dice, t: &Tree) -> Page {
    let mut page = Page { text: String::new(), comments: vec![] };
    let Tree::Map(pairs) = t else { return page };
    page.fields(d, pairs, &mut vec![], 0, false);
    if d.is(3) {
        page.text.push_str("\n# the end\n");
    }
    if d.is(5) {
        page.text.pop();
    }
    page
}

/// As the router writes it.
fn plain(t: &Tree) -> String {
    fn node(t: &Tree) -> Written {
        match t {
            Tree::One(text) => read(text).unwrap(),
            Tree::List(items) => Written::List(items.iter().map(node).collect()),
            Tree::Map(pairs) => {
                let mut map = Map::new();
                pairs.iter().for_each(|(k, v)| _ = map.put(k.clone(), node(v)));
                Written::Map(map)
            }
        }
    }
    let Written::Map(map) = node(t) else { return String::new() };
    let mut out = String::new();
    map.fields().for_each(|(k, v)| crate::written::write_field(&mut out, k, v, 0));
    out
}

/// Whether something stands at a place that no list is above.
fn has(t: &Tree, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    match t {
        Tree::Map(pairs) => pairs.iter().any(|(k, v)| k == first && has(v, rest)),
        Tree::List(items) => {
            let is = |i: &&Tree| matches!(i, Tree::One(text) if format!("[{text}") == *first);
            first != "[" && items.iter().filter(is).count() == 1
        }
        Tree::One(_) => false,
    }
}

fn everything(ordered: bool) -> Scope {
    Scope { all: true, exact: true, ordered, ..Scope::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn what_is_rewritten_says_what_it_should(seed in 1u64.., ordered in any::<bool>()) {
        let mut d = Dice(seed);
        let old = map(&mut d, 3);
        let new = changed(&mut d, &old, 3);
        prop_assume!(matches!(&new, Tree::Map(pairs) if !pairs.is_empty()));
        let page = page(&mut d, &old);
        let wanted = plain(&new);
        let unchanged = rewrite(&page.text, &plain(&old), &everything(ordered));
        prop_assert_eq!(unchanged.as_deref(), Some(page.text.as_str()));
        let Some(text) = rewrite(&page.text, &wanted, &everything(ordered)) else {
            // Nothing is left of it.
            let (Tree::Map(a), Tree::Map(b)) = (&old, &new) else { panic!() };
            prop_assert!(a.iter().all(|(k, _)| b.iter().all(|(l, _)| l != k)), "{}\n---\n{}", page.text, wanted);
            return Ok(());
        };
        let said = read(&text);
        prop_assert!(said.is_ok(), "{:?}\n{}\n--- wanted\n{}\n--- got\n{}", said, page.text, wanted, text);
        let (is, wants) = (said.unwrap(), read(&wanted).unwrap());
        prop_assert_eq!(is.to_json(), wants.to_json(), "{}\n--- wanted\n{}\n--- got\n{}", page.text, wanted, text);
        for (comment, path) in &page.comments {
            if has(&old, path) && has(&new, path) && path.iter().filter(|p| p.starts_with('[')).count() < 2 {
                prop_assert!(text.contains(comment.as_str()), "{comment} of {path:?}\n{}\n--- wanted\n{}\n--- got\n{}", page.text, wanted, text);
            }
        }
        // Mappings stand in their order: that of the new text, or their own.
        let like = if ordered { wants } else { read(&page.text).unwrap() };
        let order = |from: &Written, path: &str| match from {
            Written::Map(m) => m.fields().map(|(k, _)| k.to_owned()).filter(|k| path.is_empty() || k != path).collect(),
            _ => Vec::<String>::new(),
        };
        let (got, had) = (order(&is, ""), order(&like, ""));
        let both = |a: &[String], b: &[String]| a.iter().filter(|k| b.contains(k)).cloned().collect::<Vec<_>>();
        prop_assert_eq!(both(&got, &had), both(&had, &got));
    }
}

const OLD: &str = "\
# Our router.
# Ask before you change it.

interfaces:
  # to the provider
  eth0:
    mtu: 1500   # as theirs
    addresses: [10.0.0.1/24]  # ours

  # unused
  eth1: {}
loopbacks:
    loop0:
        description: \"old\" # once
routes:
# the way out
- 0.0.0.0/0 via 10.0.0.2 eth0
- 10.1.0.0/16 via 10.0.0.2 # for a while
";

#[test]
fn a_text_that_is_edited() {
    let new = "\
interfaces:
  eth0:
    mtu: 9000
    addresses:
      - 10.0.0.1/24
      - 10.0.1.1/24
loopbacks:
  loop0:
    description: new one
  loop1:
    mtu: 9000
routes:
  - 10.1.0.0/16 via 10.0.0.3
  - 0.0.0.0/0 via 10.0.0.2 eth0
";
    let want = "\
# Our router.
# Ask before you change it.

interfaces:
  # to the provider
  eth0:
    mtu: 9000   # as theirs
    addresses:  # ours
      - 10.0.0.1/24
      - 10.0.1.1/24

loopbacks:
    loop0:
        description: new one # once
    loop1:
      mtu: 9000
routes:
# the way out
- 0.0.0.0/0 via 10.0.0.2 eth0
- 10.1.0.0/16 via 10.0.0.3 # for a while
";
    let net = |t: &str| t.parse().unwrap();
    let scope = Scope {
        places: [vec!["interfaces".to_owned()]].into(),
        names: ["loop0".to_owned(), "loop1".into()].into(),
        prefixes: [net("10.1.0.0/16")].into(),
        gone: ["eth1".to_owned()].into(),
        ..Scope::default()
    };
    assert_eq!(rewrite(OLD, new, &scope).unwrap(), want);
    // What may not differ does not.
    assert_eq!(rewrite(OLD, new, &Scope::default()).unwrap(), OLD);
}

#[test]
fn long_tables_are_copied() {
    let table = |skip: usize, more: &str| {
        let lines = (0..1000).filter(|n| *n != skip);
        let lines: String =
            lines.map(|n| format!("  - 10.{}.{}.0/24 via 10.0.0.2\n", n / 256, n % 256)).collect();
        format!("# all\nroutes:\n  # the table\n{lines}{more}neighbors: []\n")
    };
    let (old, new) = (table(2000, ""), table(17, "  - 192.0.2.0/24 drop\n"));
    let scope = Scope {
        prefixes: ["10.0.17.0/24", "192.0.2.0/24"].iter().map(|n| n.parse().unwrap()).collect(),
        ..Scope::default()
    };
    assert_eq!(rewrite(&old, &new, &scope).unwrap(), new);
}

#[test]
fn many_routes_keep_their_comments() {
    let table = |comment: &str, via: &str| {
        let line = |n: u32| {
            let above = if comment.is_empty() { String::new() } else { format!("  # {comment} {n}\n") };
            format!("{above}  - 10.{}.{}.0/24 via {via}\n", n / 256, n % 256)
        };
        format!("routes:\n{}", (0..300).map(line).collect::<String>())
    };
    let prefix = |n: u32| format!("10.{}.{}.0/24", n / 256, n % 256).parse().unwrap();
    let scope = Scope { prefixes: (0..300).map(prefix).collect(), ..Scope::default() };
    let (old, new) = (table("of", "10.0.0.2"), table("", "10.0.0.3"));
    assert_eq!(rewrite(&old, &new, &scope).unwrap(), table("of", "10.0.0.3"));
}

#[test]
fn texts_that_are_not_edited() {
    for old in ["a: 1\rb: 2\n", "[a", "- a\n", "\u{feff}a: 1\n"] {
        assert_eq!(rewrite(old, "a: 2\n", &everything(false)), None, "{old:?}");
    }
    let comments = "# nothing yet\n";
    assert_eq!(rewrite(comments, "a: 2\n", &everything(false)).unwrap(), "# nothing yet\na: 2\n");
    let line = rewrite("a: {b: 1} # one\n", "a:\n  b: 1\n  c: 2\n", &everything(false));
    assert_eq!(line.unwrap(), "a: # one\n  b: 1\n  c: 2\n");
    let windows = "a: 1 # one\r\nb: 2\r\n";
    assert_eq!(
        rewrite(windows, "a: 3\nb: 2\nc: 4\n", &everything(false)).unwrap(),
        "a: 3 # one\r\nb: 2\r\nc: 4\r\n"
    );
}
