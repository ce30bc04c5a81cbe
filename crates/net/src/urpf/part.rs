//! Source checks as a part of the control side: their settings name routing tables by their FIB index, an
//! operator by number.

use super::{Mode, Named, RULES, Rule};
use crate::interface::Setting;
use crate::plane::table::FibIndex;
use crate::router::{self, BoxedOp, IfState, InterfaceOp, OpError, Part, RouteTable, Router, Start};
use command::Command;
use std::any::Any;
use std::sync::atomic::Ordering::Relaxed;

/// The part.
pub(crate) struct SourceChecks;

/// What is checked of the sources of the packets of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceCheck {
    /// For IPv6 instead of IPv4.
    pub v6: bool,
    /// Packets sent instead of those received.
    pub tx: bool,
    /// What is checked.
    pub mode: Mode,
    /// The routing table in which sources are looked up; that of the interface when there is none.
    pub table: Option<u32>,
}

/// The family (IPv6 or not) and direction (sent or not) of each check, in the order in which an operator is told of them.
const ALL: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

fn setting(v6: bool, tx: bool) -> &'static Setting<Rule> {
    RULES[usize::from(tx)][usize::from(v6)]
}

/// What is checked of the packets of an interface, of a family and direction.
pub fn rule(i: &IfState, v6: bool, tx: bool) -> Rule {
    i.settings.get(setting(v6, tx))
}

/// Sets a rule and answers what it was.
fn set(router: &mut Router, index: u32, (v6, tx): (bool, bool), rule: Rule) -> Option<Rule> {
    let setting = setting(v6, tx);
    let was = router.choose(index, setting.to(rule))?.value(setting)?;
    // Workers look at rules for tables from before the first one names one, until after the last one does not.
    let named = router.in_place::<Named>();
    let named = &named.0[usize::from(v6)];
    named.fetch_add(rule.named().is_some().into(), Relaxed);
    if was.named().is_some() {
        router.publish_interface(index);
        named.fetch_sub(1, Relaxed);
    }
    Some(was)
}

impl InterfaceOp for SourceCheck {
    fn subject(&self) -> String {
        let family = if self.v6 { "ip6" } else { "ip4" };
        format!("source check {family} {}", if self.tx { "tx" } else { "rx" })
    }

    fn off(&self) -> Self {
        SourceCheck { mode: Mode::Off, table: None, ..*self }
    }

    fn names(&self) -> Vec<router::Named> {
        self.table.into_iter().map(|id| router::Named::Table(RouteTable { v6: self.v6, id })).collect()
    }

    fn take(self, router: &mut Router, index: u32) -> Result<Self, OpError> {
        let SourceCheck { v6, tx, mode, table } = self;
        let fib_index = match table {
            Some(id) if mode != Mode::Off => router.fib_index_of(RouteTable { v6, id })?.0,
            _ => Rule::OWN,
        };
        let was = set(router, index, (v6, tx), Rule { mode, fib_index });
        let was = was.ok_or_else(|| OpError::new("no interface"))?;
        Ok(told(router, (v6, tx), was))
    }

    fn switches_on(&self) -> bool {
        self.mode != Mode::Off
    }

    fn is_early(&self) -> bool {
        true
    }

    fn words(&self, name: &str) -> (String, String) {
        ("checks sources".into(), off(self.v6, name))
    }

    fn commands(&self, name: &str, _: bool) -> Vec<String> {
        let (family, way) = (if self.v6 { "ip6" } else { "ip4" }, if self.tx { "tx" } else { "rx" });
        let table = self.table.map_or(String::new(), |t| format!(" table {t}"));
        vec![format!("set urpf {family} {way} {} {name}{table}", self.mode.name())]
    }
}

/// The command that ends the checks of a family.
fn off(v6: bool, name: &str) -> String {
    format!("set urpf {} off {name}", if v6 { "ip6" } else { "ip4" })
}

/// A rule as the operator told it.
fn told(router: &Router, (v6, tx): (bool, bool), rule: Rule) -> SourceCheck {
    SourceCheck {
        v6,
        tx,
        mode: rule.mode,
        table: rule.named().map(|fib_index| router.table_at(v6, FibIndex(fib_index))),
    }
}

impl Part for SourceChecks {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(())
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }

    fn told(&self, router: &Router, index: u32) -> Vec<BoxedOp> {
        let Some(i) = router.interface(index) else { return vec![] };
        let rules = ALL.map(|of| (of, rule(i, of.0, of.1)));
        let on = rules.into_iter().filter(|(_, rule)| rule.mode != Mode::Off);
        on.map(|(of, rule)| BoxedOp::new(told(router, of, rule))).collect()
    }

    fn uses_table(&self, router: &Router, v6: bool, fib_index: FibIndex) -> Option<String> {
        if router.in_place::<Named>().0[usize::from(v6)].load(Relaxed) == 0 {
            return None;
        }
        let looks =
            |i: &&IfState| [false, true].iter().any(|tx| rule(i, v6, *tx).named() == Some(fib_index.0));
        let i = router.interfaces().find(looks)?;
        Some(format!("{} looks sources up in it ({})", i.name, off(v6, &i.name)))
    }

    fn removed(&self, router: &mut Router, index: u32) {
        for of in ALL {
            if router.interface(index).is_some_and(|i| rule(i, of.0, of.1).named().is_some()) {
                set(router, index, of, Rule::default());
            }
        }
    }
}
