//! The manual names every field, and no other.

use super::{
    acl, api, bridge, device, interface, l2, l3, linux_cp, mpls, neighbor, punt, route, settings, sflow,
    span, stream, tap,
};

/// The table of a section of the manual: the fields in its rows, from its heading to the next one.
fn documented(manual: &str, heading: &str) -> Vec<String> {
    let start = manual.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let body = &manual[start + heading.len() + 2..];
    let body = &body[..body.find("\n#").unwrap_or(body.len())];
    let table = body.split_once("| field |").map_or("", |(_, rows)| rows);
    table
        .lines()
        .filter_map(|l| l.strip_prefix("| `")?.split_once('`').map(|(name, _)| name.to_string()))
        .collect()
}

#[test]
fn the_manual_has_every_field() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let manual = std::fs::read_to_string(path).unwrap();
    let tables: &[(&str, &[&str])] = &[
        ("## `interfaces`", interface::INTERFACE),
        ("### `interfaces.NAME.sub-interfaces`", interface::SUB_INTERFACE),
        ("### `interfaces.NAME.sub-interfaces.NUMBER.encapsulation`", interface::ENCAPSULATION),
        ("## `loopbacks`", interface::LOOPBACK),
        ("## `taps`", tap::TAP),
        ("### `taps.NAME.host`", tap::TAP_HOST),
        ("## `bridgedomains`", bridge::BRIDGE),
        ("### `bridgedomains.NAME.settings`", bridge::SETTINGS),
        ("## `prefixlists`", acl::prefixlist::PREFIX_LIST),
        ("## `acls`", acl::ACL),
        ("### `acls.NAME.terms[N]`", acl::TERM),
        ("## `sflow`", sflow::SFLOW),
        ("## `l2`", l2::L2),
        ("### `l2.interfaces.NAME`", l2::INTERFACE),
        ("### `l2.bridgedomains.NAME`", l2::BRIDGE),
        ("## `devices`", device::DEVICE),
        ("### `devices.NAME.handoff`", device::HANDOFF),
        ("### `devices.NAME.rx-ring`", device::RX_RING),
        ("### `devices.NAME.pcap`", device::PCAP),
        ("## `routes`", route::ROUTE),
        ("### `routes[N].via`", route::PATH),
        ("## `mpls`", mpls::MPLS),
        ("### `mpls.local-labels[N]`", mpls::LABEL),
        ("## `neighbors`", neighbor::NEIGHBOR_ENTRY),
        ("## `span`", span::MIRROR),
        ("## `linux-cp`", linux_cp::LINUX_CP),
        ("### `linux-cp.fpm`", linux_cp::FPM),
        ("### `linux-cp.interfaces.NAME`", linux_cp::PAIR),
        ("## `l3`", l3::L3),
        ("### `l3.reassembly`", l3::REASSEMBLY),
        ("### `l3.reassembly.KIND`", l3::REASSEMBLY_LIMITS),
        ("### `l3.interfaces.NAME`", l3::INTERFACE),
        ("## `punt`", net::punt::class::NAMES),
        ("### `punt.CLASS`", punt::LIMIT),
        ("## `packet-generator`", stream::STREAM),
        ("### `packet-generator[N].size`", stream::SIZE),
        ("### `packet-generator[N].size.mix`", stream::MIX),
        ("## `quiver`", settings::QUIVER),
        ("### `quiver.workers`", settings::WORKERS),
        ("### `quiver.poll`", settings::POLL),
        ("### `quiver.buffers`", settings::BUFFERS),
        ("### `quiver.sockets`", settings::SOCKETS),
        ("### `quiver.api`", api::API),
        ("### `quiver.api.listen[N]`", api::LISTEN),
        ("### `quiver.api.rate`", api::RATE),
        ("### `quiver.log`", settings::LOG),
        ("### `quiver.neighbor`", settings::NEIGHBOR),
        ("### `quiver.routes`", settings::ROUTES),
    ];
    for (heading, fields) in tables {
        assert_eq!(documented(&manual, heading), *fields, "{heading}");
    }
    for section in super::virtuals::SECTIONS {
        let heading = format!("## `{}`", section.name);
        assert_eq!(documented(&manual, &heading), *section.fields, "{heading}");
    }
    for (layer, fields) in stream::LAYERS.iter().filter(|(_, fields)| !fields.is_empty()) {
        assert_eq!(documented(&manual, &format!("### layer `{layer}`")), *fields, "{layer}");
    }
    for section in super::SECTIONS.iter().filter(|s| !super::LATER.contains(s)) {
        assert!(manual.contains(&format!("\n## `{section}`\n")), "{section}");
    }
    for section in super::LATER {
        assert!(manual.contains(&format!("`{section}`")), "{section}");
    }
}

