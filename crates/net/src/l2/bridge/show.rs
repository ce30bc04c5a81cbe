//! `show bridge-domain`, `show l2fib`.

use crate::router::{BridgeState, MacInfo, Router};
use command::{Args, Command, CommandError, Output, Page};
use serde_json::{Value as Json, json};
use std::fmt::Write;

/// Addresses that are sorted before they are listed, at most.
const SORTED: usize = 4096;

pub(super) fn all() -> Vec<Command<Router>> {
    vec![
        Command::read("show bridge-domain [<id:u32 1..16777215> [detail|int|arp]]", "Bridge domains", bridges)
            .arg("id", "number of a bridge domain")
            .arg("detail", "its members, its ARP entries and what it did not learn")
            .arg("int", "its members")
            .arg("arp", "its ARP entries")
            .details("Learn-lim is the most addresses that are learned; 'off' where only the router's own limit counts.")
            .example("show bridge-domain")
            .example("show bridge-domain 10 detail"),
        Command::read(
            "show l2fib [verbose|all] [bd_id <id:u32 1..16777215>] [learn|add]",
            "Addresses of bridge domains",
            l2fib,
        )
        .arg("verbose", "each address")
        .arg("all", "as verbose")
        .arg("id", "only those of a bridge domain")
        .arg("learn", "only those that were learned")
        .arg("add", "only those that are static")
        .details("Without further words: how many there are. Ages are minutes, in steps of 8 seconds. Up to 4096 addresses are sorted; more come \
             in the order of the table, and one may come twice while the table grows.")
        .example("show l2fib")
        .example("show l2fib verbose"),
    ]
}

fn on(flag: bool) -> &'static str {
    if flag { "on" } else { "off" }
}

fn row(router: &Router, b: &BridgeState) -> String {
    let s = &b.settings;
    let bvi = b.bvi().map_or("N/A".to_string(), |i| router.interface_name(i));
    format!(
        "{:>8}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}  {bvi}\n",
        b.id,
        b.number,
        if s.mac_age == 0 { "off".to_string() } else { s.mac_age.to_string() },
        on(s.learn),
        on(s.forward),
        if s.uu_flood { "flood" } else { "drop" },
        on(s.flood),
        on(s.arp_term),
        on(s.arp_ufwd),
        router.plane().l2.macs.learned_in(b.number),
        s.mac_limit.map_or("off".to_string(), |n| n.to_string()),
    )
}

fn bridge_json(router: &Router, b: &BridgeState) -> Json {
    let (refused, moves) = router.bridge_events(b);
    let s = &b.settings;
    let members: Vec<Json> = b
        .members
        .iter()
        .filter_map(|(i, m)| {
            let i = router.interface(*i)?;
            let (refused, moves) = router.port_events(i);
            let tags = i.tag_change.as_ref().map(ToString::to_string);
            let off: Vec<&str> = i.port_features.off().collect();
            Some(json!({
                "interface": i.name, "index": i.index, "shg": m.shg, "bvi": m.bvi, "tag-rewrite": tags, "off": off,
                "learned": router.plane().l2.macs.learned_on(i.index), "learn-limit": i.mac_limit,
                "not-learned": refused, "moves": moves,
            }))
        })
        .collect();
    let arp: Vec<Json> =
        b.arp.iter().map(|(a, m)| json!({ "address": a.to_string(), "mac": m.to_string() })).collect();
    json!({
        "id": b.id, "index": b.number, "mac-age": s.mac_age, "learn": s.learn, "forward": s.forward,
        "uu-flood": s.uu_flood, "flood": s.flood, "arp-term": s.arp_term, "arp-ufwd": s.arp_ufwd,
        "learned": router.plane().l2.macs.learned_in(b.number), "learn-limit": s.mac_limit, "bd-tag": s.tag,
        "bvi": b.bvi().map(|i| router.interface_name(i)), "not-learned": refused, "moves": moves,
        "members": members, "arp": arp,
    })
}

fn members(router: &Router, b: &BridgeState, text: &mut String) {
    let _ = writeln!(
        text,
        "\n{:>24}{:>8}{:>5}{:>5}{:>10}{:>10}{:>13}{:>8}  VLAN-Tag-Rewrite",
        "Interface", "If-idx", "SHG", "BVI", "Learn-co", "Learn-lim", "Not-learned", "Moves"
    );
    for (index, m) in &b.members {
        let Some(i) = router.interface(*index) else { continue };
        let (refused, moves) = router.port_events(i);
        let tags = match &i.tag_change {
            Some(change) => change.to_string(),
            None => "none".into(),
        };
        let off: Vec<&str> = i.port_features.off().collect();
        let off = if off.is_empty() { String::new() } else { format!("  off: {}", off.join(", ")) };
        let limit = i.mac_limit.map_or("off".to_string(), |n| n.to_string());
        let _ = writeln!(
            text,
            "{:>24}{:>8}{:>5}{:>5}{:>10}{:>10}{:>13}{:>8}  {tags}{off}",
            i.name,
            i.index,
            m.shg,
            if m.bvi { "*" } else { "-" },
            router.plane().l2.macs.learned_on(*index),
            limit,
            refused,
            moves
        );
    }
}

fn arp(b: &BridgeState, text: &mut String) {
    if !b.arp.is_empty() {
        let _ = writeln!(text, "\n  IP4/IP6 to MAC table for ARP Termination");
    }
    for (address, mac) in &b.arp {
        let _ = writeln!(text, "{:>42} => {mac}", address.to_string());
    }
}

