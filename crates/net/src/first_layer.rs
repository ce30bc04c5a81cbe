//! What packets must look like for a node that are made for it.

use drivers::generator::Layer;

/// The layer with which packets for the graph node `node` start; `None` for nodes that look at no header, or at any.
pub fn first_layer(node: &str) -> Option<&'static str> {
    const BY_BEGINNING: &[(&str, &str)] = &[
        ("ethernet-", "ethernet"),
        ("l2-", "ethernet"),
        ("interface-output", "ethernet"),
        ("arp-", "arp"),
        ("ip4-", "ipv4"),
        ("icmp4-", "ipv4"),
        ("ip6-", "ipv6"),
        ("icmp6-", "ipv6"),
    ];
    BY_BEGINNING.iter().find(|(beginning, _)| node.starts_with(beginning)).map(|(_, layer)| *layer)
}

/// Whether a packet for `node` may start with `layer`; the error says what would be right. Bytes are taken anywhere.
pub fn first_layer_fits(node: &str, layer: &Layer) -> Result<(), String> {
    match first_layer(node) {
        _ if matches!(layer, Layer::Raw(_) | Layer::Payload(_)) => Ok(()),
        Some(right) if right != layer.name() => {
            Err(format!("packets for {node} start with {right} (or raw), not with {}", layer.name()))
        }
        _ => Ok(()),
    }
}
