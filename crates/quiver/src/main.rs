//! Quiver: a software router. One binary runs it and talks to it.

mod bench;
mod ctl;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A software router that forwards vectors of packets.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Debug, Subcommand)]
enum Sub {
    Run(run::Run),
    Check(run::Check),
    /// Prints the JSON Schema of configurations, by which editors complete and check them.
    Schema,
    Clean(run::Clean),
    Ctl(ctl::Ctl),
    Dump(ctl::Dump),
    Diff(ctl::Diff),
    Plan(ctl::Plan),
    Apply(ctl::Apply),
    Confirm(ctl::Confirm),
    Rollback(ctl::Rollback),
    History(ctl::History),
    Save(ctl::Save),
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Sub::Run(arguments) => run::run(&arguments),
        Sub::Check(arguments) => run::check(&arguments),
        Sub::Schema => schema(),
        Sub::Clean(arguments) => run::clean(&arguments),
        Sub::Ctl(arguments) => ctl::run(&arguments),
        Sub::Dump(arguments) => ctl::dump(&arguments),
        Sub::Diff(arguments) => arguments.run(),
        Sub::Plan(arguments) => arguments.run(),
        Sub::Apply(arguments) => arguments.run(),
        Sub::Confirm(arguments) => arguments.run(),
        Sub::Rollback(arguments) => arguments.run(),
        Sub::History(arguments) => arguments.run(),
        Sub::Save(arguments) => arguments.run(),
        Sub::Bench(arguments) => bench::run(&arguments),
    }
}

/// It is made of what reads configurations; a test of `control` tells when it is stale.
fn schema() -> ExitCode {
    use std::io::Write;
    const SCHEMA: &str = include_str!("../../../docs/schema.json");
    match std::io::stdout().lock().write_all(SCHEMA.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
