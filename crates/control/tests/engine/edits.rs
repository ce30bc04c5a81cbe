//! The changes of places that turn one document into another, carried out on a router that runs the first, make it as one that was
//! started with the second.

use super::*;
use control::edit::{Act, Base, Change, Edited, Place, Reading as Tree, Value as Text};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

impl Running {
    fn base(&self) -> Base {
        let mut tree = Tree::of(&self.router, true);
        while tree.next(Source { router: &self.router, settings: &self.settings }).unwrap() {}
        tree.base()
    }

    fn edited(&self, changes: &[Change]) -> Edited {
        self.base().edit(changes).unwrap_or_else(|e| panic!("{}\n{changes:#?}", e.message))
    }

    fn json(&self) -> Map<String, Value> {
        match Dump::json(Source { router: &self.router, settings: &self.settings }) {
            Value::Object(map) => map,
            other => panic!("{other}"),
        }
    }
}

fn change(place: &[&str], act: Act) -> Change {
    Change { place: Place::of(place.iter().map(|e| (*e).to_owned()).collect()).unwrap(), act }
}

fn set(place: &[&str], value: impl ToString) -> Change {
    change(place, Act::Set(Text::text(value.to_string())))
}

/// The text of each section of a dump, and in order the names right below it.
fn sections(dump: &str) -> BTreeMap<String, (String, Vec<String>)> {
    let mut all: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    let mut name = String::new();
    for line in dump.lines() {
        let key = |line: &str| line.split(':').next().unwrap().trim_matches('"').to_owned();
        if !line.starts_with(' ') {
            name = key(line);
            all.entry(name.clone()).or_default();
            continue;
        }
        let (text, names) = all.get_mut(&name).unwrap();
        text.push_str(line);
        text.push('\n');
        if line.starts_with("  ") && !line.starts_with("   ") && !line.trim_start().starts_with(['-', '#']) {
            names.push(key(line.trim_start()));
        }
    }
    all
}

/// What brings a mapping of fields to another, one field at a time, by merging where `merges`.
fn fields(at: &[&str], a: &Map<String, Value>, b: &Map<String, Value>, merges: bool, out: &mut Vec<Change>) {
    if merges {
        let mut patch = Map::new();
        let gone = a.keys().filter(|k| !b.contains_key(*k)).map(|k| (k.clone(), Value::Null));
        // A mapping would be merged into, so that a list of fields is what is said whole.
        let new = b.iter().filter(|(k, v)| a.get(*k) != Some(v)).map(|(k, v)| (k.clone(), v.clone()));
        patch.extend(gone.chain(new));
        if patch.values().all(|v| !v.is_object()) {
            out.push(change(at, Act::Merge(Text::text(Value::Object(patch).to_string()))));
            return;
        }
    }
    for name in a.keys().filter(|k| !b.contains_key(*k)) {
        out.push(change(&[at, &[name]].concat(), Act::Delete));
    }
    for (name, value) in b.iter().filter(|(k, v)| a.get(*k) != Some(v)) {
        let place = [at, &[name]].concat();
        match (a.get(name), value) {
            // The order of sub-interfaces says in which order they are made.
            (Some(Value::Object(a)), Value::Object(b)) if name != "sub-interfaces" => {
                fields(&place, a, b, merges, out)
            }
            _ => out.push(set(&place, value)),
        }
    }
}

/// What brings the routes to others, one route at a time.
fn routes(a: &Value, b: &Value, out: &mut Vec<Change>) {
    let list =
        |v: &Value| v.as_array().unwrap().iter().map(|r| r.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let element = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let mut element = format!("prefix={}", words[0]);
        for (name, usual) in [("table", "0"), ("preference", "5"), ("metric", "0")] {
            let said = words.windows(2).take_while(|w| w[0] != "via").find(|w| w[0] == name).map(|w| w[1]);
            let usual = if name == "preference" {
                net::router::Rank::STATIC.preference.to_string()
            } else {
                usual.into()
            };
            element += &format!(",{name}={}", said.unwrap_or(&usual));
        }
        element
    };
    let (a, b) = (list(a), list(b));
    let kept: Vec<String> = b.iter().map(|r| element(r)).collect();
    for gone in a.iter().map(|r| element(r)).filter(|e| !kept.contains(e)) {
        out.push(change(&["routes", &gone], Act::Delete));
    }
    for line in b.iter().filter(|r| !a.contains(r)) {
        out.push(set(&["routes", &element(line)], Value::from(line.as_str())));
    }
}

