//! Every node of the graph, in the order in which a worker runs them, and the feature arcs.
//!
//! To add a node: write it in its feature's folder, add it here, and name it in an edge or in a feature of an arc.

use crate::capture::{self, CaptureRx, CaptureTx};
use crate::interface::{Columns, Declared, Switch};
use crate::plane::Plane;
use crate::protocols::LocalProtocol;
use crate::router::{Nodes, Part, Router, RouterConfig, StartError};
use crate::{
    anycast, arcs, arp, bond, copp, dpdk, ethernet, format, generator, gre, hold, icmp, interface, ip4, ip6,
    l2, linux_bridge, linux_cp, load, memif, midchain, mpls, mss, multicast, offload, output, path_mtu, pcap,
    ping, programs, proxy, punt, ra, rates, reassembly, redirect, span, steering, tunnel, urpf, vhost, vxlan,
};
use graph::{BuildError, Builder, Dispatcher, Graph, Pool};
use std::sync::Arc;

/// The settings of interfaces that features declare, in the order in which an operator is told what an interface has.
pub static SETTINGS: &[&[&Declared]] = &[
    &urpf::SETTINGS,
    &mpls::SETTINGS,
    &mss::SETTINGS,
    &reassembly::SETTINGS,
    &redirect::SETTINGS,
    &interface::SETTINGS,
    &proxy::SETTINGS,
    &arp::SETTINGS,
    &ip4::SETTINGS,
    #[cfg(test)]
    &crate::short_cuts::passing::SETTINGS,
];

/// The features that have a control side of their own, in the order in which they are called.
pub(crate) static PARTS: &[&dyn Part] = &[
    // Its bridges are released behind their ports.
    &linux_bridge::LinuxBridges,
    &l2::bridge::Bridging,
    &mpls::Mpls,
    &multicast::Multicast,
    &ra::Adverts,
    &proxy::Proxy,
    &copp::Copp,
    &rates::Rates,
    &load::Load,
    &steering::Steering,
    &path_mtu::PathMtuPart,
    &anycast::AnycastAnswers,
    &urpf::SourceChecks,
    &reassembly::Reassembly,
    &span::Span,
    &pcap::Pcap,
    &generator::Generator,
    &ping::Ping,
    &programs::ProgramsPart,
    &gre::PART,
    &vxlan::PART,
    &linux_cp::LinuxCp,
    &memif::PART,
    &vhost::PART,
    &dpdk::Dpdk,
    &bond::Bonding,
];

/// The protocols above IP that features bring.
static PROTOCOLS: &[&LocalProtocol] = &[&gre::PROTOCOL, &vxlan::PROTOCOL];

/// What the settings of an interface switch on, in the order in which packets meet it.
pub fn switches() -> impl Iterator<Item = &'static Switch> {
    [
        #[cfg(test)]
        crate::short_cuts::passing::SWITCHES,
        &ip4::SWITCHES[..],
        &redirect::SWITCHES,
        &urpf::SWITCHES,
        &reassembly::SWITCHES,
        &mss::SWITCHES,
        &mpls::SWITCHES,
    ]
    .into_iter()
    .flatten()
}

impl Router {
    /// Makes the tables and buffers, and starts the workers.
    ///
    /// # Errors
    /// What is configured cannot be, or the system refuses what it needs.
    pub fn new(config: RouterConfig) -> Result<Router, StartError> {
        Router::with_nodes(
            config,
            Nodes { build, switches: switches().collect(), settings: Columns::new(SETTINGS), parts: PARTS },
        )
    }
}

/// Makes worker `worker`'s graph.
pub fn build(plane: &Arc<Plane>, pool: &Arc<Pool>, worker: usize) -> Result<(Dispatcher, Graph), BuildError> {
    build_from(empty().counters(&plane.registry), plane, pool, worker)
}

/// A graph without nodes, whose counters are its own: a second one for a worker's number. Tests have their nodes added without short cuts, or unsorted as well, and compare with [`build`].
pub fn empty() -> Builder {
    Builder::new("error-drop")
}