/// The fields of a layer are those of the command, which lists them when it meets another one.
#[test]
fn layers_have_the_fields_of_the_command() {
    for (layer, fields) in stream::LAYERS {
        let text = format!("{layer} ?");
        let known = drivers::generator::parse_layers(&text).unwrap_err().message;
        let known: Vec<&str> =
            known.split_once("but ").map_or(vec![], |(_, names)| names.split(", ").collect());
        let mut sorted = [known, fields.to_vec()];
        sorted.iter_mut().for_each(|names| names.sort_unstable());
        assert_eq!(sorted[0], sorted[1], "{layer}");
    }
    let known = drivers::generator::parse_layers("?").unwrap_err().message;
    let names: Vec<&str> = stream::LAYERS.iter().map(|l| l.0).collect();
    let (last, others) = names.split_last().unwrap();
    assert!(known.ends_with(&format!("{} or {last}", others.join(", "))), "{known}");
}

mod lines {
    use proptest::prelude::*;

    fn item() -> impl Strategy<Value = String> {
        let prefix = prop::sample::select(vec![
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.2.0.0/16",
            "0.0.0.0/0",
            "255.255.255.255/32",
            "10.0.0.1/8",
            "010.0.0.0/8",
            "10.0.0.0/08",
            "10.0.0.0/33",
            "10.0.0/8",
            "256.0.0.0/8",
            "10.0.0.0",
            "::/0",
            "2001:db8::/32",
            "2001:DB8::/32",
            "2001:db8:0::/48",
            "2001:db8::1/64",
            "::ffff:1.2.3.0/120",
            "x",
            "10.0.0.0/8x",
            "1.1.1.1/32",
        ]);
        let paths = prop::sample::select(vec![
            "via 192.0.2.2",
            "via 192.0.2.2",
            "via 192.0.2.2 left",
            "via left",
            "via 192.0.2.3 left weight 2, 192.0.2.4",
            "drop",
            "unreachable",
            "via fe80::1 left",
            "via fe80::1",
            "via 192.0.2.1",
            "via nowhere",
            "via 192.0.2.2 left weight 0",
            "via",
            "over 192.0.2.2",
            "via 192.0.2.2, 192.0.2.2",
            "drop it",
        ]);
        (prefix, paths).prop_map(|(prefix, paths)| format!("{prefix} {paths}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        /// A space at the end of each line keeps it out of the fast reader and means nothing.
        #[test]
        fn routes_read_fast_are_those_read_slowly(items in prop::collection::vec(item(), 2..30)) {
            let head = "interfaces:\n  left: {addresses: [192.0.2.1/24]}\nroutes:\n";
            let text = |end| head.to_string() + &items.iter().map(|i| format!("  - {i}{end}\n")).collect::<String>();
            let read = |text: &str| crate::yaml::load("x", text).map(|d| format!("{:?}", d.routes.iter().collect::<Vec<_>>()));
            let (fast, slow) = (text(""), text(" "));
            prop_assert!(crate::yaml::runs::shorten(&fast).is_some() && crate::yaml::runs::shorten(&slow).is_none());
            let errors = |r: Result<String, crate::yaml::Diagnostics>| {
                r.map_err(|e| e.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n"))
            };
            // The places of next hops are those of the first route that has them, and nobody sees them again.
            let blank = |r: Result<String, String>| r.map(|t| {
                t.split("Place {").map(|p| p.split_once('}').map_or(p, |x| x.1)).collect::<String>()
            });
            prop_assert_eq!(blank(errors(read(&fast))), blank(errors(read(&slow))));
        }
    }
}