/// The changes from what one router runs to what another one does, told by its dump in JSON and as text.
fn changes(a: &Running, (to, dump): (&Map<String, Value>, &str), merges: bool) -> Vec<Change> {
    let (from, texts, were) = (a.json(), sections(dump), sections(&a.dump()));
    let mut out = vec![];
    for name in from.keys().filter(|k| !to.contains_key(*k)) {
        out.push(change(&[name], Act::Delete));
    }
    for (name, value) in to {
        let (text, names) = &texts[name];
        let had = were.get(name).map_or(&[] as &[String], |(_, names)| names);
        // Where a change is made the others stay in their order, and what is new comes behind them.
        let stays: Vec<&String> = had.iter().filter(|n| names.contains(n)).collect();
        let behind: Vec<&String> = names.iter().filter(|n| !had.contains(n)).collect();
        let in_order = [stays, behind].concat() == names.iter().collect::<Vec<_>>();
        match (from.get(name), value) {
            (Some(was), _) if was == value && in_order => {}
            (Some(was), _) if name == "routes" => routes(was, value, &mut out),
            (Some(Value::Object(was)), Value::Object(is)) if in_order && behind_in_order(had, names) => {
                fields(&[name], was, is, merges, &mut out);
            }
            _ => out.push(set(&[name], text)),
        }
    }
    out
}

/// Whether new names come in the order in which JSON has them.
fn behind_in_order(had: &[String], names: &[String]) -> bool {
    names.iter().filter(|n| !had.contains(n)).is_sorted()
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn changes_of_places_make_any_document_of_any_other(a in document(), b in document(), merges in any::<bool>()) {
        // One after the other: both may have the same devices.
        let second = try_start(&b).map(|r| (r.json(), r.dump()));
        let first = try_start(&a);
        prop_assume!(first.is_some() && second.is_some());
        let (mut running, (json, wanted)) = (first.unwrap(), second.unwrap());
        let all = changes(&running, (&json, &wanted), merges);
        if all.is_empty() {
            prop_assert_eq!(running.dump(), wanted);
            return Ok(());
        }
        let edited = running.edited(&all);
        running.apply(&edited.text);
        same(&running.dump(), &wanted, &format!("{all:#?}\n{}", edited.text), "edited");
    }
}

#[test]
fn a_change_that_says_what_is_so_changes_nothing() {
    let running = start(TWO);
    let edited = running.edited(&[set(&["loopbacks", "loop0", "mtu"], 9000)]);
    assert_eq!(
        (edited.text.as_str(), words(&running.plan(&edited.text)).as_str()),
        (running.dump().as_str(), "")
    );
}