/// Makes worker `worker`'s graph of an [`empty`] one.
pub fn build_from(
    empty: Builder,
    plane: &Arc<Plane>,
    pool: &Arc<Pool>,
    worker: usize,
) -> Result<(Dispatcher, Graph), BuildError> {
    let all = all(empty, plane, worker, pool.count());
    #[cfg(test)]
    let all = crate::short_cuts::passing::add(all);
    let (mut dispatcher, graph) = all.build(pool, worker)?;
    dispatcher.env.handoff = Some(Arc::clone(&plane.handoff));
    Ok((dispatcher, graph))
}

fn all(empty: Builder, plane: &Arc<Plane>, worker: usize, buffers: usize) -> Builder {
    arcs::ALL
        .into_iter()
        .fold(empty, Builder::arc)
        .input("af-packet-input", &["@device-input"], format::received)
        .input("af-xdp-input", &["@device-input"], format::received)
        .input("tap-input", &["@device-input"], format::received)
        .input("memif-input", &["@device-input", "memif-ip-input"], format::received)
        .input("vhost-user-input", &["@device-input"], format::received)
        .input("dpdk-input", &["@device-input"], format::received)
        .input("pcap-input", &["@device-input"], format::received)
        .input("pg-input", &["@device-input"], format::received)
        .spread(steering::WorkerHandoff::new(plane, worker))
        .node(CaptureRx::new(plane))
        .node(span::SpanInput::new(plane))
        .node(linux_cp::LinuxCpXc::new(plane))
        .quick(bond::BondInput::new(plane, worker))
        .node(bond::LacpInput::new(plane))
        .node(memif::MemifIpInput::new(plane))
        .quick(ethernet::EthernetInput::new(plane, worker))
        .node(span::SpanL2Input::new(plane))
        .quick(l2::L2Xconnect::new(plane))
        .quick(l2::bridge::L2Bridge::new(plane, worker))
        .node(l2::bridge::L2ArpTerm::new(plane, worker))
        .node(l2::bridge::L2Flood::new(plane, worker))
        .node(span::SpanL2Output::new(plane))
        .node(l2::bridge::BviInput::new(plane))
        .node(arp::ArpInput::new(plane))
        .quick(ip4::Ip4Input::new(plane, worker))
        .node(ip4::Ip4Options::new(plane))
        .quick(ip6::Ip6Input::new(plane, worker))
        .node(ip6::Ip6HopByHop::new(plane))
        .node(ip4::Ip4LinkLocal::new(plane))
        .quick_lookup(urpf::Ip4Urpf::new(plane))
        .quick_lookup(urpf::Ip6Urpf::new(plane))
        .node(reassembly::Ip4FullReassembly::new(plane, buffers))
        .node(reassembly::Ip6FullReassembly::new(plane, buffers))
        .node(reassembly::Ip4VirtualReassembly::new(plane, buffers))
        .node(reassembly::Ip6VirtualReassembly::new(plane, buffers))
        .quick(mss::MssClamp::<mss::In4>::new(plane))
        .quick(mss::MssClamp::<mss::In6>::new(plane))
        .quick(mpls::MplsInput::new(plane))
        .node(mpls::MplsNotEnabled)
        .quick_lookup(mpls::MplsLookup::new(plane, worker))
        .node(mpls::LabelDisposition::<mpls::Ip4Pipe>::new(plane))
        .node(mpls::LabelDisposition::<mpls::Ip4Uniform>::new(plane))
        .node(mpls::LabelDisposition::<mpls::Ip6Pipe>::new(plane))
        .node(mpls::LabelDisposition::<mpls::Ip6Uniform>::new(plane))
        .node(mpls::InterfaceRxL2::new(plane, worker))
        .node(mpls::MplsIcmpError::new(plane))
        .quick_lookup(ip4::Ip4Lookup::new(plane, worker))
        .quick_lookup(ip6::Ip6Lookup::new(plane, worker))
        .quick(ip4::Ip4Local::new(plane))
        .quick(ip6::Ip6Local::new(plane))
        .node(ip4::Ip4LocalEnd::new(plane))
        .node(ip6::Ip6LocalEnd::new(plane))
        .quick(gre::GreInput::<tunnel::Over4>::new(plane, worker))
        .quick(gre::GreInput::<tunnel::Over6>::new(plane, worker))
        .quick(vxlan::VxlanInput::<tunnel::Over4>::new(plane, worker))
        .quick(vxlan::VxlanInput::<tunnel::Over6>::new(plane, worker))
        .node(multicast::IgmpInput::new(plane))
        .node(ip4::Icmp4Input::new(plane))
        .node(ip6::Icmp6Input::new(plane))
        .node(linux_cp::LinuxCpPunt::new(plane))
        .node(programs::ProgramPunt::new(plane))
        .node(icmp::Ip4IcmpError::new(plane))
        .node(icmp::Ip6IcmpError::new(plane))
        .quick(ip4::Ip4Rewrite::new(plane, worker))
        .quick(ip6::Ip6Rewrite::new(plane, worker))
        .node(hold::Ip4Hold::new(plane))
        .node(hold::Ip6Hold::new(plane))
        .node(mpls::LabelImposition::<mpls::PushIp4Pipe>::new(plane))
        .node(mpls::LabelImposition::<mpls::PushIp4Uniform>::new(plane))
        .node(mpls::LabelImposition::<mpls::PushIp6Pipe>::new(plane))
        .node(mpls::LabelImposition::<mpls::PushIp6Uniform>::new(plane))
        .node(mpls::LabelImposition::<mpls::SwapPipe>::new(plane))
        .node(mpls::LabelImposition::<mpls::SwapUniform>::new(plane))
        .node(mpls::MplsTunnelTx::new(plane, worker))
        .node(mpls::MplsOutput::new(plane, worker))
        .node(hold::MplsHold::new(plane))
        .node(mpls::MplsFrag::new(plane))
        .node(ip4::Ip4Frag::new(plane))
        .node(ip6::Ip6Frag::new(plane, worker))
        .node(punt::PuntPolicer)
        .quick(redirect::Redirect::<redirect::In4>::new(plane))
        .quick(redirect::Redirect::<redirect::In6>::new(plane))
        .lookup(urpf::UrpfOut::<urpf::Out4>::new(plane))
        .lookup(urpf::UrpfOut::<urpf::Out6>::new(plane))
        .quick(mss::MssClamp::<mss::Out4>::new(plane))
        .quick(mss::MssClamp::<mss::Out6>::new(plane))
        .quick(output::InterfaceOutput::new(plane, worker))
        .node(offload::GsoSegment::new(plane))
        .node(CaptureTx::new(plane))
        .node(span::SpanOutput::new(plane))
        .quick(midchain::MidchainTx::new(plane, worker))
        .quick(bond::BondTx::new(plane, worker))
        .batch(output::InterfaceTx::new(plane, worker))
        .batch(output::ErrorDrop::new(plane, worker))
        .features([&steering::WORKER_HANDOFF])
        .features([&capture::PCAP_RX, &span::SPAN_INPUT, &linux_cp::LINUX_CP_XC, &bond::BOND_INPUT])
        .features([&span::SPAN_L2_INPUT, &interface::L2_XCONNECT, &span::SPAN_L2_OUTPUT])
        // Frames are seen before a tunnel or a member of a bond takes them.
        .features([&capture::PCAP_TX, &span::SPAN_OUTPUT, &interface::TUNNEL_TX, &interface::MIDCHAIN_TX])
        .features([&bond::BOND_TX])
        .features(&linux_cp::LINUX_CP_PUNT)
        .features(PROTOCOLS.iter().flat_map(|p| p.features()))
        .features(switches().map(|s| s.feature))
}

#[cfg(test)]
mod tests {
    use crate::plane::MAX_REASONS;
    use crate::router::{Router, RouterConfig};

    #[test]
    fn every_reason_is_counted_by_interface() {
        let pool = graph::PoolConfig { buffers: 64, memory: graph::PoolMemory::Normal };
        let r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
        let reasons = r.graphs()[0].reasons.len();
        assert!(reasons <= MAX_REASONS, "{reasons} reasons, but an interface has {MAX_REASONS} counters");
    }
}
