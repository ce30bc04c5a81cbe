//! The list of commands is sound, and its reference page is current.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

#[test]
fn every_example_parses() {
    let registry = control::commands::registry().unwrap();
    assert_eq!(registry.check_examples(), Vec::<String>::new());
}

#[test]
fn the_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let text = control::commands::registry().unwrap().markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "docs/commands.md is not what the commands say: run `UPDATE_DOCS=1 cargo test -p control --test commands`"
    );
}

mod ping {
    use command::{Access, Emit, Output, Registry};
    use control::commands::App;
    use graph::{PoolConfig, PoolMemory};
    use net::router::{Router, RouterConfig};
    use serde_json::Value as Json;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    struct Bench {
        registry: Registry<App>,
        app: App,
    }

    impl Bench {
        fn new() -> Bench {
            let pool = PoolConfig { buffers: 2048, memory: PoolMemory::Normal };
            let router = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
            let mut bench = Bench {
                registry: control::commands::registry().unwrap(),
                app: App::new(Rc::new(RefCell::new(router)), control::yaml::Settings::default()),
            };
            for line in [
                "create loopback interface",
                "set interface state loop0 up",
                "set interface ip address loop0 10.0.0.1/24",
                "set interface ip address loop0 2001:db8::1/64",
            ] {
                bench.run(line).unwrap();
            }
            bench
        }

        /// Runs a line to its end, handing on what workers tell the control side meanwhile.
        fn run(&mut self, line: &str) -> Result<(Vec<String>, String, Json), String> {
            let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let output = self.registry.run(&mut self.app, Access::Write, line).map_err(|e| e.render(line))?;
            let lines = Rc::new(RefCell::new(vec![]));
            let said = lines.clone();
            let emit = Emit::new(move |text| {
                said.borrow_mut().push(text.to_owned());
                true
            });
            let stream = match output.into_stream() {
                Ok(stream) => stream,
                Err(output) => return Ok((vec![], output.to_text(), output.to_json())),
            };
            let router = Rc::clone(self.app.router());
            let pump = async move {
                loop {
                    router.borrow_mut().handle_punts();
                    router.borrow_mut().tick();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            let end = tokio.block_on(async {
                tokio::select! {
                    end = stream.start(emit) => end,
                    () = pump => unreachable!(),
                }
            });
            let end = end.map_err(|e| e.render(line))?;
            Ok((lines.take(), end.to_text(), end.to_json()))
        }
    }

    impl Bench {
        /// Runs a line whose answer comes page by page.
        fn whole(&mut self, line: &str, json: bool) -> Output {
            let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let output = self.registry.run(&mut self.app, Access::Write, line).unwrap();
            let output = match output.into_stream() {
                Ok(stream) => tokio.block_on(stream.start(Emit::new(|_| true))).unwrap(),
                Err(output) => output,
            };
            output.whole(&mut self.app, json).unwrap()
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            self.app.router().borrow_mut().shutdown();
        }
    }

    #[test]
    fn the_routers_own_addresses_answer() {
        let mut b = Bench::new();
        for to in ["10.0.0.1", "2001:db8::1"] {
            let (lines, end, json) =
                b.run(&format!("ping {to} repeat 3 interval 10ms size 100 timeout 10s")).unwrap();
            assert_eq!(lines.len(), 3, "{to}: {lines:?} {end}");
            assert!(
                lines[0].starts_with(&format!("108 bytes from {to}: icmp_seq=1 ttl=64 time=")),
                "{lines:?}"
            );
            assert!(
                end.starts_with("\nStatistics: 3 sent, 3 received, 0% packet loss\nrtt min/avg/max = "),
                "{end}"
            );
            assert_eq!((&json["received"], &json["replies"][2]["seq"]), (&3.into(), &3.into()));
        }
    }

    /// Routes of sources at run time are named beside what differs, and are no part of it.
    #[test]
    fn routes_of_others_are_no_difference() {
        let mut b = Bench::new();
        {
            let mut router = b.app.router().borrow_mut();
            let source = router.route_source("kernel:bird", 20).unwrap();
            let mut batch = router.route_batch(source, 0);
            let target = batch.target(net::router::Target::Drop);
            batch.set("10.9.0.0/16".parse().unwrap(), target);
            router.commit(vec![net::router::Op::Routes(batch)]).unwrap();
        }
        b.run("ip route add 10.8.0.0/16 via 10.0.0.9 preference 5").unwrap();
        let file = std::env::temp_dir().join(format!("quiver-owners-{}.yaml", std::process::id()));
        std::fs::write(&file, "loopbacks:\n  loop0: {addresses: [10.0.0.1/24, \"2001:db8::1/64\"]}\n")
            .unwrap();
        let diff = format!("configuration diff {}", file.display());
        let (text, json) = (b.whole(&diff, false).to_text(), b.whole(&diff, true).to_json());
        std::fs::remove_file(&file).unwrap();
        assert!(text.contains("- route 10.8.0.0/16: via 10.0.0.9 preference 5\n"), "{text}");
        assert!(text.ends_with("= kernel:bird: 1 route\n") && !text.contains("10.9.0.0"), "{text}");
        let last = json.as_array().and_then(|l| l.last()).unwrap();
        assert_eq!((&last["verb"], &last["what"]), (&"other".into(), &"kernel:bird: 1 route".into()));
        let dump = b.whole("show configuration", false).to_text();
        assert!(
            dump.contains("10.8.0.0/16 preference 5 via 10.0.0.9") && !dump.contains("10.9.0.0"),
            "{dump}"
        );
    }

    #[test]
    fn silence_is_counted_as_loss() {
        let mut b = Bench::new();
        let (lines, end, json) = b.run("ping 10.0.0.77 repeat 2 interval 10ms timeout 20ms").unwrap();
        assert_eq!((lines.len(), end.as_str()), (0, "\nStatistics: 2 sent, 0 received, 100% packet loss\n"));
        assert_eq!(json["rtt"], Json::Null);
    }

    #[test]
    fn a_wrong_ping_is_refused_with_its_place() {
        let mut b = Bench::new();
        b.run("ip route add 192.0.2.0/24 via prohibit").unwrap();
        for (line, says) in [
            (
                "ping 10.0.0.1 source 2001:db8::1",
                "                     ^ 2001:db8::1 and 10.0.0.1 are of different families",
            ),
            (
                "ping 10.0.0.1 source 10.9.9.9",
                "                     ^ 10.9.9.9 is not an address of the router",
            ),
            ("ping 203.0.113.9", "     ^ there is no route to 203.0.113.9"),
            ("ping 192.0.2.1", "     ^ the route to 192.0.2.1 drops packets: prohibit"),
            ("ping fe80::1", "     ^ fe80::1 needs an interface, as in 'source left'"),
            ("ping 10.0.0.1 interval 1ms", "                       ^ the interval is 10ms to 1h"),
        ] {
            assert_eq!(b.run(line).unwrap_err(), format!("{line}\n{says}"));
        }
    }
}
