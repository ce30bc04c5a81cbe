//! `packet-generator`.

use super::part::{StreamOp, streams};
use crate::cli::commit;
use crate::first_layer::first_layer_fits;
use crate::router::Router;
use command::{Args, Command, CommandError, Output, Table};
use drivers::generator::{Layer, Rate, Size, parse_words};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    let list = "Streams and what they have sent";
    vec![
        Command::write("packet-generator new <stream:rest>", "Make a stream", new)
            .arg("stream", "NAME interface IF [ITEM VALUE]... data \"LAYER / LAYER / ...\"")
            .details(
                "Items are `node NODE` (ethernet-input by default), `rate PPS` or `rate max`, `count N`, `size BYTES`, \
                 `size LOW-HIGH [increment|random]`, `size imix`, `seed N` and `state enabled`. Layers are ethernet, \
                 vlan, arp, ipv4, ipv6, udp, tcp, icmp-echo, payload and raw, each with its fields; a value may be a \
                 range `LOW-HIGH`, with `increment` or `random`. The packets come in on the interface. A stream is \
                 disabled at first.",
            )
            .example(
                "packet-generator new s1 interface left rate 10k count 1000 size 64 \
                 data \"ethernet dst 02:fe:00:00:00:01 / ipv4 src 10.0.1.2 dst 10.0.2.2 / udp dport 9\"",
            ),
        Command::write("packet-generator enable [<stream:ref stream>]", "Start a stream, or all", |r, a| {
            enable(r, a, true)
        })
        .example("packet-generator enable s1"),
        Command::write("packet-generator disable [<stream:ref stream>]", "Stop a stream, or all", |r, a| {
            enable(r, a, false)
        })
        .example("packet-generator disable"),
        Command::write("packet-generator delete <stream:ref stream>", "Take a stream out", |r, a| {
            commit(r, vec![StreamOp::Delete(a.get("stream")?).into()])
        })
        .example("packet-generator delete s1"),
        Command::read("packet-generator show", list, |r, _| Ok(show(r))).example("packet-generator show"),
        Command::read("show packet-generator", list, |r, _| Ok(show(r))).example("show packet-generator"),
    ]
}

fn new(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
    let words: String = args.get("stream")?;
    let def = parse_words(&words).map_err(|e| {
        let error = args.error("stream", &e.message);
        let start = error.span.as_ref().map_or(0, |s| s.start) + e.at;
        error.at(start..start)
    })?;
    if let Some(Err(e)) = def.layers.first().map(|first| first_layer_fits(&def.node, first)) {
        let error = args.error("stream", &e);
        let word = def.layers.first().map_or("", Layer::name);
        let at = words.find("data").and_then(|data| words[data..].find(word).map(|at| data + at));
        let start = error.span.as_ref().map_or(0, |s| s.start) + at.unwrap_or(0);
        return Err(error.at(start..start));
    }
    commit(router, vec![StreamOp::Create(Box::new(def)).into()])
}

fn enable(router: &mut Router, args: &Args, on: bool) -> Result<Output, CommandError> {
    let names = match args.opt("stream")? {
        Some(name) => vec![name],
        None => streams(router).into_iter().map(|s| s.def.name).collect(),
    };
    commit(router, names.into_iter().map(|name| StreamOp::Enable { name, on }.into()).collect())
}

fn size(size: Option<&Size>) -> String {
    match size {
        None => "default".into(),
        Some(Size::Fixed(n)) => n.to_string(),
        Some(Size::Range { low, high, .. }) => format!("{low}-{high}"),
        Some(Size::Mix(list)) => list.iter().map(|(s, w)| format!("{s}:{w}")).collect::<Vec<_>>().join(","),
    }
}

fn show(router: &Router) -> Output {
    let mut table = Table::new()
        .left("Name")
        .left("Enabled")
        .right("Packets")
        .right("Bytes")
        .right("No buffer")
        .right("Limit")
        .right("Rate")
        .left("Size")
        .left("Interface")
        .left("Node")
        .left("Layers");
    for s in streams(router) {
        let d = &s.def;
        let layers: Vec<&str> = d.layers.iter().map(Layer::name).collect();
        table.row([
            d.name.as_str().into(),
            command::Cell::new(if s.running { "Yes" } else { "No" }, s.running),
            s.packets.into(),
            s.bytes.into(),
            s.no_buffer.into(),
            d.count.into(),
            match d.rate {
                Rate::Max => "max".into(),
                Rate::Pps(pps) => command::Cell::new(format!("{pps} pps"), pps),
            },
            size(d.size.as_ref()).into(),
            d.interface.as_str().into(),
            d.node.as_str().into(),
            layers.join(" / ").into(),
        ]);
    }
    Output::table(table)
}
