//! What commands made stays where documents are applied.

use super::{Running, document, lines, same, start, try_start, words};
use control::engine::{self, Brought, Carry, Failed, Id, Plan, Reading, Side, Value};
use net::l2::bridge::{BridgeOp, TagChange};
use net::router::Op;
use proptest::prelude::*;

fn side(text: &str) -> Side {
    Side::of(&super::parse(text))
}

impl Running {
    pub fn side(&self) -> Side {
        Reading::whole(&self.router, &self.settings).unwrap()
    }

    /// The plan to a document that takes away only what another brought.
    pub fn plan_beside(&self, text: &str, brought: &str) -> Plan {
        engine::plan_of(self.side(), side(text), Some(&Brought::of(&side(brought)))).unwrap().0
    }

    fn apply_beside(&mut self, text: &str, brought: &str) -> Result<(), Failed> {
        self.carry(Carry::new(self.plan_beside(text, brought)))
    }
}

const FIRST: &str = "\
loopbacks:
  loop0: {addresses: [10.0.0.1/24]}
  loop1: {addresses: [10.1.0.1/24]}
routes:
  - 10.5.0.0/16 via 10.0.0.9
  - 10.6.0.0/16 via 10.1.0.9
";

#[test]
fn what_commands_made_stays() {
    let mut running = start(FIRST);
    // As commands would.
    running.apply(
        "\
loopbacks:
  loop0: {description: by hand, addresses: [10.0.0.1/24, 10.9.0.1/24]}
  loop1: {addresses: [10.1.0.1/24, 10.1.9.1/24]}
  loop2: {addresses: [10.2.0.1/24]}
bridgedomains:
  bd7: {interfaces: []}
routes:
  - 10.5.0.0/16 via 10.0.0.9
  - {prefix: 10.5.0.0/16, via: 10.0.0.8, preference: 200}
  - 10.6.0.0/16 via 10.1.0.9
  - 10.7.0.0/16 via 10.2.0.9
  - 10.8.0.0/16 via loop1
mpls: {local-labels: [100 via 10.0.0.9, 101 eos via ip4-lookup-in-table 0]}
",
    );
    let wanted = "\
loopbacks:
  loop3: {addresses: [10.3.0.1/24]}
  loop0: {addresses: [10.0.0.1/24, 10.0.7.1/24]}
routes:
  - {prefix: 10.5.0.0/16, via: 10.0.0.7, preference: 100}
";
    let plan = running.plan_beside(wanted, FIRST);
    let (stays, more) = engine::stays(&plan, 100);
    assert_eq!(more, 0);
    for line in [
        "interface loop0: address 10.9.0.1/24",
        "interface loop0: description: \"by hand\"",
        "interface loop2",
        "interface loop2: address 10.2.0.1/24",
        "bridge domain 7",
        "route 10.5.0.0/16: via 10.0.0.8 preference 200",
        "route 10.7.0.0/16: via 10.2.0.9",
        "label 100 eos: via 10.0.0.9",
        "label 100 non-eos: via 10.0.0.9",
    ] {
        assert!(stays.iter().any(|s| s.starts_with(line)), "{line}: {stays:#?}");
    }
    // What stands on what goes cannot stay.
    assert!(stays.iter().all(|s| !s.contains("loop1")), "{stays:#?}");
    running.apply_beside(wanted, FIRST).unwrap();
    let all = "\
loopbacks:
  loop3: {addresses: [10.3.0.1/24]}
  loop0: {description: by hand, addresses: [10.0.0.1/24, 10.9.0.1/24, 10.0.7.1/24]}
  loop2: {addresses: [10.2.0.1/24]}
bridgedomains:
  bd7: {interfaces: []}
routes:
  - {prefix: 10.5.0.0/16, via: 10.0.0.7, preference: 100}
  - {prefix: 10.5.0.0/16, via: 10.0.0.8, preference: 200}
  - 10.7.0.0/16 via 10.2.0.9
mpls: {local-labels: [100 via 10.0.0.9, 101 eos via ip4-lookup-in-table 0]}
";
    assert_eq!(words(&engine::plan(&side(all), &running.side()).unwrap()), "");
    assert_eq!(lines(&running.plan_beside(wanted, wanted)), [""; 0], "it is there");
    // What the document says is the document's from then on.
    running.apply_beside(all, wanted).unwrap();
    running.apply_beside(wanted, all).unwrap();
    assert_eq!(running.dump(), start(wanted).dump());
}

#[test]
fn what_the_document_wants_for_itself_is_given_up() {
    let mut running = start(FIRST);
    running.apply(
        &format!("{FIRST}  - 10.7.0.0/16 via 10.3.0.1\n")
            .replace("loopbacks:", "loopbacks:\n  loop2: {addresses: [10.2.0.1/24]}"),
    );
    // Its address, and its own address as a next hop.
    let wanted = FIRST.replace("loopbacks:", "loopbacks:\n  loop3: {addresses: [10.2.0.7/24, 10.3.0.1/24]}");
    running.apply_beside(&wanted, FIRST).unwrap();
    let all = wanted.replace("loopbacks:", "loopbacks:\n  loop2: {}");
    let differs = lines(&engine::plan(&side(&all), &running.side()).unwrap());
    assert!(differs.iter().all(|l| l.contains("order of interfaces")), "{differs:?}");
}

