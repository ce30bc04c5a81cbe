//! `show bridge-domain`, `show l2fib`.

use crate::l2::bridge::{BridgeState, MacInfo};
use crate::router::{IfState, Membership, Router};
use command::{Args, Command, CommandError, Output, Page};
use serde_json::json;
use std::fmt::Write;
use std::net::IpAddr;
use std::ops::Bound;

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
        b.index.0,
        if s.mac_age == 0 { "off".to_string() } else { s.mac_age.to_string() },
        on(s.learn),
        on(s.forward),
        if s.uu_flood { "flood" } else { "drop" },
        on(s.flood),
        on(s.arp_term),
        on(s.arp_ufwd),
        router.plane().l2.macs.learned_in(b.index.0),
        s.mac_limit.map_or("off".to_string(), |n| n.to_string()),
    )
}

/// What a bridge domain says of itself, as the JSON of a mapping that is still open.
fn bridge_json(router: &Router, b: &BridgeState) -> String {
    let (refused, moves) = super::bridge_events(router, b);
    let s = &b.settings;
    let fields = json!({
        "id": b.id, "index": b.index.0, "mac-age": s.mac_age, "learn": s.learn, "forward": s.forward,
        "uu-flood": s.uu_flood, "flood": s.flood, "arp-term": s.arp_term, "arp-ufwd": s.arp_ufwd,
        "learned": router.plane().l2.macs.learned_in(b.index.0), "learn-limit": s.mac_limit, "bd-tag": s.tag,
        "bvi": b.bvi().map(|i| router.interface_name(i)), "not-learned": refused, "moves": moves,
    });
    let mut open = fields.to_string();
    open.pop();
    open
}

fn member(router: &Router, i: &IfState, m: &Membership, page: &mut Page) {
    let (refused, moves) = super::port_events(router, i);
    let learned = router.plane().l2.macs.learned_on(i.index);
    let told = super::port(router, i.index);
    let tags = told.tag_change.as_ref().map(ToString::to_string);
    let off: Vec<&str> = told.features.off().collect();
    if page.wants_json() {
        page.item(&json!({
            "interface": i.name, "index": i.index, "shg": m.shg, "bvi": m.bvi, "tag-rewrite": tags, "off": off,
            "learned": learned, "learn-limit": told.mac_limit, "not-learned": refused, "moves": moves,
        }));
        return;
    }
    let _ = writeln!(
        page,
        "{:>24}{:>8}{:>5}{:>5}{learned:>10}{:>10}{refused:>13}{moves:>8}  {}{}",
        i.name,
        i.index,
        m.shg,
        if m.bvi { "*" } else { "-" },
        told.mac_limit.map_or("off".to_string(), |n| n.to_string()),
        tags.as_deref().unwrap_or("none"),
        if off.is_empty() { String::new() } else { format!("  off: {}", off.join(", ")) },
    );
}

/// How far a list of bridge domains is.
struct List {
    only: Option<u32>,
    /// What is shown of each in text: its events, its members, its ARP entries.
    words: [bool; 3],
    begun: bool,
    /// The bridge domain that is next, or the first behind the one that is being written.
    from: u32,
    /// The one that is being written.
    within: Option<(u32, Part)>,
}

#[derive(Clone, Copy)]
enum Part {
    /// Its members from this interface on.
    Members(u32),
    /// Its ARP entries behind this one.
    Arp(Option<IpAddr>),
}

