//! The grammar as commands use it: parsing, errors, completion, help.

// Helpers of the tests below panic as the tests themselves do.
#![allow(clippy::unwrap_used, clippy::panic)]

use command::{Access, Args, Command, CommandError, Completer, ErrorKind, Output, Parsed, Registry, Value};

#[derive(Default)]
struct Toy {
    interfaces: Vec<&'static str>,
    ran: usize,
}

impl Completer for Toy {
    fn values(&self, kind: &str, prefix: &str) -> Vec<String> {
        match kind {
            "interface" => {
                self.interfaces.iter().filter(|n| n.starts_with(prefix)).map(|n| (*n).to_owned()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn known(&self, kind: &str, name: &str) -> Option<bool> {
        (kind == "interface").then(|| self.interfaces.contains(&name))
    }
}

fn count(toy: &mut Toy, _: &Args) -> Result<Output, CommandError> {
    toy.ran += 1;
    Ok(Output::none())
}

const SYNTAXES: &[&str] = &[
    "show version",
    "show interface [addr] [<name:interface>]",
    "show ip fib [<prefix:prefix4>]",
    "show ip neighbors",
    "set interface state <name:interface> (up|down)",
    "set interface mtu [packet] <mtu:u32 128..9216 bytes> <name:interface>",
    "set interface ip address [del] <name:interface> <address:cidr>",
    "set interface mac address <name:interface> <mac:mac>",
    "create sub-interfaces <parent:interface> <id:u32 1..4294967295> \
     [dot1q (<vid:vlan>|any)|dot1ad (<vid:vlan>|any)] [inner-dot1q (<inner:vlan>|any)] [exact-match] [default]",
    "ip route (add|del) <prefix:prefix> paths:(via (<next:ip> [<out:interface>]|drop) [weight <weight:u8 1..>])...",
    "pcap trace [rx] [tx] [drop] [max <max:count>] [file <file:path>]",
    "ping <to:ip> [count <n:u32 1..1000>] [interval <time:duration>]",
    "log <words:string>...",
    "say <text:rest>",
];

fn registry() -> Registry<Toy> {
    let syntaxes: Vec<String> = SYNTAXES.iter().map(|s| s.replace("1..>", "1..255>")).collect();
    let command = |s: &String| match s.starts_with("show") {
        true => Command::read(s, "Look", count),
        false => Command::write(s, "Change", count),
    };
    Registry::new(syntaxes.iter().map(command).collect()).unwrap().topic("show", "Show state")
}

fn toy() -> Toy {
    Toy { interfaces: vec!["eth0", "eth1", "up", "addr", "a b"], ran: 0 }
}

fn parse(line: &str) -> (usize, Args) {
    match registry().parse(line, &toy()) {
        Ok(Parsed::Command(index, args)) => (index, args),
        Ok(other) => panic!("{line}: {other:?}"),
        Err(error) => panic!("{}", error.render(line)),
    }
}

fn error(line: &str) -> String {
    match registry().parse(line, &toy()) {
        Err(error) => error.render(line),
        Ok(parsed) => panic!("{line}: {parsed:?}"),
    }
}

#[test]
fn abbreviations_and_typed_arguments() {
    let (index, args) = parse("sh int");
    assert_eq!((index, args.words().collect::<Vec<_>>()), (1, vec!["show", "interface"]));
    let (_, args) = parse("set int mtu 9000 eth0");
    assert_eq!(args.get::<u32>("mtu"), Ok(9000));
    assert_eq!(args.get::<String>("name"), Ok("eth0".to_owned()));
    assert_eq!(args.opt::<u32>("absent"), Ok(None));
    assert!(args.get::<String>("mtu").is_err() && !args.has("packet"));
}

#[test]
fn keywords_win_unless_quoted() {
    let given = |line: &str| {
        let (_, args) = parse(line);
        (args.has("addr"), args.opt::<String>("name").unwrap())
    };
    assert_eq!(given("show interface addr"), (true, None));
    assert_eq!(given("show interface ad"), (true, None));
    assert_eq!(given("show interface \"addr\""), (false, Some("addr".to_owned())));
    assert_eq!(given("show interface addr addr"), (true, Some("addr".to_owned())));
    assert_eq!(given("show interface 'a b'"), (false, Some("a b".to_owned())));
    let (_, args) = parse("set interface state up up");
    assert!(args.has("up") && args.get::<String>("name").unwrap() == "up");
}

#[test]
fn optional_parts_in_any_order() {
    for line in [
        "create sub-interfaces eth0 10 dot1q 100 inner-dot1q 5 exact-match",
        "create sub eth0 10 exact inner 5 dot1q 100",
        "cr sub eth0 10 inner 5 exact-match dot1q 100",
    ] {
        let (_, args) = parse(line);
        assert_eq!((args.get::<u32>("id"), args.get::<u16>("vid")), (Ok(10), Ok(100)));
        assert_eq!(args.get::<u16>("inner"), Ok(5));
        assert!(args.has("exact-match") && args.has("dot1q") && !args.has("dot1ad"));
    }
    assert!(error("create sub-interfaces eth0 10 dot1q 1 dot1ad 2").contains("unknown word 'dot1ad'"));
    assert!(error("pcap trace rx rx").contains("unknown word 'rx'; expected one of: tx, drop, max, file"));
    let (_, args) = parse("pcap trace file /tmp/x max 2k rx");
    assert_eq!(args.get::<u64>("max"), Ok(2000));
    assert_eq!(args.get::<std::path::PathBuf>("file"), Ok("/tmp/x".into()));
}

#[test]
fn labelled_groups_repeat() {
    let (_, args) = parse("ip route add 10.0.0.0/8 via 1.1.1.1 eth0 weight 2 via drop via fe80::1 eth1");
    let paths: Vec<_> = args
        .groups("paths")
        .map(|p| {
            (
                p.opt::<std::net::IpAddr>("next").unwrap(),
                p.opt::<String>("out").unwrap(),
                p.opt("weight").unwrap(),
            )
        })
        .collect();
    assert_eq!(
        paths,
        [
            (Some("1.1.1.1".parse().unwrap()), Some("eth0".to_owned()), Some(2u8)),
            (None, None, None),
            (Some("fe80::1".parse().unwrap()), Some("eth1".to_owned()), None),
        ]
    );
    assert!(args.groups("paths").nth(1).unwrap().has("drop"));
    let (_, args) = parse("log a 'b c' d");
    assert_eq!(args.all::<String>("words").unwrap(), ["a", "b c", "d"]);
    let (_, args) = parse("say  hello  'old' world   # not this");
    assert_eq!(args.get::<String>("text").unwrap(), "hello  'old' world");
    let (_, args) = parse("say hello --json");
    assert_eq!((args.get::<String>("text").unwrap().as_str(), args.wants_json()), ("hello", true));
}

#[test]
fn errors_name_the_place_and_what_was_expected() {
    assert_eq!(
        error("set interface stat3 left up"),
        "set interface stat3 left up\n              ^ unknown word 'stat3'; did you mean 'state'? Expected one of: state, mtu, ip, mac"
    );
    assert_eq!(
        error("show version now"),
        "show version now\n             ^ unexpected 'now'; the command ends here"
    );
    assert_eq!(
        error("set interface mtu 99999 eth0"),
        "set interface mtu 99999 eth0\n                  ^ 99999 is out of range: <mtu> is 128..9216 bytes"
    );
    assert_eq!(
        error("create sub-interfaces eth0 5 dot1q 4096"),
        "create sub-interfaces eth0 5 dot1q 4096\n                                   ^ 4096 is out of range: <vid> is 1..4095"
    );
    assert_eq!(error("s"), "s\n^ 's' is ambiguous: show, set, say");
    assert_eq!(
        error("set interface st"),
        "set interface st\n                 ^ incomplete command; expected <name>"
    );
    assert_eq!(
        error("set interface state eth9 up"),
        "set interface state eth9 up\n                    ^ no interface 'eth9'; did you mean 'eth0'?"
    );
    assert_eq!(
        error("set interface state eth0"),
        "set interface state eth0\n                         ^ incomplete command; expected one of: up, down"
    );
    assert_eq!(error("say \"x"), "say \"x\n    ^ this quote is not closed");
    assert_eq!(error("ping x"), "ping x\n     ^ 'x' is not an IPv4 or IPv6 address");
    assert_eq!(
        error("show ip fib 10.1.0.0/8"),
        "show ip fib 10.1.0.0/8\n            ^ 10.1.0.0/8 has host bits; the prefix is 10.0.0.0/8"
    );
    assert_eq!(error("--json"), "--json\n^ a command must stand before --json");
}

#[test]
fn running_needs_the_right_and_the_whole_line() {
    let (registry, mut toy) = (registry(), toy());
    let denied = registry.run(&mut toy, Access::Read, "set interface state eth0 up").unwrap_err();
    assert_eq!(denied.kind, ErrorKind::Denied);
    assert!(registry.run(&mut toy, Access::Write, "set interface state eth0 up now").is_err());
    assert!(registry.run(&mut toy, Access::Read, "  # nothing").is_ok());
    assert_eq!(toy.ran, 0);
    assert!(registry.run(&mut toy, Access::Read, "show version --json").is_ok());
    assert!(registry.run(&mut toy, Access::Write, "set interface state eth0 up").is_ok());
    assert_eq!(toy.ran, 2);
}

#[test]
fn a_check_takes_names_that_do_not_exist_yet() {
    let registry = registry();
    assert!(registry.check("set interface state new0 up").is_ok());
    assert!(registry.check("show interface ad").is_ok());
    assert!(registry.check("set interface state new0 left").is_err());
}

#[test]
fn lifted_commands_run_on_a_part_of_the_context() {
    struct Outer(Toy);
    impl Completer for Outer {}
    let lifted = Command::read("show version", "Look", count).lift(|outer: &mut Outer| &mut outer.0);
    let mut outer = Outer(toy());
    Registry::new(vec![lifted]).unwrap().run(&mut outer, Access::Read, "show version").unwrap();
    assert_eq!(outer.0.ran, 1);
}

#[test]
fn faulty_registries_are_refused() {
    let make = |syntaxes: &[&str]| {
        Registry::new(syntaxes.iter().map(|s| Command::<Toy>::read(s, "", count)).collect())
            .err()
            .map(|e| e.to_string())
    };
    assert_eq!(make(&["show <x", "b"]).unwrap(), "command 'show <x': '>' is missing");
    assert!(make(&["show <x:u8>", "show <x:u32>"]).unwrap().contains("defined twice"));
    assert!(make(&["show x", "show y"]).is_none());
}

fn complete(line: &str) -> Vec<String> {
    let completion = registry().complete(line, line.len(), &toy());
    completion.candidates.into_iter().map(|c| c.text).collect()
}

#[test]
fn completion() {
    assert_eq!(complete("sh"), ["show"]);
    assert_eq!(complete("s"), ["show", "set", "say"]);
    assert_eq!(complete("show "), ["version", "interface", "ip"]);
    assert_eq!(complete("set int state e"), ["eth0", "eth1"]);
    assert_eq!(complete("set int state \"a"), ["addr", "\"a b\""]);
    assert_eq!(complete("set int state eth0 "), ["up", "down"]);
    assert_eq!(complete("cr sub eth0 5 exact-match "), ["dot1q", "dot1ad", "inner-dot1q", "default"]);
    assert_eq!(complete("help set int"), ["interface"]);
    assert!(complete("nonsense ").is_empty() && complete("show version # ").is_empty());
    let completion = registry().complete("pcap trace file /tm", 19, &toy());
    assert!(completion.path && completion.start == 16);
    let middle = registry().complete("set interface state", 5, &toy());
    assert_eq!((middle.start, middle.candidates[0].text.as_str()), (4, "interface"));
}

#[test]
fn help_lists_what_may_follow() {
    let (registry, mut toy) = (registry(), toy());
    let help = registry.help("", &toy);
    assert!(help.contains("  show    Show state\n") && help.contains("  create  Change\n"), "{help}");
    assert_eq!(
        registry.help("set interface ", &toy),
        "  state  Change\n  mtu    Change\n  ip     Change\n  mac    Change\n"
    );
    assert_eq!(
        registry.help("ping 1.1.1.1 ", &toy),
        "  count     a number 1..1000\n  interval  a time such as 500ms, 2s or 1m\n  <cr>      Change\n"
    );
    assert_eq!(
        registry.help("set interface mtu ", &toy).lines().last().unwrap(),
        "  <mtu>   a number 128..9216 bytes"
    );
    assert!(registry.help("bogus ", &toy).contains("^ unknown word 'bogus'"));
    for line in ["set interface ?", "help set interface"] {
        let text = registry.run(&mut toy, Access::Read, line).unwrap().to_text();
        assert!(text.starts_with("  state  Change\n"), "{text}");
    }
    assert!(
        registry.run(&mut toy, Access::Read, "set int?").unwrap().to_text().contains("interface  state, mtu")
    );
}

#[test]
fn the_reference_page() {
    let command = Command::<Toy>::write("set mtu [packet] <mtu:u32 1..9 bytes>", "Set the MTU", count)
        .arg("mtu", "greatest packet")
        .arg("packet", "of packets")
        .details("More.")
        .example("set mtu 5");
    let registry = Registry::new(vec![command]).unwrap();
    assert!(registry.check_examples().is_empty());
    let page = registry.markdown();
    assert!(page.contains("\n## set mtu\n\n```\nset mtu [packet] <mtu>\n```\n\nSet the MTU. Needs the right to change.\n\nMore.\n"));
    assert!(
        page.contains("\n- `<mtu>`: a number 1..9 bytes: greatest packet\n- `packet`: of packets\n"),
        "{page}"
    );
    assert!(page.contains("\nExamples:\n\n```\nset mtu 5\n```\n"));
    let wrong = Registry::new(vec![Command::<Toy>::read("a b", "", count).example("a c")]).unwrap();
    assert_eq!(wrong.check_examples().len(), 1);
}

mod random {
    use super::*;
    use proptest::prelude::*;

    /// A command line for syntax number `index`, with what parsing must give.
    fn sentence() -> impl Strategy<Value = (usize, String, Vec<(&'static str, Value)>)> {
        let name = prop::sample::select(vec!["eth0", "eth1", "up", "\"addr\"", "'a b'"]);
        let plain = |n: &str| Value::Text(n.trim_matches(['"', '\'']).to_owned());
        let state = (name.clone(), prop::sample::select(vec!["up", "down", "d", "u"]))
            .prop_map(move |(n, s)| (4, format!("set  interface state {n} {s}"), vec![("name", plain(n))]));
        let mtu = (128u64..=9216, name.clone(), prop::sample::select(vec!["", "packet ", "p "])).prop_map(
            move |(m, n, p)| {
                (
                    5,
                    format!("set interface mtu {p}{m} {n} # x"),
                    vec![("mtu", Value::Uint(m)), ("name", plain(n))],
                )
            },
        );
        let mac = (any::<[u8; 6]>(), name.clone()).prop_map(move |(m, n)| {
            let text: Vec<_> = m.iter().map(|b| format!("{b:02x}")).collect();
            let line = format!("se in ma ad {n} {}", text.join(":"));
            (7, line, vec![("name", plain(n)), ("mac", Value::Mac(m))])
        });
        let sub = (1u64..=u32::MAX.into(), 1u64..4096, 1u64..4096, name)
            .prop_flat_map(move |(id, vid, inner, n)| {
                let parts =
                    vec![format!("dot1q {vid}"), format!("inner-dot1q {inner}"), "exact-match".to_owned()];
                (Just((id, vid, inner, n)), Just(parts).prop_shuffle())
            })
            .prop_map(move |((id, vid, inner, n), parts)| {
                let line = format!("create sub-interfaces {n} {id} {}", parts.join("\t"));
                let values = vec![
                    ("parent", plain(n)),
                    ("id", Value::Uint(id)),
                    ("vid", Value::Uint(vid)),
                    ("inner", Value::Uint(inner)),
                ];
                (8, line, values)
            });
        prop_oneof![state, mtu, mac, sub]
    }

    /// Lines made of pieces of the grammar, so that random input gets somewhere.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            3 => prop::sample::select(SYNTAXES.join(" ").split([' ', '[', ']', '(', ')', '|']).map(str::to_owned).collect::<Vec<_>>()),
            1 => prop::sample::select(vec!["eth0", "10.0.0.0/8", "1.1.1.1", "5", "--json", "?", "#", "'", "\"", "s", "via", "weight"]).prop_map(str::to_owned),
            1 => any::<String>(),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.join(" "))
    }

    proptest! {
        #[test]
        fn what_is_rendered_parses_back((index, line, values) in sentence()) {
            let (found, args) = parse(&line);
            prop_assert_eq!(found, index);
            for (name, value) in values {
                prop_assert_eq!(args.opt::<Value>(name).unwrap(), Some(value), "{}", name);
            }
        }

        #[test]
        fn any_text_is_answered(line in prop_oneof![any::<String>(), pieces()], cursor in any::<usize>()) {
            let (registry, toy) = (registry(), toy());
            if let Err(error) = registry.parse(&line, &toy) {
                prop_assert!(!error.render(&line).is_empty());
            }
            let _ = registry.check(&line);
            registry.help(&line, &toy);
            let completion = registry.complete(&line, cursor % (line.len() + 2), &toy);
            prop_assert!(line.is_char_boundary(completion.start));
        }

        /// A completed word never stands at the place of an error.
        #[test]
        fn completions_are_accepted(line in pieces(), cut in any::<prop::sample::Index>()) {
            let (registry, toy) = (registry(), toy());
            let mut cursor = cut.index(line.len() + 1);
            while !line.is_char_boundary(cursor) {
                cursor -= 1;
            }
            let completion = registry.complete(&line, cursor, &toy);
            for candidate in completion.candidates {
                let whole = format!("{}{}", &line[..completion.start], candidate.text);
                if let Err(error) = registry.check(&whole) {
                    let span = error.span.clone().unwrap();
                    prop_assert!(span.start > completion.start, "{}", error.render(&whole));
                }
            }
        }
    }

    #[test]
    fn the_longest_lines_are_answered_soon() {
        let (registry, toy) = (registry(), toy());
        let start = std::time::Instant::now();
        for line in [
            "x ".repeat(32_000),
            format!("log {}", "x ".repeat(32_000)),
            format!("say {}", "x ".repeat(32_000)),
            format!("ip route add 10.0.0.0/8 {}", "via 1.1.1.1 weight 3 ".repeat(3000)),
            "'".repeat(65_536),
            "\\".repeat(65_536),
        ] {
            let _ = registry.parse(&line, &toy).map_err(|error| error.render(&line));
            registry.complete(&line, line.len(), &toy);
        }
        assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    }
}

#[test]
fn words_of_another_router_are_no_abbreviations() {
    let registry = registry().elsewhere(&["show inter", "set int name rx", "pcap trace dr"]);
    let read = |line: &str| registry.parse(line, &toy()).is_ok();
    assert!(read("show interface") && read("sh interf"), "other abbreviations stay");
    for line in ["show inter", "sh inter", "show inter eth0"] {
        let error = registry.parse(line, &toy()).unwrap_err().render(line);
        assert!(error.contains("unknown word 'inter'"), "{error}");
    }
    assert!(read("pcap trace dro") && read("pcap trace rx dr"), "only where the other router has it");
    assert!(!read("pcap trace dr") && registry.check("pcap trace dr").is_err());
}

/// A registry with an alias, words of another program, and things that have a number.
mod foreign {
    use super::{count, error as plain_error};
    use command::{Access, Args, Command, CommandError, Completer, Output, Parsed, Registry};

    struct Tables(Option<u32>);

    impl Completer for Tables {
        fn values(&self, kind: &str, prefix: &str) -> Vec<String> {
            let names = ["red", "blue"].into_iter().filter(|n| n.starts_with(prefix));
            if kind == "table" { names.map(str::to_owned).collect() } else { vec![] }
        }

        fn number(&self, kind: &str, name: &str) -> Option<u64> {
            match (kind, name) {
                ("table", "red") => Some(7),
                ("table", "blue") => Some(8),
                _ => None,
            }
        }
    }

    fn fib(tables: &mut Tables, args: &Args) -> Result<Output, CommandError> {
        tables.0 = args.opt("table")?;
        Ok(Output::text(args.words().collect::<Vec<_>>().join(" ")))
    }

    fn registry() -> Registry<Tables> {
        let show = Command::read("show ip fib [table <table:number table>]", "Routes", fib)
            .alias("show ip route [table <table:number table>]")
            .alias("rib");
        let reset = Command::write("reset", "Start anew", |_: &mut Tables, _| Ok(Output::none()));
        let neighbors =
            Command::read("show ip neighbors", "Neighbors", |_: &mut Tables, _| Ok(Output::none()));
        Registry::new(vec![show, reset, neighbors])
            .unwrap()
            .foreign("nat44", "there is no NAT here")
            .foreign("show nat44 sessions", "there are no sessions of NAT here")
    }

    fn error(line: &str) -> String {
        registry().parse(line, &Tables(None)).unwrap_err().message
    }

    #[test]
    fn aliases_run_the_command_and_stay_out_of_the_way() {
        let (registry, mut tables) = (registry(), Tables(None));
        for (line, words, table) in [
            ("show ip route table red", "show ip route table", Some(7)),
            ("sh ip fib table 9", "show ip fib table", Some(9)),
            ("rib", "rib", None),
        ] {
            let said = registry.run(&mut tables, Access::Read, line).unwrap().to_text();
            assert_eq!((said.trim(), tables.0), (words, table), "{line}");
        }
        // `r` is short for the command's word, not for the alias.
        assert!(matches!(registry.check("r"), Ok(Parsed::Command(1, _))));
        let help = registry.help("", &());
        assert!(help.contains("reset") && !help.contains("rib"), "{help}");
        assert_eq!(
            registry.help("show ip route ", &()),
            "  table  the number or name of a table\n  <cr>   Routes\n"
        );
        assert!(
            registry
                .markdown()
                .contains("The same in other words:\n\n```\nshow ip route [table <table>]\nrib\n```")
        );
        assert!(
            Registry::new(vec![Command::read("a b", "", count), Command::read("c", "", count).alias("a b")])
                .is_err()
        );
    }

    #[test]
    fn unknown_words_get_a_hint() {
        assert_eq!(error("nat44 add"), "there is no NAT here");
        assert_eq!(error("show nat44 ses"), "there are no sessions of NAT here");
        assert_eq!(
            error("shwo ip fib"),
            "unknown word 'shwo'; did you mean 'show'? Expected one of: show, reset"
        );
        assert_eq!(
            error("show neighbors"),
            "unknown word 'neighbors'; did you mean 'show ip neighbors'? Expected ip"
        );
        assert_eq!(error("show ip fib table green"), "'green' is not a number, nor a name: red, blue");
        let said = plain_error("set interface state eth9 up");
        assert!(said.ends_with("^ no interface 'eth9'; did you mean 'eth0'?"), "{said}");
        assert_eq!(error("x"), "unknown word 'x'; expected one of: show, reset");
    }

    #[test]
    fn comments_of_one_line_are_blank() {
        for line in ["! notes", "# notes", "comment { don't mind }"] {
            assert_eq!(registry().check(line), Ok(Parsed::Blank), "{line}");
        }
        assert!(registry().check("comment { x").unwrap_err().message.contains("not closed"));
    }

    #[test]
    fn filters_are_completed() {
        let completion = registry().complete("rib | ex", 8, &());
        assert_eq!((completion.start, completion.candidates[0].text.as_str()), (6, "exclude"));
        assert!(registry().help("rib | ", &()).starts_with("  include  only lines"));
        assert!(registry().complete("no-command | ex", 15, &()).candidates.is_empty());
        assert!(registry().complete("rib | nothing | ex", 18, &()).candidates.is_empty());
        assert_eq!(registry().complete("rib | include x | ex", 20, &()).candidates.len(), 1);
    }
}

#[test]
fn secrets_are_not_shown_however_their_line_is_written() {
    let tells = |line: &str| line.contains(".secret");
    let set = Command::write("configuration set <place:string> <value:string>", "Change", count)
        .secret_where("value", tells);
    let registry = Registry::new(vec![set, Command::read("show version", "Look", count)]).unwrap();
    for (line, shown) in [
        ("configuration set a.mtu 1500", "configuration set a.mtu 1500"),
        ("configuration set a.secret s3cr3t", "configuration set a.secret (hidden)"),
        ("configuration set a.sec\"\"ret s3cr3t", "configuration set a.sec\"\"ret (hidden)"),
        ("conf set a.secret s3cr3t", "conf set a.secret (hidden)"),
        ("configuration set a.secret s3cr3t ?", "configuration ..."),
        ("configuration set a.secret s3cr3t more", "configuration ..."),
        ("\"configuration\" set a.secret s3cr3t", "\"configuration\" ..."),
        ("# configuration", "# configuration"),
        ("show version ?", "show version ?"),
    ] {
        assert_eq!(registry.shown(line), shown);
    }
}
