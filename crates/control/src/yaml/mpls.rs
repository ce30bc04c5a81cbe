//! The section `mpls`: label tables, and labels with their paths.
//!
//! A label is a mapping, or one line in the words of the command language: `100 eos via 192.0.2.1 left out-labels 200`.

use net::mpls::check_label;
use net::router::{Lookup, RouteTable};

use super::decode::Decoder;
use super::diag::Place;
use super::model::{RoutePath, RouteTarget};
use super::mpls_tunnel::{self, TunnelPaths};
use super::route::{Paths, Word, check_paths, words};
use super::rules::Names;
use super::scalar::short;
use super::tree::{Node, Value};

pub(super) const MPLS: &[&str] = &["tables", "local-labels", "tunnels"];
pub(super) const LABEL: &[&str] = &["label", "eos", "table", "via", "type"];
const FORM: &str = "`LABEL [eos|non-eos] [table N] via ADDRESS [INTERFACE] [out-labels L ...], ...`, \
     `LABEL eos via ip4-lookup-in-table N` or `LABEL drop`";

/// Label tables and labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mpls {
    /// Numbers of tables, with their places; 0 is not among them.
    pub tables: Vec<(u32, Place)>,
    /// Labels.
    pub labels: Vec<LocalLabel>,
    /// Where tunnels lead.
    pub tunnels: Vec<TunnelPaths>,
}

/// What becomes of the packets of a label.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalLabel {
    /// The label.
    pub label: u32,
    /// At the bottom of the stack, above it, or both.
    pub bottoms: Vec<bool>,
    /// Number of its table.
    pub table: u32,
    /// Where to.
    pub target: RouteTarget,
    /// Where it stands.
    pub place: Place,
}

/// The section.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, names: &Names<'_>) -> Option<Mpls> {
    let fields = d.fields(node, MPLS)?;
    let tables = d.field(&fields, "tables", |d, node| {
        let items = d.items(node, "numbers of tables").iter().enumerate();
        let number =
            |d: &mut Decoder<'n>, node: &'n Node<'n>| Some((d.int(node, 0u32, u32::MAX)?, node.place));
        Some(items.filter_map(|(i, node)| d.index(i, |d| number(d, node))).collect::<Vec<_>>())
    });
    let mut out = Mpls { tables: tables.unwrap_or_default(), labels: vec![], tunnels: vec![] };
    out.tables.retain(|t| t.0 != 0);
    for (i, (id, place)) in out.tables.iter().enumerate() {
        if out.tables.iter().take(i).any(|t| t.0 == *id) {
            d.error(*place, "mpls-table-unique", format!("MPLS table {id} stands here twice")).help("once");
        }
    }
    let found = d.field(&fields, "local-labels", |d, node| {
        let items = d.items(node, "labels").iter().enumerate();
        let read = Reader { paths: Paths { names, mpls: true, routes: false }, tables: &out.tables };
        Some(items.filter_map(|(i, node)| d.index(i, |d| read.item(d, node))).collect::<Vec<_>>())
    });
    out.labels = found.unwrap_or_default();
    let tunnels = d.field(&fields, "tunnels", |d, node| {
        mpls_tunnel::paths(d, node, &Paths { names, mpls: false, routes: false })
    });
    out.tunnels = tunnels.unwrap_or_default();
    unique(d, &out.labels);
    Some(out)
}

/// Reports labels that stand twice.
fn unique(d: &mut Decoder<'_>, labels: &[LocalLabel]) {
    let mut seen = std::collections::HashMap::new();
    for l in labels {
        for bottom in &l.bottoms {
            if let Some(line) = seen.insert((l.table, l.label, *bottom), l.place.line) {
                let message = format!("label {} stands on line {line} already", l.label);
                d.error(l.place, "label-unique", message)
                    .value(l.label)
                    .help("one item a label: give it several paths");
                break;
            }
        }
    }
}

struct Reader<'t> {
    paths: Paths<'t>,
    tables: &'t [(u32, Place)],
}