/// What the document did to the tags goes with it, where a command's cross-connect stays.
#[test]
fn tags_of_a_document_are_not_those_of_a_commands_cross_connect() {
    let ports = |more: &str, p1: &str| {
        let out = env!("CARGO_TARGET_TMPDIR");
        format!(
            "devices: {{p0: {{driver: pcap, pcap: {{write: {out}/tags0.pcap}}}}, p1: {{driver: pcap, pcap: {{write: {out}/tags1.pcap}}}}}}\n\
             interfaces: {{p0: {{sub-interfaces: {{7: {{{more}}}}}}}, p1: {{{p1}}}}}\n"
        )
    };
    let (a, b) = (ports("l2xc: p1", ""), ports("", ""));
    let mut running = start(&a);
    running.apply(&ports("l2xc: p1", "l2xc: p0.7"));
    let plan = running.plan_beside(&b, &a);
    let told = words(&plan);
    assert_eq!(engine::stays(&plan, 100).0, ["interface p1: cross-connect: to p0.7"], "{told}");
    running.carry(Carry::new(plan)).unwrap();
    let left: Vec<Id> = left_of(&running.side(), &side(&a), &side(&b));
    assert_eq!(left, [], "{told}\n{}", running.dump());
}

/// A member of a bond has its MAC address.
#[test]
fn a_mac_address_of_a_command_gives_way_to_a_bond() {
    let ports = |more: &str| {
        let out = env!("CARGO_TARGET_TMPDIR");
        format!(
            "devices: {{m1: {{driver: pcap, pcap: {{write: {out}/mac1.pcap}}}}}}\ninterfaces: {{m1: {{}}{more}"
        )
    };
    let (a, b) =
        (ports("}\n"), ports(", BondEthernet0: {}}\nbondethernets: {BondEthernet0: {interfaces: [m1]}}\n"));
    let mut running = start(&a);
    let mac = Some("02:00:00:00:00:77".parse().unwrap());
    running.router.commit(vec![Op::SetMac { name: "m1".into(), mac }]).unwrap();
    let plan = running.plan_beside(&b, &a);
    assert_eq!(engine::stays(&plan, 100), (vec![], 0), "{}", words(&plan));
    running.carry(Carry::new(plan)).unwrap();
    assert_eq!(running.dump(), start(&b).dump());
}

fn is_order(id: &Id) -> bool {
    matches!(id, Id::InterfaceOrder | Id::AddressOrder(_))
}

/// What of the objects of a document does not run as it says.
pub fn missing(is: &Side, wanted: &Side) -> Vec<Id> {
    let value = |s: &Side, id: &Id| s.model.get(id).map(|o| o.value.clone());
    let all = wanted.model.iter().filter(|(id, o)| matches!(o.value, Value::Op(_)) && !is_order(id));
    all.filter(|(id, o)| value(is, id).as_ref() != Some(&o.value)).map(|(id, _)| id.clone()).collect()
}

/// It is of the one that the document has no more.
#[test]
fn a_queue_that_goes_takes_its_worker_along() {
    let out = env!("CARGO_TARGET_TMPDIR");
    let read = format!("{out}/queue-goes.pcap");
    // The header of a capture file without packets.
    let empty = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0];
    std::fs::write(&read, empty).unwrap();
    let device = |what: &str, placed: &str| {
        format!(
            "quiver: {{workers: 2}}\ndevices: {{q0: {{driver: pcap, {placed}pcap: {{{what}}}}}}}\ninterfaces: {{q0: {{}}}}\n"
        )
    };
    let a = device(&format!("read: {read}"), "");
    let mut running = start(&a);
    running.apply(&device(&format!("read: {read}"), "rx-placement: {0: 1}, "));
    let same = device(&format!("read: {read}, rate: 7"), "");
    let (stays, _) = engine::stays(&running.plan_beside(&same, &a), 100);
    assert_eq!(stays.len(), 1, "{stays:?}");
    running.apply_beside(&device(&format!("write: {out}/queue-gone.pcap"), ""), &a).unwrap();
}

/// Tags that nothing is done to: a document would pop those of a cross-connect, so this has to be said of one that a command made.
fn is_off(value: &Value) -> bool {
    matches!(value, Value::Op(Op::Part(op)) if matches!(op.get(), Some(BridgeOp::Tags { change: None | Some(TagChange::Disabled), .. })))
}

/// What runs of a document that another does not say.
fn left_of(is: &Side, before: &Side, wanted: &Side) -> Vec<Id> {
    let brought = Brought::of(before);
    let all = is.model.iter().filter(|(id, o)| !is_order(id) && !is_off(&o.value)).map(|(id, _)| id);
    all.filter(|id| wanted.model.get(id).is_none() && brought.has(id)).cloned().collect()
}

proptest! {
    #![proptest_config(super::cases(32))]

    /// After `a` and whatever commands do, `b` is there as it says, and of `a` nothing that `b` does not say.
    #[test]
    fn documents_take_away_what_they_brought(a in document(), commands in document(), b in document()) {
        // One after the other: all may have the same devices.
        let (other, wanted) = (try_start(&commands).is_some(), try_start(&b).map(|r| r.dump()));
        let first = try_start(&a);
        prop_assume!(first.is_some() && other && wanted.is_some());
        let (mut running, wanted) = (first.unwrap(), wanted.unwrap());
        running.apply(&commands);
        let before = running.dump();
        let plan = running.plan_beside(&b, &a);
        let told = words(&plan);
        if let Err(failed) = running.carry(Carry::new(plan)) {
            // Where it cannot be, nothing is changed.
            println!("refused: {failed:?}");
            prop_assert!(failed.left.is_empty(), "{failed:?}");
            same(&running.dump(), &before, &told, "refused");
            return Ok(());
        }
        let (is, of_b) = (running.side(), side(&b));
        prop_assert_eq!(missing(&is, &of_b), vec![], "{}", told);
        prop_assert_eq!(left_of(&is, &side(&a), &of_b), Vec::<Id>::new(), "{}", told);
        prop_assert_eq!(lines(&running.plan_beside(&b, &b)), Vec::<String>::new());
        running.apply(&b);
        same(&running.dump(), &wanted, &told, "all of it");
    }
}