#[test]
fn routes_are_changed_by_their_place() {
    let running = start(
        "loopbacks: {loop0: {addresses: [10.0.0.1/24]}}\ntables: {7: {}}\nroutes:\n  - 10.1.0.0/16 via 10.0.0.9\n  - \
                         10.1.0.0/16 preference 200 drop\n  - 10.1.0.0/16 table 7 drop\n  - 10.2.0.0/16 drop\n",
    );
    let lines = |changes: &[Change]| {
        let text = running.edited(changes).text.clone();
        let lines: Vec<String> =
            text.lines().filter_map(|l| l.strip_prefix("  - ").map(str::to_owned)).collect();
        (text.contains("routes:"), lines)
    };
    let is = |changes: &[Change], want: &[&str]| {
        assert_eq!(lines(changes), (!want.is_empty(), want.iter().map(|w| w.to_string()).collect()))
    };
    let all = [
        "10.1.0.0/16 via 10.0.0.9",
        "10.1.0.0/16 preference 200 drop",
        "10.2.0.0/16 drop",
        "10.1.0.0/16 table 7 drop",
    ];
    is(
        &[set(&["routes", "prefix=10.2.0.0/16"], "via 10.0.0.8")],
        &[all[0], all[1], "10.2.0.0/16 via 10.0.0.8", all[3]],
    );
    is(
        &[set(&["routes", "prefix=10.1.0.0/16,table=7"], "unreachable")],
        &[all[0], all[1], all[2], "10.1.0.0/16 table 7 unreachable"],
    );
    // The only one there is keeps its rank, unless the value says another.
    let one = change(&["routes", "prefix=10.1.0.0/16,preference=1"], Act::Delete);
    let change_it = |to: &str| [one.clone(), set(&["routes", "prefix=10.1.0.0/16"], to)];
    is(&change_it("via 10.0.0.8"), &["10.1.0.0/16 preference 200 via 10.0.0.8", all[2], all[3]]);
    is(&change_it("10.1.0.0/16 preference 9 drop"), &["10.1.0.0/16 preference 9 drop", all[2], all[3]]);
    is(&[change(&["routes", "prefix=10.1.0.0/16,preference=200"], Act::Delete)], &[all[0], all[2], all[3]]);
    is(
        &[set(&["routes", "+"], "10.3.0.0/16 drop"), change(&["routes", "prefix=10.3.0.0/16"], Act::Delete)],
        &all,
    );
    is(
        &[
            set(&["routes", "prefix=10.3.0.0/16"], "drop"),
            set(&["routes", "prefix=10.3.0.0/16"], "{via: [10.0.0.7]}"),
        ],
        &[all[0], all[1], all[2], all[3], "{via: [10.0.0.7], prefix: 10.3.0.0/16}"],
    );
    is(&[change(&["routes"], Act::Delete)], &[]);
    is(&[change(&["routes"], Act::Delete), set(&["routes", "+"], "10.3.0.0/16 drop")], &["10.3.0.0/16 drop"]);
    is(&[set(&["routes"], "[10.4.0.0/16 drop]")], &["10.4.0.0/16 drop"]);
    is(
        &[change(
            &[],
            Act::Merge(Text::text("{routes: [10.4.0.0/16 drop], loopbacks: {loop0: {mtu: 1400}}}")),
        )],
        &["10.4.0.0/16 drop"],
    );
}

