//! vhost-user interfaces as a part of the control side.

use super::{Role, commands};
use crate::peers::{MTU, PeerKind, Peers, for_root};
use crate::router::{FloodClass, Kind, NewVirtual, Op, OpError, PartOp, Router, VirtualKind};
use command::{Command, quote};
use drivers::vhost::{self, Config, Hub, Peer};

static KIND: VirtualKind = VirtualKind { word: "vhost-user", frames: true, flood: FloodClass::Link };

/// What an operator asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum VhostOp {
    /// Makes the interface `VirtualEthernet0/0/NUMBER`.
    Create {
        /// Its number.
        number: u32,
        /// All else.
        config: Config,
    },
}

/// Such interfaces.
pub(crate) struct Vhost;

impl PeerKind for Vhost {
    type Hub = Hub;
    type Config = Config;
    type Mark = ();
    type Own = ();
    const TITLE: &'static str = "vhost-user";
    const ENDED: &'static str = "no packets pass any more";

    fn words(c: &Config) -> String {
        format!("vhost-user {}, socket {}", role(c), c.socket)
    }

    fn commands() -> Vec<Command<Router>> {
        commands::all()
    }
}

/// The name of an interface.
pub fn name(number: u32) -> String {
    format!("VirtualEthernet0/0/{number}")
}

/// What the operator wants of an interface.
pub fn config(router: &Router, interface: u32) -> Option<&Config> {
    Peers::<Vhost>::port(router, interface).map(|p| &p.config)
}

/// All interfaces, with how they stand.
pub(super) fn interfaces(
    router: &Router,
) -> impl Iterator<Item = (u32, &Config, vhost::State, Option<Peer>)> {
    Peers::<Vhost>::standing(router).filter_map(|(i, p, hub)| {
        let (state, peer) = hub.state(i)?;
        Some((i, &p.config, state, peer))
    })
}

/// The role in words.
pub(super) fn role(c: &Config) -> &'static str {
    match c.role {
        Role::Server => "server",
        Role::Client => "client",
    }
}

impl PartOp for VhostOp {
    fn subject(&self) -> String {
        let VhostOp::Create { number, .. } = self;
        name(*number)
    }

    fn off(&self) -> Option<Op> {
        None
    }

    fn turned(&self, _: &Self) -> Option<Op> {
        None
    }

    fn command(&self) -> Option<String> {
        let VhostOp::Create { number, config: c } = self;
        let mut make = format!("create vhost-user socket {}", quote(&c.socket.to_string()));
        if c.role == Role::Server {
            make += " server";
        }
        if c.mask != u64::MAX {
            make += &format!(" feature-mask {:#x}", c.mask);
        }
        make += &format!(" renumber {number}");
        for (word, is) in
            [("disable_mrg_rxbuf", !c.mergeable), ("disable_indirect_desc", !c.indirect), ("gso", c.gso)]
        {
            if is {
                make += &format!(" {word}");
            }
        }
        Some(make)
    }

    fn exclusive(&self) -> Option<String> {
        let VhostOp::Create { config, .. } = self;
        Some(config.socket.to_string())
    }

    fn for_root(&self) -> Option<String> {
        let VhostOp::Create { config, .. } = self;
        Some(for_root(&config.socket))
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        let VhostOp::Create { number, config } = self;
        let name = name(number);
        router.free_name(&name)?;
        let origin = VhostOp::Create { number, config: config.clone() }.into();
        let new = NewVirtual { name, kind: Kind::Virtual(&KIND), origin, mac: config.mac(), mtu: MTU };
        crate::peers::create::<Vhost>(router, new, config, ())
    }

    fn log_line(&self) -> Option<String> {
        let VhostOp::Create { number, config } = self;
        Some(format!(
            "interface {}: vhost-user {} on the socket {}",
            name(*number),
            role(config),
            config.socket
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drivers::place::Place;

    #[test]
    fn what_makes_an_interface_is_a_command() {
        let usual = Config::new(Place::parse("/run/vm 1.sock").unwrap());
        let command = |config| VhostOp::Create { number: 7, config }.command().unwrap();
        assert_eq!(command(usual), "create vhost-user socket \"/run/vm 1.sock\" renumber 7");
        let other = Config {
            role: Role::Server,
            mask: 0x1f,
            mergeable: false,
            indirect: false,
            gso: true,
            ..Config::new(Place::parse("@vm").unwrap())
        };
        assert_eq!(
            command(other),
            "create vhost-user socket @vm server feature-mask 0x1f renumber 7 disable_mrg_rxbuf disable_indirect_desc gso"
        );
    }
}
