//! `mpls`, `set interface mpls`, `show mpls`.

use crate::cli::commit;
use crate::cli::labels::{LABELS, about_labels, labels};
use crate::mpls::show;
use crate::mpls::{LabelBatch, MplsOp, check_label, label_route};
use crate::router::{Lookup, Op, RoutePath, Router, Target};
use command::{Args, Command, CommandError, Output};

fn paths() -> String {
    format!(
        "path:(via (drop|ip4-lookup-in-table <lookup4:u32>|ip6-lookup-in-table <lookup6:u32>|\
         ip-lookup-in-table <lookup:u32>|mpls-lookup-in-table <lookup-mpls:u32>|l2-input-on <input:interface>|<address:ip> [<interface:interface>]) \
         [weight <weight:u8 1..255>] {LABELS})..."
    )
}

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    let mut all = labels_and_tables();
    all.extend(super::tunnel::commands::all());
    all
}

fn labels_and_tables() -> Vec<Command<Router>> {
    let paths = paths();
    let local = |verb: &str| {
        format!("mpls local-label {verb} <label:u32 0..1048575> [eos|non-eos] [table <table:u32>]")
    };
    vec![
        Command::write(
            "set interface mpls <interface:interface> (enable|disable)",
            "Take labelled packets of an interface, or no more",
            |r, a| {
                let feature = super::TAKEN.to(a.has("enable")).into();
                commit(r, vec![Op::SetFeature { name: a.get("interface")?, feature }])
            },
        )
        .details("Without it they are dropped. Labelled packets are sent on any interface.")
        .example("set interface mpls left enable"),
        Command::write("mpls table add <table:u32>", "Add an MPLS table", |r, a| {
            commit(r, vec![Op::from(MplsOp::CreateTable { table: a.get("table")? })])
        })
        .arg("table", "its number; table 0 is there always")
        .details("Labels of packets are looked up in table 0, and in another one where a label leads into it.")
        .example("mpls table add 10"),
        Command::write("mpls table del <table:u32>", "Remove an MPLS table with its labels", |r, a| {
            commit(r, vec![Op::from(MplsOp::DeleteTable { table: a.get("table")? })])
        })
        .arg("table", "its number")
        .example("mpls table del 10"),
        route(Command::write(
            &format!("{} {paths}", local("add")),
            "Add a label, or paths to one",
            |r, a| change(r, a, LabelBatch::add),
        ))
        .details(
            "With out-labels the innermost one takes the place of the label that came (swap), further ones come on top of it. \
             Without them, or with out-label 3, the label is taken off and what is below goes to the next hop (penultimate \
             hop popping). Into a table it is taken off as well, and what is below is looked up there. Several paths share \
             flows by the entropy label, else by the IP packet below, else by the labels. Labels 0 to 2 have their meaning \
             always, 4 to 15 are reserved.",
        )
        .example("mpls local-label add 100 eos via 10.1.2.1 right out-labels 200")
        .example("mpls local-label add 101 eos via ip4-lookup-in-table 0")
        .example("mpls local-label add 102 eos via 10.1.2.1 right out-labels 3")
        .example("mpls local-label add 103 eos via ip-lookup-in-table 0"),
        route(Command::write(
            &format!("{} {paths}", local("set")),
            "Set a label, in place of what it was",
            |r, a| change(r, a, LabelBatch::set),
        ))
        .details("No packet is lost on the way from the old paths to the new ones.")
        .example("mpls local-label set 100 eos via 10.1.2.1 right out-labels 0"),
        route(Command::write(
            &format!("{} [{paths}]", local("del")),
            "Remove a label, or paths of it",
            remove,
        ))
        .details("The label goes with its last path. Weights are not looked at.")
        .example("mpls local-label del 100 eos via 10.1.2.1 right out-labels 200")
        .example("mpls local-label del 100"),
        Command::read(
            "show mpls fib [table <table:u32>] [all|max <routes:u32 1..10000000 routes>|<label:u32 0..1048575>]",
            "Labels, and what becomes of their packets",
            show::fib,
        )
        .arg("table", "number of the table; 0 without it")
        .arg("all", "every label, not only the first 1000")
        .arg("routes", "list so many")
        .arg("label", "only this one, with its next-hop group and adjacencies")
        .example("show mpls fib")
        .example("show mpls fib 100"),
        Command::read("show mpls interface", "Interfaces that take labelled packets", show::interfaces)
            .example("show mpls interface"),
    ]
}

