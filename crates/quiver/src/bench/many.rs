//! Plans with many sub-interfaces, on which packets come in random order.

use super::feed::Traffic;
use super::random::Random;
use super::rig::{Bridging, Plan, Tags, Vrfs, list4, list6};
use super::scenarios::{DESTINATIONS, Input, one, small_table};
use super::traffic;
use std::sync::Arc;

/// The tags of `n` sub-interfaces in random order, as often as any other.
fn order(tags: Tags, n: usize) -> Arc<[[u8; 8]]> {
    let mut all: Vec<u32> = (1..=n as u32).collect::<Vec<_>>().repeat((65_536 / n.max(1)).max(1));
    Random::new(5).shuffle(&mut all);
    all.into_iter().map(|v| tags.bytes(v)).collect()
}

/// Packets that are routed from `n` sub-interfaces to one.
pub fn routed(i: &Input, tags: Tags, n: usize, vrfs: Vrfs, v6: bool) -> Result<Plan, String> {
    let table = small_table(v6)?;
    let list = table.uniform(DESTINATIONS, &mut Random::new(1));
    let traffic = match v6 {
        false => Traffic { dst4: list4(&list), ..one(traffic::ip4(i.size, tags.count())?) },
        true => Traffic { dst6: list6(&list), ..one(traffic::ip6(i.size, tags.count())?) },
    };
    let traffic = Traffic { tags: order(tags, n), ..traffic };
    // A table of its own leads out untagged, as `vrf` does.
    let tagged_out = (vrfs == Vrfs::None).then_some(200);
    Ok(Plan { routes: vec![table], tagged_in: n as u32, tags, tagged_out, vrfs, traffic, ..Plan::default() })
}

/// A plan of untagged packets as one whose packets come on `n` sub-interfaces with two tags.
pub fn behind_two_tags(i: &Input, n: usize, plan: Plan) -> Result<Plan, String> {
    let templates = vec![traffic::ip4(i.size, 2)?, traffic::ip6(i.size, 2)?];
    let traffic = Traffic { templates, tags: order(Tags::Two, n), ..plan.traffic };
    Ok(Plan { tagged_in: n as u32, tags: Tags::Two, traffic, ..plan })
}

/// Frames that `n` bridge domains take from a sub-interface of one port to one of another.
pub fn bridged(i: &Input, n: usize) -> Result<Plan, String> {
    let traffic = Traffic { tags: order(Tags::One, n), ..one(traffic::ethernet(i.size, 1)) };
    Ok(Plan { bridging: Bridging::Domains, tagged_in: n as u32, traffic, ..Plan::default() })
}
