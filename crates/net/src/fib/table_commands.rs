//! `ip table`, `show ip table`, `set interface ip table`, `set ip flow-hash`.

use crate::cli::commit;
use crate::router::{Op, OpError, RouteTable, Router, TableInfo};
use command::{Args, Command, CommandError, Output, Page, Table, Widths};
use packet::flow::Fields;
use serde_json::json;
use std::collections::HashMap;

/// Routes that are changed at a time, where a command changes many.
pub(super) const AT_ONCE: usize = 256;

/// The commands of one family; `word` is `ip` or `ip6`.
pub(super) fn all(word: &'static str, v6: bool) -> Vec<Command<Router>> {
    let family = if v6 { "IPv6" } else { "IPv4" };
    let number = if v6 { "table6" } else { "table4" };
    let label = if v6 { " [flowlabel]" } else { "" };
    let mut hash = Command::write(
        &format!(
            "set {word} flow-hash [table <table:number {number}>] [src] [dst] [sport] [dport] [proto] [reverse] [symmetric]{label}"
        ),
        &format!("What tells {family} flows apart where a route has several paths"),
        move |r, a| set_hash(r, a, v6),
    )
    .arg("table", "number of the table; 0 without it")
    .arg("src", "source address")
    .arg("dst", "destination address")
    .arg("sport", "source port")
    .arg("dport", "destination port")
    .arg("proto", "protocol")
    .arg("reverse", "source and destination change places")
    .arg("symmetric", "both directions of a flow take the same path: src with dst, sport with dport, no flowlabel")
    .details("Without any field it is src dst sport dport proto again.")
    .example(&format!("set {word} flow-hash table 0 src dst sport dport proto symmetric"));
    if v6 {
        hash = hash.arg("flowlabel", "flow label (RFC 6438)");
    }
    vec![
        Command::write(
            &format!("{word} table add <table:u32> [<name:string>]"),
            &format!("Add an {family} routing table (a VRF)"),
            move |r, a| {
                let table = RouteTable { v6, id: a.get("table")? };
                let name: Option<String> = a.opt("name")?;
                commit(r, vec![Op::CreateTable { table, name }])
            },
        )
        .arg("table", "its number; 0 is there always")
        .arg("name", "a name for it")
        .details(
            "Packets are looked up in the table of the interface on which they came. Interfaces are put into a table by \
             'set interface ip table'; different tables may hold the same prefixes.",
        )
        .example(&format!("{word} table add 10 customers")),
        Command::write(
            &format!("{word} table del <table:number {number}>"),
            &format!("Remove an {family} routing table and its static routes"),
            move |r, a| delete(r, RouteTable { v6, id: a.get("table")? }),
        )
        .arg("table", "its number")
        .details(
            "No interface may be in it, and no route of another table lead into it. The routes of a large table go some \
             hundred at a time, and neighbors and other commands have their turn between.",
        )
        .example(&format!("{word} table del 10")),
        Command::write(
            &format!("set interface {word} table <interface:interface> <table:number {number}>"),
            &format!("Put an interface into an {family} routing table"),
            move |r, a| {
                let table = RouteTable { v6, id: a.get("table")? };
                commit(r, vec![Op::SetTable { name: a.get("interface")?, table }])
            },
        )
        .arg("interface", "an interface without addresses of the family")
        .arg("table", "number of the table")
        .details("Its addresses, their connected routes and its neighbors are then in that table.")
        .example(&format!("set interface {word} table left 10")),
        hash,
        Command::write(
            &format!("set {word} table <table:number {number}> when-down (withdraw|unreachable)"),
            &format!("What becomes of {family} prefixes of a table while none of their routes leads anywhere"),
            move |r, a| {
                let table = RouteTable { v6, id: a.get("table")? };
                commit(r, vec![Op::SetWhenDown { table, withdraw: a.has("withdraw") }])
            },
        )
        .arg("table", "number of the table")
        .arg("withdraw", "they are taken out of the table until a path is back, and shorter prefixes serve")
        .arg("unreachable", "their packets are answered with ICMP \"host unreachable\"; the default")
        .details(
            "A route leads nowhere while the interfaces of all its paths are down, or no route leads to its next hops. A \
             connected prefix leads nowhere while its interface cannot send; the router's own addresses stay. 'show ip fib' \
             and 'fib why' tell what is withdrawn. Of a large table some thousand prefixes change at a time, and others have \
             their turn between.",
        )
        .example(&format!("set {word} table 10 when-down withdraw")),
        Command::read(
            &format!("show {word} table"),
            &format!("{family} routing tables"),
            move |_, _| Ok(show(v6)),
        )
        .example(&format!("show {word} table")),
    ]
}

