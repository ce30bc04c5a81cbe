//! What the commands of all features have in common: names that they propose, arguments that name interfaces, the rights of
//! who asks, lists.

pub(crate) mod interfaces;
pub(crate) mod labels;
pub(crate) mod listing;
pub(crate) mod neighbors;
pub(crate) use crate::router::{IfState, Op, Router};
use command::{Args, CommandError, Completer, Output};
use drivers::{Files, Identity};
use graph::registry::Reader;

/// Names of interfaces that a completion or an error proposes or compares with, at most: there may be many thousands.
const PROPOSED: usize = 1000;

impl Completer for Router {
    fn values(&self, kind: &str, prefix: &str) -> Vec<String> {
        let mut names: Vec<String> = match kind {
            "interface" => {
                let names = self.interfaces().map(|i| &i.name).filter(|n| n.starts_with(prefix));
                names.take(PROPOSED).cloned().collect()
            }
            "node" => {
                self.graphs().first().map_or(vec![], |g| g.nodes.iter().map(|n| n.name.to_owned()).collect())
            }
            "counter" => counter_names(self),
            "table" | "table4" | "table6" => {
                let wanted = |name: &str| name.starts_with(prefix);
                named_tables(self, kind, wanted).into_iter().map(|(name, _)| name).collect()
            }
            _ => self.names_of_parts(kind).unwrap_or_default(),
        };
        names.retain(|n| n.starts_with(prefix));
        names.sort();
        names.dedup();
        names
    }

    fn known(&self, kind: &str, name: &str) -> Option<bool> {
        match kind {
            "interface" => Some(self.interface_index(name).is_some()),
            "node" => Some(self.graphs().first().is_some_and(|g| g.node(name).is_some())),
            "counter" => Some(counter_names(self).iter().any(|n| n == name)),
            _ => Some(self.names_of_parts(kind)?.iter().any(|n| n == name)),
        }
    }

    fn instead(&self, kind: &str, name: &str) -> Option<String> {
        (kind == "node").then(|| crate::vpp::node(name)).flatten()
    }

    fn number(&self, kind: &str, name: &str) -> Option<u64> {
        let mut numbers = named_tables(self, kind, |n| n == name).into_iter().map(|(_, id)| id);
        let first = numbers.next()?;
        // A name that stands for two tables of different numbers says nothing.
        numbers.all(|other| other == first).then_some(first.into())
    }
}

/// The registry of counters, as other processes find it.
pub(crate) fn counters(router: &Router) -> Result<Reader, CommandError> {
    let open = router.plane().registry.file().and_then(Reader::open);
    open.map_err(|e| format!("cannot read the counters: {e}").into())
}

fn counter_names(router: &Router) -> Vec<String> {
    counters(router).map_or(vec![], |r| r.entries().iter().map(|e| e.name.clone()).collect())
}

/// The wanted names of routing tables with their numbers: of one family for `table4` and `table6`, of both for `table`.
fn named_tables(router: &Router, kind: &str, wanted: impl Fn(&str) -> bool) -> Vec<(String, u32)> {
    let families: &[bool] = match kind {
        "table4" => &[false],
        "table6" => &[true],
        "table" => &[false, true],
        _ => &[],
    };
    let names = |v6: bool| router.table_names(v6).filter(|(name, _)| wanted(name)).take(PROPOSED);
    families.iter().flat_map(|v6| names(*v6)).map(|(name, id)| (name.to_owned(), id)).collect()
}

/// Applies the operations of one command: all of them or none.
pub(crate) fn commit(router: &mut Router, ops: Vec<Op>) -> Result<Output, CommandError> {
    router.commit(ops).map_err(|e| CommandError::new(e.message))?;
    Ok(Output::none())
}

/// The interface named by the argument `name`.
pub(crate) fn interface<'r>(
    router: &'r Router,
    args: &Args,
    name: &str,
) -> Result<&'r IfState, CommandError> {
    let given: String = args.get(name)?;
    let found = router.interface_index(&given).and_then(|i| router.interface(i));
    found.ok_or_else(|| args.error(name, format!("there is no interface {given}")))
}

/// The interface of a name that is one of the arguments `interface`.
pub(crate) fn find<'r>(router: &'r Router, args: &Args, name: &str) -> Result<&'r IfState, CommandError> {
    let found = router.interface_index(name).and_then(|i| router.interface(i));
    found.ok_or_else(|| args.error("interface", format!("there is no interface {name}")))
}

/// The rights of who gives a command.
fn identity(args: &Args) -> Option<Identity> {
    args.caller().map(|c| Identity { user: c.user, group: c.group, groups: c.groups.clone() })
}

/// How files that a command names are opened.
pub(crate) fn files(args: &Args) -> Files {
    Files::of(identity(args), args.has("overwrite"))
}

/// Whether the caller has all rights that the router has.
pub(crate) fn is_privileged(args: &Args) -> bool {
    identity(args).is_none_or(|who| who.is_privileged())
}

/// Refuses a namespace that the argument `name` says, unless the caller has all rights that the router has: entering one is
/// for who may do so without the router too.
pub(crate) fn check_namespace(args: &Args, name: &str) -> Result<(), CommandError> {
    match args.opt::<String>(name)? {
        Some(namespace) if !is_privileged(args) => {
            Err(args.error(name, crate::router::namespace_for_root(&namespace)))
        }
        _ => Ok(()),
    }
}

/// `1 route`, `2 routes`.
pub(crate) fn plural(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The name of worker `w` in answers; thread 0 is the control side.
pub(crate) fn thread_label(w: usize) -> String {
    format!("quiver_wk_{w} ({})", w + 1)
}
