//! Operations on tunnels of a kind.

use super::Identity;
use super::part::{TunnelKind, change, create, turns};
use crate::router::{Op, OpError, PartOp, Router};
use std::fmt;

/// What the operator wants of tunnels of one kind.
pub(crate) trait TunnelConfig: Clone + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// The kind.
    type Kind: TunnelKind<Config = Self>;
}

/// A change of tunnels.
#[derive(Clone, Debug, PartialEq)]
pub enum TunnelOp<C> {
    /// Makes a tunnel.
    Create {
        /// Its number, which its name ends with.
        instance: u32,
        /// What it is.
        config: C,
    },
    /// A tunnel becomes another one while it stands, over an interface of the same kind.
    Change {
        /// Its number.
        instance: u32,
        /// What it was.
        from: C,
        /// What it is to be.
        config: C,
    },
}

impl<C> TunnelOp<C> {
    fn instance(&self) -> u32 {
        let (TunnelOp::Create { instance, .. } | TunnelOp::Change { instance, .. }) = self;
        *instance
    }

    /// What the tunnel is to be.
    pub fn config(&self) -> &C {
        let (TunnelOp::Create { config, .. } | TunnelOp::Change { config, .. }) = self;
        config
    }
}

/// What no two tunnels share.
pub(crate) fn identity<K: TunnelKind>(config: &K::Config) -> Identity {
    K::outside(config).identity(K::id(config))
}

fn name<C: TunnelConfig>(op: &TunnelOp<C>) -> String {
    format!("{}{}", C::Kind::STEM, op.instance())
}

impl<C: TunnelConfig> PartOp for TunnelOp<C> {
    fn subject(&self) -> String {
        format!("tunnel {}", name(self))
    }

    fn off(&self) -> Option<Op> {
        None
    }

    fn turned(&self, new: &Self) -> Option<Op> {
        let (instance, from, config) = (new.instance(), self.config().clone(), new.config().clone());
        turns::<C::Kind>(&from, &config).then(|| TunnelOp::Change { instance, from, config }.into())
    }

    fn anew(&self) -> &'static str {
        C::Kind::ANEW
    }

    fn words(&self) -> String {
        let c = self.config();
        let options = C::Kind::options(&C::Kind::plain(c), c);
        std::iter::once(C::Kind::ends(c)).chain(options).collect::<Vec<_>>().join(", ")
    }

    fn command(&self) -> Option<String> {
        let (head, from) = match self {
            TunnelOp::Create { instance, config } => {
                (format!("{} instance {instance}", C::Kind::create(config)?), &C::Kind::plain(config))
            }
            TunnelOp::Change { from, .. } => (format!("set {} {}", C::Kind::WORDS, name(self)), from),
        };
        let options = C::Kind::options(from, self.config());
        Some(std::iter::once(head).chain(options).collect::<Vec<_>>().join(" "))
    }

    fn touches(&self) -> Option<String> {
        let TunnelOp::Change { from, config, .. } = self else { return None };
        (!C::Kind::is_alike(from, config))
            .then(|| format!("packets over {}, until the other end is changed likewise", name(self)))
    }

    fn exclusive(&self) -> Option<String> {
        Some(format!("{:?}", identity::<C::Kind>(self.config())))
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        let (instance, config, most) = (self.instance(), self.config().clone(), C::Kind::MAX_INSTANCE);
        if instance > most {
            let stem = C::Kind::STEM;
            return Err(OpError::new(format!("{}: tunnels are {stem}0 to {stem}{most}", name(&self))));
        }
        if matches!(self, TunnelOp::Create { .. }) {
            return create::<C::Kind>(router, instance, &config, self.into());
        }
        let origin = TunnelOp::Create { instance, config: config.clone() };
        let was = change::<C::Kind>(router, instance, &config, origin.into())?;
        Ok(vec![TunnelOp::Change { instance, from: config, config: was }.into()])
    }

    fn log_line(&self) -> Option<String> {
        Some(format!("interface {}: {} {}", name(self), C::Kind::TITLE, C::Kind::ends(self.config())))
    }
}
