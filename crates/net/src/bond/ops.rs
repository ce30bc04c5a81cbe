//! Operations on bonds.

use super::part;
use super::{BondConfig, MAX_INSTANCE, MemberConfig};
use crate::router::{InterfaceOp, Named, Op, OpError, PartOp, Router};

/// A change of bonds.
#[derive(Clone, Debug, PartialEq)]
pub enum BondOp {
    /// Makes the bond `BondEthernetN`.
    Create {
        /// N.
        instance: u32,
        /// How it is.
        config: BondConfig,
    },
    /// It becomes another one while it stands.
    Change {
        /// N.
        instance: u32,
        /// How it was.
        from: BondConfig,
        /// How it is to be.
        config: BondConfig,
    },
}

impl BondOp {
    fn parts(&self) -> (u32, &BondConfig) {
        let (BondOp::Create { instance, config } | BondOp::Change { instance, config, .. }) = self;
        (*instance, config)
    }

    fn name(&self) -> String {
        format!("BondEthernet{}", self.parts().0)
    }
}

impl PartOp for BondOp {
    fn subject(&self) -> String {
        format!("bond {}", self.name())
    }

    fn off(&self) -> Option<Op> {
        None
    }

    fn turned(&self, new: &Self) -> Option<Op> {
        let (instance, config) = new.parts();
        Some(BondOp::Change { instance, from: *self.parts().1, config: *config }.into())
    }

    fn words(&self) -> String {
        let c = self.parts().1;
        let balance = c.mode.balances().then(|| format!(", load-balance {}", c.balance.name()));
        let links = (c.min_links != 1).then(|| format!(", min-links {}", c.min_links));
        format!("{}{}{}", c.mode.name(), balance.unwrap_or_default(), links.unwrap_or_default())
    }

    fn command(&self) -> Option<String> {
        let options = |c: &BondConfig, from: Option<&BondConfig>| {
            let mut out = vec![];
            if from.is_none_or(|f| f.mode != c.mode) {
                out.push(format!("mode {}", c.mode.name()));
            }
            // A new one has what the command gives it, which is not what a document does.
            if c.mode.balances() && from.is_none_or(|f| f.balance != c.balance) {
                out.push(format!("load-balance {}", c.balance.name()));
            }
            if from.map_or(1, |f| f.min_links) != c.min_links {
                out.push(format!("min-links {}", c.min_links));
            }
            out.join(" ")
        };
        Some(match self {
            BondOp::Create { instance, config } => {
                format!("create bond {} id {instance}", options(config, None))
            }
            BondOp::Change { from, config, .. } => {
                format!("set bond {} {}", self.name(), options(config, Some(from)))
            }
        })
    }

    fn touches(&self) -> Option<String> {
        let BondOp::Change { from, config, .. } = self else { return None };
        (from.mode != config.mode || config.mode.balances() && from.balance != config.balance)
            .then(|| format!("flows over {}, which may take other members", self.name()))
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        let (name, (instance, config)) = (self.name(), self.parts());
        if instance > MAX_INSTANCE {
            return Err(OpError::new(format!(
                "{name}: bonds are BondEthernet0 to BondEthernet{MAX_INSTANCE}"
            )));
        }
        let config = *config;
        config.check().map_err(|why| OpError::new(format!("{name}: {why}")))?;
        if matches!(self, BondOp::Create { .. }) {
            part::create(router, &name, config, self.into())?;
            return Ok(vec![Op::Delete { name }]);
        }
        let was = part::change(router, &name, config, BondOp::Create { instance, config }.into())?;
        Ok(vec![BondOp::Change { instance, from: config, config: was }.into()])
    }

    fn log_line(&self) -> Option<String> {
        Some(format!("interface {}: bond, {}", self.name(), self.words()))
    }
}

/// The bond that an interface is a member of from now on, if any.
#[derive(Clone, Debug, PartialEq)]
pub struct Joins {
    /// Its name, and what is wanted of the member.
    pub bond: Option<(String, MemberConfig)>,
}

impl InterfaceOp for Joins {
    fn subject(&self) -> String {
        "member of a bond".into()
    }

    fn off(&self) -> Self {
        Joins { bond: None }
    }

    fn names(&self) -> Vec<Named> {
        self.bond.iter().map(|(bond, _)| Named::Carried(bond.clone())).collect()
    }

    fn take(self, router: &mut Router, index: u32) -> Result<Self, OpError> {
        let was = part::told(router, index);
        match self.bond {
            Some((bond, config)) => part::join(router, index, &bond, config)?,
            None => part::leave(router, index)?,
        }
        Ok(Joins { bond: was })
    }

    fn switches_on(&self) -> bool {
        false
    }

    fn names_others(&self) -> bool {
        true
    }

    fn is_early(&self) -> bool {
        true
    }

    fn words(&self, name: &str) -> (String, String) {
        let Some((bond, c)) = &self.bond else { return (String::new(), format!("bond del {name}")) };
        let options = [("passive", c.passive), ("long-timeout", c.long_timeout)];
        let options: String = options.iter().filter(|o| o.1).map(|o| format!(", {}", o.0)).collect();
        let weight = if c.weight == 0 { String::new() } else { format!(", weight {}", c.weight) };
        (format!("is a member of {bond}{options}{weight}"), format!("bond del {name}"))
    }

    fn commands(&self, name: &str, changes: bool) -> Vec<String> {
        let Some((bond, c)) = &self.bond else { return vec![format!("bond del {name}")] };
        let options = [("passive", c.passive), ("long-timeout", c.long_timeout)];
        let options: String = options.iter().filter(|o| o.1).map(|o| format!(" {}", o.0)).collect();
        let weight = format!("set interface bond {name} weight {}", c.weight);
        let add = format!("bond add {bond} {name}{options}");
        std::iter::once(add).chain((c.weight != 0 || changes).then_some(weight)).collect()
    }
}