impl List {
    fn next(&mut self, router: &Router, page: &mut Page) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            match page.wants_json() {
                true => page.open("["),
                false => _ = page.write_str(&head()),
            }
        }
        loop {
            let Some((id, part)) = self.within else {
                let only = self.only;
                let Some(b) =
                    super::bridges_from(router, self.from).find(|b| only.is_none_or(|id| id == b.id))
                else {
                    break;
                };
                if page.is_full() {
                    return true;
                }
                self.begin(router, b, page);
                continue;
            };
            // One that went meanwhile ends where it is.
            self.within = match (super::bridge(router, id), part) {
                (Some(b), Part::Members(from)) if page.wants_json() || self.words[1] => {
                    for (index, m) in b.members.range(from..) {
                        if page.is_full() {
                            self.within = Some((id, Part::Members(*index)));
                            return true;
                        }
                        if let Some(i) = router.interface(*index) {
                            member(router, i, m, page);
                        }
                    }
                    Some((id, Part::Arp(None)))
                }
                (Some(b), Part::Arp(after)) if page.wants_json() || self.words[2] => {
                    let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
                    for (address, mac) in b.arp.range((behind, Bound::Unbounded)) {
                        if page.is_full() {
                            return true;
                        }
                        self.within = Some((id, Part::Arp(Some(*address))));
                        match page.wants_json() {
                            true => {
                                page.item(&json!({ "address": address.to_string(), "mac": mac.to_string() }));
                            }
                            false => _ = writeln!(page, "{:>42} => {mac}", address.to_string()),
                        }
                    }
                    None
                }
                (_, Part::Members(_)) => Some((id, Part::Arp(None))),
                (_, Part::Arp(_)) => None,
            };
            match self.within {
                Some(_) => self.begin_arp(router, id, page),
                None if page.wants_json() => page.close("]}"),
                None => {}
            }
        }
        if page.wants_json() {
            page.close("]");
        }
        false
    }

    fn begin(&mut self, router: &Router, b: &BridgeState, page: &mut Page) {
        self.from = b.id + 1;
        self.within = Some((b.id, Part::Members(0)));
        if page.wants_json() {
            page.open_item(&(bridge_json(router, b) + ",\"members\":["));
            return;
        }
        let _ = page.write_str(&row(router, b));
        let [events, members, _] = self.words;
        if events {
            let (refused, moves) = super::bridge_events(router, b);
            let _ = writeln!(page, "\n  not learned for a limit {refused}, moves {moves}");
        }
        if members {
            let _ = writeln!(
                page,
                "\n{:>24}{:>8}{:>5}{:>5}{:>10}{:>10}{:>13}{:>8}  VLAN-Tag-Rewrite",
                "Interface", "If-idx", "SHG", "BVI", "Learn-co", "Learn-lim", "Not-learned", "Moves"
            );
        }
    }

    fn begin_arp(&self, router: &Router, id: u32, page: &mut Page) {
        if page.wants_json() {
            page.close("]");
            page.open_field("arp", "[");
        } else if self.words[2] && super::bridge(router, id).is_some_and(|b| !b.arp.is_empty()) {
            let _ = writeln!(page, "\n  IP4/IP6 to MAC table for ARP Termination");
        }
    }
}

fn bridges(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let id: Option<u32> = args.opt("id")?;
    if let Some(id) = id.filter(|id| super::bridge(router, *id).is_none()) {
        return Err(args.error("id", format!("there is no bridge domain {id}")));
    }
    if super::bridges(router).next().is_none() {
        return Ok(Output::new("no bridge domains\n", json!([])));
    }
    let (detail, int, arp) = (args.has("detail"), args.has("int"), args.has("arp"));
    let words = [detail, detail || int, detail || arp];
    let mut list = List { only: id, words, begun: false, from: id.unwrap_or(0), within: None };
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| Ok(list.next(router, page))))
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
    if let Some(id) = id.filter(|id| super::bridge(router, *id).is_none()) {
        return Err(args.error("id", format!("there is no bridge domain {id}")));
    }
    let listed =
        args.has("verbose") || args.has("all") || id.is_some() || args.has("learn") || args.has("add");
    let (learned, fixed) = (args.has("learn"), args.has("add"));
    let wanted = move |m: &MacInfo| {
        id.is_none_or(|id| id == m.bridge) && (!learned || !m.fixed) && (!fixed || m.fixed)
    };
    // A few are sorted; many come in the order of the table.
    let few = super::mac_counts(router);
    let mut sorted = match few.learned as usize + few.fixed <= SORTED && listed {
        true => Some(super::macs(router).into_iter()),
        false => None,
    };
    let (mut begun, mut next) = (false, listed.then_some(0));
    Ok(Output::pages(move |router: &mut Router, page: &mut Page| {
        if !std::mem::replace(&mut begun, true) {
            l2fib_head(router, page, listed);
        }
        while let Some(at) = next {
            if page.is_full() {
                return Ok(true);
            }
            let some: Vec<MacInfo> = match &mut sorted {
                Some(all) => {
                    let some: Vec<MacInfo> = all.take(64).collect();
                    next = (!some.is_empty()).then_some(0);
                    some
                }
                None => {
                    let (some, then) = super::macs_from(router, at);
                    next = then;
                    some
                }
            };
            some.iter().filter(|m| wanted(m)).for_each(|m| mac(router, m, page));
        }
        if page.wants_json() {
            page.close("]}");
        } else {
            let counts = super::mac_counts(router);
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
    let counts = super::mac_counts(router);
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
