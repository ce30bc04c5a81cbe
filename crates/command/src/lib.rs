//! The command language: one definition of a command gives its parser, its help, its completion, its
//! reference page and its JSON. Nothing here knows a protocol.
//!
//! A command is a syntax string and a function:
//!
//! ```
//! use command::{Access, Args, Command, CommandError, Output, Registry};
//!
//! struct Router { mtu: u32 }
//! impl command::Completer for Router {}
//!
//! fn set_mtu(router: &mut Router, args: &Args) -> Result<Output, CommandError> {
//!     router.mtu = args.get("mtu")?;
//!     Ok(Output::none())
//! }
//!
//! let registry = Registry::new(vec![
//!     Command::write("set mtu <mtu:u32 128..9216 bytes>", "Set the MTU", set_mtu).example("set mtu 9000"),
//! ])?;
//! let mut router = Router { mtu: 1500 };
//! registry.run(&mut router, Access::Write, "set mtu 9000")?;
//! assert_eq!(router.mtu, 9000);
//! let error = registry.run(&mut router, Access::Write, "set mtu 10").err().map(|e| e.render("set mtu 10"));
//! assert_eq!(error.as_deref(), Some("set mtu 10\n        ^ 10 is out of range: <mtu> is 128..9216 bytes"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The syntax string
//!
//! | form | meaning |
//! |---|---|
//! | `word` | a keyword; the operator may shorten it to any unambiguous prefix, but see [`Registry::elsewhere`] |
//! | `<name:type>` | a typed argument, see [`ArgType`]; without a type a string |
//! | `(a\|b c\|d)` | exactly one of the alternatives |
//! | `[a\|b]` | one of the alternatives, or nothing |
//! | `[a] [b] [c]` | neighbouring optional parts come in any order, each at most once |
//! | `(...)...`, `<x:ip>...` | one or more times |
//! | `[...]...` | any number of times |
//! | `label:(...)`, `label:[...]` | the arguments inside are read with [`Args::groups`], one [`Args`] a repetition |
//!
//! Keywords that were given are asked for with [`Args::has`]. A word in quotes is never taken for a keyword. `#`
//! starts a comment, and so does `!` at the beginning of a line; `comment {...}` is one that may have several lines. A
//! line may end in filters, see [`Filters`]. A line may end in `--json`, and a `?` at its end asks what may follow.

mod args;
mod caller;
mod comment;
mod complete;
mod completer;
mod definition;
mod elsewhere;
mod error;
mod filter;
mod help;
mod hint;
mod lexer;
mod matcher;
mod near;
mod output;
mod page;
mod program;
mod registry;
mod syntax;
mod table;
mod types;
mod value;

pub use args::Args;
pub use caller::{Access, Caller, Client, NOBODY, Remote, Role};
pub use comment::Comments;
pub use complete::{Candidate, Completion};
pub use completer::Completer;
pub use definition::{Command, Run};
pub use error::{CommandError, ErrorKind, Fault, SyntaxError};
pub use filter::{Filters, split_filters};
pub use lexer::{MAX_LINE, in_quotes, quote};
pub use output::{Emit, Output, Pieces, Running, Stream};
pub use page::Page;
pub use registry::{HIDDEN, Parsed, Registry, asks_json};
pub use table::{Cell, Table, Widths};
pub use types::ArgType;
pub use value::{FromValue, Value};