fn route(c: Command<Router>) -> Command<Router> {
    about_labels(c)
        .arg("label", "the label that packets come with")
        .arg("eos", "at the bottom of the stack; without it and non-eos both, as far as the paths allow")
        .arg("non-eos", "above the bottom of the stack")
        .arg("table", "number of the MPLS table; 0 without it")
        .arg("address", "next hop")
        .arg("interface", "interface to it; without it the next hop is looked up in table 0")
        .arg("lookup4", "IPv4 table in which packets are looked up; only eos")
        .arg("lookup6", "IPv6 table in which packets are looked up; only eos")
        .arg("lookup", "tables of both families in which packets are looked up, by their version; only eos")
        .arg("lookup-mpls", "MPLS table in which the next label is looked up; only non-eos")
        .arg("input", "interface on which the frame below the label comes in (pseudowire); only eos")
        .arg("weight", "share of the flows")
        .arg("drop", "drop packets")
}

fn target(router: &Router, args: &Args) -> Result<Option<Target>, CommandError> {
    let (mut paths, mut drops) = (vec![], 0);
    for p in args.groups("path") {
        if p.has("drop") {
            drops += 1;
            continue;
        }
        let input: Option<String> = p.opt("input")?;
        let frame = input.is_some();
        let name: Option<String> = p.opt("interface")?.or(input);
        let into = [
            (p.opt("lookup4")?, Lookup::Ip4),
            (p.opt("lookup6")?, Lookup::Ip6),
            (p.opt("lookup")?, Lookup::Ip),
            (p.opt("lookup-mpls")?, Lookup::Mpls),
        ];
        let other = (None, if frame { Lookup::Frame } else { Lookup::Own });
        let (table, lookup) = into.into_iter().find(|(t, _): &(Option<u32>, _)| t.is_some()).unwrap_or(other);
        paths.push(RoutePath {
            address: p.opt("address")?,
            interface: name.and_then(|n| router.interface_index(&n)),
            table,
            weight: p.opt("weight")?.unwrap_or(1),
            mtu: 0,
            labels: labels(p)?,
            lookup,
        });
    }
    match (paths.is_empty(), drops) {
        (_, 0) => Ok((!paths.is_empty()).then_some(Target::Paths(paths))),
        (true, 1) => Ok(Some(Target::Drop)),
        _ => Err("drop stands alone".into()),
    }
}

/// For which place in the stack a label is meant: what was said, or what its paths allow.
fn bottoms(args: &Args, target: Option<&Target>) -> Vec<bool> {
    match args.one_of(&["eos", "non-eos"]) {
        Some("eos") => vec![true],
        Some(_) => vec![false],
        None => {
            let paths = match target {
                Some(Target::Paths(p)) => p.as_slice(),
                _ => &[],
            };
            let ip = paths.iter().any(|p| p.lookup.ends_stack());
            let mpls = paths.iter().any(|p| p.lookup == Lookup::Mpls);
            [true, false].into_iter().filter(|bottom| if *bottom { !mpls || ip } else { !ip }).collect()
        }
    }
}

fn change(
    router: &mut Router,
    args: &Args,
    verb: impl Fn(&mut LabelBatch, u32, bool, &Target),
) -> Result<Output, CommandError> {
    let label: u32 = args.get("label")?;
    check_label(label).map_err(|e| args.error("label", e))?;
    let target = target(router, args)?.ok_or("a label needs a path")?;
    let mut batch = LabelBatch::in_table(args.opt("table")?.unwrap_or(0));
    for bottom in bottoms(args, Some(&target)) {
        verb(&mut batch, label, bottom, &target);
    }
    commit(router, vec![Op::from(MplsOp::Routes(batch))])
}

fn remove(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let label: u32 = args.get("label")?;
    check_label(label).map_err(|e| args.error("label", e))?;
    let table = args.opt("table")?.unwrap_or(0);
    let target = target(router, args)?;
    let mut batch = LabelBatch::in_table(table);
    let said = args.one_of(&["eos", "non-eos"]).is_some();
    let mut bottoms = bottoms(args, target.as_ref());
    // Without a word that says which, those go that are there.
    if !said && bottoms.iter().any(|b| label_route(router, table, label, *b).is_some()) {
        bottoms.retain(|b| label_route(router, table, label, *b).is_some());
    }
    for bottom in bottoms {
        match &target {
            Some(target) => batch.del_paths(label, bottom, target),
            None => batch.del(label, bottom),
        }
    }
    commit(router, vec![Op::from(MplsOp::Routes(batch))])
}
