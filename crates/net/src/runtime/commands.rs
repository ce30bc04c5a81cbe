//! `show runtime`, `show errors`, `show trace` and their like.

use super::{counters, show, trace};
use crate::router::Router;
use command::{Command, Output};

/// The commands.
pub fn all() -> Vec<Command<Router>> {
    vec![
        Command::read("show version [verbose]", "The version of the program", show::version)
            .arg("verbose", "and the processor, workers, buffers and tables")
            .example("show version"),
        Command::read("show runtime [max|verbose]", "What each worker and node has done", show::runtime)
            .arg("max", "and the largest vector of each node")
            .arg("verbose", "and the nodes that did nothing")
            .details(
                "Since the start or `clear runtime`. Rates are packets a second; clocks are processor clocks a packet. \
                 An input that waits for packets without turning is in `interrupt wait`.",
            )
            .example("show runtime"),
        Command::read("show errors [verbose]", "Dropped packets and other events by node and reason", show::errors)
            .alias("show node counters [verbose]")
            .arg("verbose", "and what the reasons mean")
            .example("show errors"),
        Command::read("show counters [<counter:ref counter>]", "All counters and what they mean, or the values of one", counters::show)
            .arg("counter", "one of those that the list shows")
            .details(
                "Values are those since the start, whatever was cleared; those that are 0 are left out. The list says in which file \
                 other processes find them without asking the router (docs/counters.md).",
            )
            .example("show counters")
            .example("show counters interface-rx/packets"),
        Command::read("show trace [max <packets:u32 1..10000 packets>]", "The path of traced packets", trace::show)
            .arg("packets", "of each worker; 50 by default")
            .details("`trace add` says which packets are traced.")
            .example("show trace max 5"),
        Command::read("show buffers", "Packet buffers and who has them", show::buffers)
            .details("Available are free for all, cached are free for one worker, used belong to packets.")
            .example("show buffers"),
        Command::read("show threads", "The threads, their processors and inputs", show::threads)
            .example("show threads"),
        Command::read("show node [<node:ref node>]", "Nodes of the graph, or one with its edges and counters", show::node)
            .example("show node ip4-input"),
        Command::read("show graph [dot]", "Nodes of the graph and where each sends packets", show::graph)
            .alias("show vlib (graph|graphviz)")
            .arg("dot", "in Graphviz's language")
            .details("Edges that begin with `@` name a feature arc; `show features` lists those.")
            .example("show graph dot"),
        Command::write("trace add <node:ref node> <packets:u32 1..10000 packets>", "Trace the next packets at a node", trace::add)
            .arg("node", "where tracing begins: an input such as af-packet-input, or any other node")
            .arg("packets", "so many of each worker")
            .example("trace add af-packet-input 10"),
        clear("clear runtime", "Start the counters of workers and nodes at 0", Router::clear_runtime),
        clear("clear errors", "Start the counters of errors at 0", Router::clear_errors).alias("clear node counters"),
        clear("clear trace", "Forget traced packets and trace no more", Router::trace_clear),
    ]
}

fn clear(words: &str, help: &str, run: fn(&mut Router)) -> Command<Router> {
    let command = Command::write(words, help, move |router, _| {
        run(router);
        Ok(Output::none())
    });
    command.example(words)
}