#[test]
fn what_is_wrong_is_told_of_its_change() {
    let running = start(
        "loopbacks: {loop0: {addresses: [10.0.0.1/24, 10.0.0.2/24], mtu: 9000}}\nroutes:\n  - 10.1.0.0/16 drop\n  - 10.1.0.0/16 metric 5 drop\n",
    );
    let before = running.dump();
    let mtu = || set(&["loopbacks", "loop0", "mtu"], 1400);
    let refused = |wrong: Change, rule: &str, says: &str| {
        let e = running.base().edit(&[mtu(), wrong]).unwrap_err();
        let fault = &e.faults[0];
        assert_eq!((fault.change, fault.rule.as_str()), (2, rule), "{e:?}");
        assert!(
            e.message.starts_with("nothing was changed: change 2, ") && e.message.contains(says),
            "{}",
            e.message
        );
        assert!(!fault.help.is_empty(), "{fault:?}");
    };
    refused(change(&["loopbacks", "loop1"], Act::Delete), "place", "fields here: loop0");
    refused(
        change(&["loopbacks", "loop0", "addresses", "10.0.0.3/24"], Act::Delete),
        "place",
        "items here: 10.0.0.1/24",
    );
    refused(change(&["loopbacks", "loop0", "addresses", "7"], Act::Delete), "place", "no item is 7");
    refused(set(&["loopbacks", "loop0", "mtu", "x"], 1), "place", "a single value has nothing below it");
    refused(
        set(&["loopbacks", "loop0", "addresses", "10.0.0.1/24"], "10.0.0.7/24"),
        "place",
        "is not the item",
    );
    refused(set(&["loopbacks", "loop0"], "{a"), "yaml-syntax", "loopbacks.loop0");
    refused(set(&[], "{}"), "place", "configuration apply");
    refused(change(&[], Act::Delete), "place", "name a place");
    refused(change(&["loopbacks", "loop0"], Act::Merge(Text::text("7"))), "type", "mapping");
    refused(
        change(&["loopbacks", "loop0", "mtu"], Act::Merge(Text::text("{a: 1}"))),
        "type",
        "a single value stands there",
    );
    refused(change(&["routes"], Act::Merge(Text::text("{a: 1}"))), "type", "routes");
    refused(change(&["routes", "prefix=10.1.0.0/16"], Act::Delete), "place", "2 routes are");
    let ranks = "`preference=1,metric=0`, `preference=1,metric=5`";
    refused(change(&["routes", "prefix=10.1.0.0/16"], Act::Delete), "place", ranks);
    refused(change(&["routes", "prefix=10.9.0.0/16"], Act::Delete), "place", "no route is");
    refused(change(&["routes", "10.1.0.0/16"], Act::Delete), "place", "names no route");
    refused(set(&["routes", "prefix=10.1.0.0/16", "via"], 1), "place", "as a whole");
    refused(set(&["routes", "prefix=10.9.0.0/16"], "10.8.0.0/16 drop"), "place", "is not the route");
    assert!(running.base().edit(&[]).is_err());
    // What the document's own rules find is told of the change as well.
    for (wrong, place) in [
        (set(&["loopbacks", "loop0", "mtu"], 7), "loopbacks.loop0.mtu"),
        (set(&["loopbacks", "loop0", "mtuu"], 7), "loopbacks.loop0.mtuu"),
        (set(&["routes", "prefix=10.5.0.0/16"], "via 10.0.0.9 gone"), "routes[prefix=10.5.0.0/16]"),
    ] {
        let edited = running.edited(&[set(&["loopbacks", "loop0", "description"], "x"), wrong]);
        let found = yaml::load("document", &edited.text).unwrap_err();
        let faults = edited.explain(found.faults(10));
        assert_eq!(
            (faults[0].change, faults[0].object.as_str(), faults[0].line),
            (2, place, 0),
            "{faults:?}"
        );
    }
    // Also behind routes that go and come.
    let edited = running.edited(&[
        change(&["routes", "prefix=10.1.0.0/16,metric=5"], Act::Delete),
        set(&["routes", "+"], "10.6.0.0/16 drop"),
        set(&["routes", "prefix=10.5.0.0/16"], "via 10.0.0.9 gone"),
        set(&["routes", "+"], "10.7.0.0/16 drop"),
        change(&["routes", "prefix=10.6.0.0/16"], Act::Delete),
    ]);
    let found = yaml::load("document", &edited.text).unwrap_err();
    assert_eq!(edited.explain(found.faults(10))[0].change, 3, "{found}");
    assert_eq!(running.dump(), before);
}

#[test]
fn what_stands_at_a_place_is_read() {
    let running = start(TWO);
    let get = |place: &str| running.base().get(&Place::parse(place).unwrap());
    assert_eq!(get("loopbacks.loop0.mtu").unwrap(), "9000");
    assert_eq!(get("loopbacks.loop0.addresses[1]").unwrap(), "\"10.0.0.2/24\"");
    assert_eq!(get("routes[prefix=10.1.0.0/16]").unwrap(), "\"10.1.0.0/16 via 10.0.0.9\"");
    assert_eq!(get("routes").unwrap(), running.json()["routes"].to_string());
    let whole: Value = serde_json::from_str(&get("").unwrap()).unwrap();
    assert_eq!(whole, Value::Object(running.json()));
    let missing = get("loopbacks.loop1.mtu").unwrap_err();
    assert_eq!(
        (missing.faults[0].rule.as_str(), missing.faults[0].object.as_str()),
        ("place", "loopbacks.loop1.mtu")
    );
}