impl Reader<'_> {
    fn item<'n>(&self, d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<LocalLabel> {
        if let Value::Scalar { text, plain } = &node.value {
            let all: Vec<Word<'n>> = words(node.place, text, *plain).collect();
            return self.line(d, node.place, &all);
        }
        let fields = d.fields(node, LABEL)?;
        let label = d.field(&fields, "label", |d, node| Some((d.int(node, 0u32, 1_048_575)?, node.place)));
        let eos = d.field(&fields, "eos", |d, node| d.boolean(node));
        let table = d.field(&fields, "table", |d, node| d.int(node, 0u32, u32::MAX)).unwrap_or(0);
        let drop =
            d.field(&fields, "type", |d, node| d.choice(node, &[("drop", ())])).map(|()| RouteTarget::Drop);
        let paths = d.field(&fields, "via", |d, node| self.paths.via(d, node)).map(RouteTarget::Paths);
        if !fields.has("label") || fields.has("via") == fields.has("type") {
            d.error(fields.place, "required", "a label needs `label`, and `via` or `type`").help(FORM);
            return None;
        }
        let (label, place) = label?;
        self.checked(d, label, place, eos, table, paths.or(drop)?)
    }

    fn line<'n>(&self, d: &mut Decoder<'n>, place: Place, all: &[Word<'n>]) -> Option<LocalLabel> {
        let mut at = all.iter().copied().peekable();
        let (label_place, text) = at.next().unwrap_or((place, ""));
        let label = u32::try_from(d.int_text(label_place, text, 0, 1_048_575)?).ok()?;
        let eos = at.next_if(|w| matches!(w.1, "eos" | "non-eos")).map(|w| w.1 == "eos");
        let mut table = 0;
        if at.next_if(|w| w.1 == "table").is_some() {
            let (place, number) = at.next().unwrap_or((place, ""));
            table = u32::try_from(d.int_text(place, number, 0, u64::from(u32::MAX))?).ok()?;
        }
        let target = match at.next() {
            Some((_, "drop")) if at.peek().is_none() => RouteTarget::Drop,
            Some((_, "via")) => {
                let rest: Vec<Word<'n>> = at.collect();
                let mut paths = vec![];
                for path in rest.split_inclusive(|w| w.1.ends_with(',')) {
                    let path: Vec<Word<'n>> =
                        path.iter().map(|(p, w)| (*p, w.strip_suffix(',').unwrap_or(w))).collect();
                    paths.push(self.paths.path_words(d, place, &path)?);
                }
                RouteTarget::Paths(check_paths(d, place, paths)?)
            }
            other => {
                let (place, word) = other.unwrap_or((place, ""));
                d.error(place, "label", format!("{} is not expected here", short(word))).help(FORM);
                return None;
            }
        };
        self.checked(d, label, label_place, eos, table, target)
    }

    fn checked(
        &self,
        d: &mut Decoder<'_>,
        label: u32,
        place: Place,
        eos: Option<bool>,
        table: u32,
        target: RouteTarget,
    ) -> Option<LocalLabel> {
        if let Err(why) = check_label(label) {
            d.error(place, "label", why).value(label).help("16 to 1048575");
            return None;
        }
        let none: &[RoutePath] = &[];
        let paths = if let RouteTarget::Paths(p) = &target { p } else { none };
        let mut good = self.has_table(d, place, table);
        for p in paths {
            good &= self.check(d, p, eos);
        }
        let ip = paths.iter().any(|p| p.lookup.ends_stack());
        let mpls = paths.iter().any(|p| p.lookup == Lookup::Mpls);
        let bottoms = match eos {
            Some(eos) => vec![eos],
            None => [true, false].into_iter().filter(|b| if *b { !mpls || ip } else { !ip }).collect(),
        };
        good.then_some(LocalLabel { label, bottoms, table, target, place })
    }

    fn has_table(&self, d: &mut Decoder<'_>, place: Place, id: u32) -> bool {
        let has = id == 0 || self.tables.iter().any(|t| t.0 == id);
        if !has {
            d.error(place, "unknown-table", format!("there is no MPLS table {id}"))
                .value(id)
                .help(format!("declare it: mpls: {{tables: [{id}]}}"));
        }
        has
    }

    /// What a path of a label must meet.
    fn check(&self, d: &mut Decoder<'_>, p: &RoutePath, eos: Option<bool>) -> bool {
        let id = p.table.unwrap_or(0);
        let (message, help) = match p.lookup {
            Lookup::Own if p.address.is_none() => ("the next hop of a label needs an address", "its address"),
            Lookup::Own => return self.paths.finds_others(d, p),
            Lookup::Frame if eos == Some(false) => ("only at the bottom of a stack a frame follows", "eos"),
            Lookup::Frame if p.labels.is_none() && p.address.is_none() => return true,
            Lookup::Frame => ("l2-input-on takes an interface and nothing else", "l2-input-on INTERFACE"),
            _ if !p.labels.is_empty() => ("labels are put on for a neighbour", "name its address"),
            Lookup::Ip4 | Lookup::Ip6 | Lookup::Ip | Lookup::IpEach(_) if eos == Some(false) => {
                ("only at the bottom of a stack an IP packet follows", "eos")
            }
            Lookup::Mpls if eos == Some(true) => ("behind the bottom of a stack is no label", "non-eos"),
            Lookup::Mpls => return self.has_table(d, p.place, id),
            Lookup::Ip4 | Lookup::Ip6 | Lookup::Ip | Lookup::IpEach(_) => {
                let mut families = [false, true]
                    .into_iter()
                    .filter(|v6| p.lookup == Lookup::Ip || *v6 == (p.lookup == Lookup::Ip6));
                return families.all(|v6| self.paths.names.tables.check(d, p.place, RouteTable { v6, id }));
            }
        };
        d.error(p.place, "label-path", message).help(help);
        false
    }
}