/// Removes a table. The routes of a large one go before it, some at a time, so that others have their turn.
fn delete(router: &mut Router, table: RouteTable) -> Result<Output, CommandError> {
    let refused = |e: OpError| CommandError::new(e.message);
    let whole = move |router: &mut Router| commit(router, vec![Op::DeleteTable { table }]);
    if router.route_count(table) <= AT_ONCE {
        return whole(router);
    }
    router.check_no_interfaces(table).map_err(refused)?;
    // Whether the routes that lead into the table are all its own shows when its own are counted.
    let (mut own, mut counted) = (HashMap::new(), false);
    let (mut after, mut gone) = (None, 0);
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        let told = |e: CommandError, gone: usize| match gone {
            0 => e,
            _ => CommandError::new(format!("{}; {gone} of its routes are removed", e.message)),
        };
        while !page.is_full() {
            let behind = after;
            let some: Vec<_> = router.routes_after(table, behind).take(AT_ONCE).collect();
            after = some.last().map_or(behind, |r| Some(r.prefix));
            if !counted {
                let all = some.iter().flat_map(|r| router.routes_of_prefix(r)).filter(|e| e.is_set());
                all.for_each(|e| *own.entry(e.group).or_insert(0) += 1);
            }
            if after != behind && !counted {
                continue;
            } else if after != behind {
                let more = some.len();
                let ops = router.removal(table, some);
                commit(router, ops).map_err(|e| told(e, gone))?;
                gone += more;
            } else if counted {
                return whole(router).map(|_| false).map_err(|e| told(e, gone));
            } else {
                router.check_removable(table, &own).map_err(refused)?;
                (counted, after) = (true, None);
            }
        }
        Ok(true)
    }))
}

fn set_hash(router: &mut Router, args: &Args, v6: bool) -> Result<Output, CommandError> {
    let table = RouteTable { v6, id: args.opt("table")?.unwrap_or(0) };
    let chosen = Fields::ALL.into_iter().filter(|(word, _)| args.has(word));
    let fields = chosen.fold(Fields::NONE, |all, (_, f)| all.with(f)).or_five_tuple();
    commit(router, vec![Op::SetFlowHash { table, fields }])
}

fn show(v6: bool) -> Output {
    let (mut next, mut begun) = (Some(RouteTable { v6, id: 0 }), false);
    let mut widths = Widths::default();
    Output::pages(move |router: &mut Router, page: &mut Page| {
        if page.wants_json() && !std::mem::replace(&mut begun, true) {
            page.open("[");
        }
        let mut rows = Table::new()
            .right("FIB index")
            .right("Table")
            .left("Name")
            .right("Routes")
            .right("KiB")
            .right("Interfaces")
            .left("Flow hash")
            .left("When down");
        while let Some(at) = next
            && !page.is_full()
        {
            next = router.table_after(at);
            let Some(t) = router.table_info(at) else { continue };
            let TableInfo {
                table,
                fib_index,
                name,
                routes,
                bytes,
                compact,
                interfaces,
                fields,
                withdraws,
                withdrawn,
            } = t;
            let when_down = if withdraws { "withdraw" } else { "unreachable" };
            let hash: Vec<&str> = fields.words().collect();
            if page.wants_json() {
                page.item(&json!({
                    "fib-index": fib_index.0, "place": fib_index.0, "table": table.id, "name": name,
                    "routes": routes, "bytes": bytes,
                    "compact": compact, "interfaces": interfaces, "flow-hash": hash,
                    "when-down": when_down, "withdrawn": withdrawn,
                }));
                continue;
            }
            rows.row([
                fib_index.0.into(),
                table.id.into(),
                name.unwrap_or_default().into(),
                routes.into(),
                (bytes / 1024).into(),
                interfaces.into(),
                hash.join(" ").into(),
                match withdrawn {
                    0 => when_down.into(),
                    n => format!("{when_down} ({n} now)").into(),
                },
            ]);
        }
        rows.write_rows(page, &mut widths);
        if page.wants_json() && next.is_none() {
            page.close("]");
        }
        Ok(next.is_some())
    })
}