fn bridges(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let id: Option<u32> = args.opt("id")?;
    if let Some(id) = id.filter(|id| router.bridge(*id).is_none()) {
        return Err(args.error("id", format!("there is no bridge domain {id}")));
    }
    if router.bridges().next().is_none() {
        return Ok(Output::new("no bridge domains\n", json!([])));
    }
    let (detail, int, with_arp) = (args.has("detail"), args.has("int"), args.has("arp"));
    let (mut begun, mut from) = (false, id.unwrap_or(0));
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        if !std::mem::replace(&mut begun, true) {
            match page.wants_json() {
                true => page.open("["),
                false => _ = page.write_str(&head()),
            }
        }
        for b in router.bridges_from(from).filter(|b| id.is_none_or(|id| id == b.id)) {
            if page.is_full() {
                return Ok(true);
            }
            from = b.id + 1;
            if page.wants_json() {
                page.item(&bridge_json(router, b));
                continue;
            }
            let mut text = row(router, b);
            if detail {
                let (refused, moves) = router.bridge_events(b);
                let _ = writeln!(text, "\n  not learned for a limit {refused}, moves {moves}");
            }
            if detail || int {
                members(router, b, &mut text);
            }
            if detail || with_arp {
                arp(b, &mut text);
            }
            let _ = page.write_str(&text);
            if id.is_some() {
                break;
            }
        }
        if page.wants_json() {
            page.close("]");
        }
        Ok(false)
    }))
}

fn head() -> String {
    format!(
        "{:>8}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}  BVI-Intf\n",
        "BD-ID",
        "Index",
        "Age(min)",
        "Learning",
        "U-Forwrd",
        "UU-Flood",
        "Flooding",
        "ARP-Term",
        "arp-ufwd",
        "Learn-co",
        "Learn-lim"
    )
}

fn l2fib(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let id: Option<u32> = args.opt("id")?;
    if let Some(id) = id.filter(|id| router.bridge(*id).is_none()) {
        return Err(args.error("id", format!("there is no bridge domain {id}")));
    }
    let listed =
        args.has("verbose") || args.has("all") || id.is_some() || args.has("learn") || args.has("add");
    let (learned, fixed) = (args.has("learn"), args.has("add"));
    let wanted = move |m: &MacInfo| {
        id.is_none_or(|id| id == m.bridge) && (!learned || !m.fixed) && (!fixed || m.fixed)
    };
    // A few are sorted; many come in the order of the table.
    let few = router.mac_counts();
    let mut sorted = match few.learned as usize + few.fixed <= SORTED && listed {
        true => Some(router.macs().into_iter()),
        false => None,
    };
    let (mut begun, mut next) = (false, listed.then_some(0));
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        if !std::mem::replace(&mut begun, true) {
            l2fib_head(router, page, listed);
        }
        while let Some(at) = next {
            let some: Vec<MacInfo> = match &mut sorted {
                Some(all) => {
                    let some: Vec<MacInfo> = all.take(64).collect();
                    next = (!some.is_empty()).then_some(0);
                    some
                }
                None => {
                    let (some, then) = router.macs_from(at);
                    next = then;
                    some
                }
            };
            some.iter().filter(|m| wanted(m)).for_each(|m| mac(router, m, page));
            if page.is_full() {
                return Ok(true);
            }
        }
        if page.wants_json() {
            page.close("]}");
        } else {
            let counts = router.mac_counts();
            let total = counts.fixed + counts.learned as usize;
            let _ = writeln!(
                page,
                "L2FIB total/learned entries: {total}/{}  Learn limit: {}  Room: {}",
                counts.learned, counts.limit, counts.room
            );
        }
        Ok(false)
    }))
}

fn l2fib_head(router: &Router, page: &mut Page, listed: bool) {
    let counts = router.mac_counts();
    let total = counts.fixed + counts.learned as usize;
    if page.wants_json() {
        page.open(&format!(
            "{{\"total\":{total},\"learned\":{},\"limit\":{},\"room\":{},\"entries\":[",
            counts.learned, counts.limit, counts.room
        ));
    } else if listed {
        let _ = writeln!(
            page,
            "{:>19}{:>10}{:>8}{:>10}{:>8}{:>8}{:>5}  Interface-Name",
            "Mac-Address", "BD-ID", "If-Idx", "Age(min)", "static", "filter", "bvi"
        );
    }
}

fn mac(router: &Router, m: &MacInfo, page: &mut Page) {
    let name = m.interface.map(|i| router.interface_name(i));
    if page.wants_json() {
        return page.item(&json!({
            "mac": m.mac.to_string(), "bridge-domain": m.bridge, "interface": name, "age": m.age, "static": m.fixed,
            "filter": m.interface.is_none(), "bvi": m.bvi,
        }));
    }
    let star = |on: bool| if on { "*" } else { "-" };
    let age = m.age.map_or("no".to_string(), |s| format!("{:.1}", s as f64 / 60.0));
    let _ = writeln!(
        page,
        "{:>19}{:>10}{:>8}{:>10}{:>8}{:>8}{:>5}  {}",
        m.mac.to_string(),
        m.bridge,
        m.interface.map_or("-".to_string(), |i| i.to_string()),
        age,
        star(m.fixed),
        star(m.interface.is_none()),
        star(m.bvi),
        name.as_deref().unwrap_or("-"),
    );
}
